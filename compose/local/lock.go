package local

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
)

// RunningError says that a stack already runs in the folder.
type RunningError struct {
	Dir  string
	PID  int    // of its runner; 0 when it is just starting
	Edge string // its address; empty while it is starting
}

func (e *RunningError) Error() string {
	text := "a stack already runs in " + e.Dir
	if e.Edge != "" {
		text += ", its edge is " + e.Edge
	}
	return text + " (make down stops it)"
}

// takeLock makes this program the runner of the folder. The lock is the system's: it ends with the program, however that
// ends, so a lock file alone means nothing.
func takeLock(dir string) (*os.File, error) {
	file, err := os.OpenFile(filepath.Join(dir, "lock"), os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, fmt.Errorf("open the stack's lock: %w", err)
	}
	if err := syscall.Flock(int(file.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		_ = file.Close()
		if !errors.Is(err, syscall.EWOULDBLOCK) {
			return nil, fmt.Errorf("lock %s: %w", file.Name(), err)
		}
		running := &RunningError{Dir: dir, PID: lockHolder(dir)}
		if state, err := ReadState(dir); err == nil {
			running.Edge = state.Edge
		}
		return nil, running
	}
	return file, nil
}

// releaseLock ends the lock at once. Closing alone would leave it to a child that is just being started: it shares the
// file until its own program runs.
func releaseLock(lock *os.File) error {
	return errors.Join(syscall.Flock(int(lock.Fd()), syscall.LOCK_UN), lock.Close())
}

// sign writes who holds the lock, for Down.
func sign(lock *os.File) error {
	if err := lock.Truncate(0); err != nil {
		return fmt.Errorf("sign the stack's lock: %w", err)
	}
	if _, err := lock.WriteAt([]byte(strconv.Itoa(os.Getpid())+"\n"), 0); err != nil {
		return fmt.Errorf("sign the stack's lock: %w", err)
	}
	return nil
}

// lockHolder is the process id in the lock file, or 0. It is worth something only while the lock is held.
func lockHolder(dir string) int {
	raw, err := os.ReadFile(filepath.Join(dir, "lock"))
	if err != nil {
		return 0
	}
	pid, err := strconv.Atoi(strings.TrimSpace(string(raw)))
	if err != nil {
		return 0
	}
	return pid
}

// Running returns a *RunningError when a stack runs in the folder, nil when none does.
func Running(dir string) error {
	dir, err := filepath.Abs(dir)
	if err != nil {
		return fmt.Errorf("resolve the stack's folder: %w", err)
	}
	if _, err := os.Stat(filepath.Join(dir, "lock")); errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	lock, err := takeLock(dir)
	if err != nil {
		return err
	}
	return releaseLock(lock)
}
