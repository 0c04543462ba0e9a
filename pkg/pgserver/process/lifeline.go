package process

import (
	"fmt"
	"io"
	"os/exec"
	"strings"
	"sync"
	"syscall"
)

// helperScript reads lines until its input ends. The input ends without "end" only when the holder died, however it
// died: then everything still listed is signalled, given five seconds, signalled again, and the given folders are
// removed. A pipe is used because it works the same on Linux and macOS and cannot be missed.
const helperScript = `
set -f
list=
remove=
while read -r verb rest; do
	case $verb in
	add) list="$list $rest" ;;
	del)
		kept=
		for entry in $list; do
			[ "${entry%%:*}" = "$rest" ] || kept="$kept $entry"
		done
		list=$kept
		;;
	rm) remove=$rest ;;
	end) exit 0 ;;
	esac
done
signal() {
	for entry in $list; do
		pid=${entry%%:*}
		names=${entry#*:}
		kill -0 "$pid" 2>/dev/null || continue
		case $1 in
		first) kill -s "${names%%:*}" "$pid" 2>/dev/null ;;
		last) kill -s "${names#*:}" "$pid" 2>/dev/null ;;
		esac
	done
}
left() {
	for entry in $list; do
		kill -0 "${entry%%:*}" 2>/dev/null && return 0
	done
	return 1
}
signal first
turns=0
while left && [ $turns -lt 50 ]; do
	sleep 0.1
	turns=$((turns + 1))
done
signal last
turns=0
while left && [ $turns -lt 50 ]; do
	sleep 0.1
	turns=$((turns + 1))
done
[ -z "$remove" ] || rm -rf -- "$remove"
`

// Lifeline ends child processes when the process that holds it dies without stopping them itself: killed, crashed, or
// ended by a test's time limit. While the holder lives it does nothing.
type Lifeline struct {
	mu     sync.Mutex
	pipe   io.WriteCloser
	helper *exec.Cmd
}

// NewLifeline starts the helper process, a shell in a session of its own so that a Ctrl-C at the terminal does not
// reach it.
func NewLifeline() (*Lifeline, error) {
	cmd := exec.Command("/bin/sh", "-c", helperScript, "queen-lifeline")
	cmd.Dir = "/"
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	pipe, err := cmd.StdinPipe()
	if err != nil {
		return nil, fmt.Errorf("open the lifeline's pipe: %w", err)
	}
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("start the lifeline: %w", err)
	}
	return &Lifeline{pipe: pipe, helper: cmd}, nil
}

// Add puts pid under the lifeline. After the holder's death the process gets first, and last if it still runs five
// seconds later.
func (l *Lifeline) Add(pid int, first, last syscall.Signal) error {
	return l.write(fmt.Sprintf("add %d:%s:%s", pid, signalName(first), signalName(last)))
}

// Remove takes pid off again. Call it once the process was waited for, because its number may then be given away.
func (l *Lifeline) Remove(pid int) error {
	return l.write(fmt.Sprintf("del %d", pid))
}

// RemoveFolder names one folder that is deleted after the holder's death, when the processes have ended. The last call
// counts. The path must not hold a newline.
func (l *Lifeline) RemoveFolder(path string) error {
	if strings.ContainsAny(path, "\r\n") {
		return fmt.Errorf("lifeline folder %q: line breaks are not possible here", path)
	}
	return l.write("rm " + path)
}

// Close ends the helper without touching any process and waits for it.
func (l *Lifeline) Close() error {
	err := l.write("end")
	l.mu.Lock()
	closeErr := l.pipe.Close()
	l.mu.Unlock()
	if waitErr := l.helper.Wait(); err == nil {
		err = waitErr
	}
	if err == nil {
		err = closeErr
	}
	return err
}

func (l *Lifeline) write(line string) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if _, err := io.WriteString(l.pipe, line+"\n"); err != nil {
		return fmt.Errorf("tell the lifeline: %w", err)
	}
	return nil
}

// signalName gives the portable name that `kill -s` understands; numbers differ between systems.
func signalName(s syscall.Signal) string {
	switch s {
	case syscall.SIGINT:
		return "INT"
	case syscall.SIGQUIT:
		return "QUIT"
	case syscall.SIGKILL:
		return "KILL"
	default:
		return "TERM"
	}
}
