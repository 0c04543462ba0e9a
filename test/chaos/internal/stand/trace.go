package stand

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"syscall"
	"time"
)

// Tracer sits between processes and the system and does something to their fsyncs.
type Tracer struct {
	cmd *exec.Cmd
	log string // what was done
}

// FindTracer says why fsyncs cannot be touched.
func FindTracer() error {
	if _, err := exec.LookPath("strace"); err != nil {
		return fmt.Errorf("touch fsyncs (it takes strace): %w", err)
	}
	return nil
}

// TraceFsync has every fsync of processes, of their threads and of their children end as strace's injection says: error=EIO,
// or delay_enter= with microseconds. It returns when one was met, with a tracer to stop and whether that has come within ctx.
func (s *Stand) TraceFsync(ctx context.Context, pids []int, injection string) (t *Tracer, met bool, err error) {
	folder, err := os.MkdirTemp(s.Stack.Dir(), "trace-")
	if err != nil {
		return nil, false, fmt.Errorf("trace fsyncs: %w", err)
	}
	t = &Tracer{log: filepath.Join(folder, "fsyncs")}
	args := []string{"-f", "-qq", "-o", t.log, "-e", "trace=fsync,fdatasync", "-e", "signal=none", "-e", "inject=fsync,fdatasync:" + injection}
	for _, pid := range pids {
		args = append(args, "-p", strconv.Itoa(pid))
	}
	// Not of ctx: a tracer that is killed leaves its processes alone, but one that is asked to stop does so in order.
	t.cmd = exec.Command("strace", args...)
	t.cmd.Stderr = new(bytes.Buffer)
	if err := t.cmd.Start(); err != nil {
		return nil, false, fmt.Errorf("trace fsyncs: %w", err)
	}
	return t, t.awaitFirst(ctx), nil
}

func (t *Tracer) awaitFirst(ctx context.Context) bool {
	pace := time.NewTicker(5 * time.Millisecond)
	defer pace.Stop()
	for {
		select {
		case <-ctx.Done():
			return false
		case <-pace.C:
		}
		done, err := os.ReadFile(t.log)
		if err == nil && (bytes.Contains(done, []byte("(INJECTED)")) || bytes.Contains(done, []byte("(DELAYED)"))) {
			return true
		}
	}
}

// Stop lets the processes go on as they are.
func (t *Tracer) Stop() error {
	if err := t.cmd.Process.Signal(syscall.SIGTERM); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return fmt.Errorf("end a trace: %w", err)
	}
	err := t.cmd.Wait()
	var exit *exec.ExitError
	if errors.As(err, &exit) {
		return nil // it was ended, or all its processes have
	}
	return err
}

// PIDs are the process ids of copies of services.
func (s *Stand) PIDs(processes ...Process) (pids []int) {
	for _, p := range processes {
		pids = append(pids, s.Stack.PID(p.Service, p.Number))
	}
	return pids
}
