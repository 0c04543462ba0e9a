package local

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"syscall"
	"time"

	"queen.internal/pkg/pgserver"
	lifeline "queen.internal/pkg/pgserver/process"
)

// downPace is how often a process or lock that is not ours is looked at; the system announces neither.
const downPace = 20 * time.Millisecond

// runnerPatience is more than a runner needs for its own orderly stop.
const runnerPatience = 10 * time.Second

// Down stops the stack that runs in a folder, or what a dead runner left there. It reports whether there was anything
// to stop. The data stays.
func Down(ctx context.Context, dir string) (bool, error) {
	dir, err := filepath.Abs(dir)
	if err != nil {
		return false, fmt.Errorf("resolve the stack's folder: %w", err)
	}
	stopped := false
	var running *RunningError
	if err := Running(dir); errors.As(err, &running) {
		stopped = true
		if err := stopRunner(ctx, dir); err != nil {
			return true, err
		}
	} else if err != nil {
		return false, err
	}
	lock, err := takeLock(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return stopped, nil // no stack was ever started here
	}
	if err != nil {
		return stopped, err
	}
	defer func() { _ = releaseLock(lock) }()
	found, err := clearLeftovers(ctx, dir)
	return stopped || found, err
}

// stopRunner signals the holder of the lock: while the lock is held, the process id in it is the holder's.
func stopRunner(ctx context.Context, dir string) error {
	pid := lockHolder(dir)
	if pid <= 1 {
		return errors.New("a stack is just starting here; try again")
	}
	for _, sig := range []syscall.Signal{syscall.SIGTERM, syscall.SIGKILL} {
		if err := syscall.Kill(pid, sig); err != nil && !errors.Is(err, syscall.ESRCH) {
			return fmt.Errorf("stop the stack's runner (pid %d): %w", pid, err)
		}
		released := func() bool { return Running(dir) == nil }
		if waitUntil(ctx, runnerPatience, released) {
			return nil
		}
		if ctx.Err() != nil {
			return fmt.Errorf("stop the stack's runner (pid %d): %w", pid, context.Cause(ctx))
		}
	}
	return fmt.Errorf("the stack's runner (pid %d) does not stop", pid)
}

// clearLeftovers ends what a dead runner's stack.json names and still runs, and removes the file. The caller holds the
// lock, so no runner is alive. It reports whether there was a file.
func clearLeftovers(ctx context.Context, dir string) (bool, error) {
	state, err := ReadState(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	for _, sig := range []syscall.Signal{syscall.SIGTERM, syscall.SIGKILL} {
		for _, p := range state.Processes {
			if lifeline.Runs(p.PID, p.Argv) {
				_ = syscall.Kill(p.PID, sig) // gone since is what is wanted
			}
		}
		if waitUntil(ctx, servicesLimit, func() bool { return !anyRuns(state.Processes) }) {
			break
		}
	}
	if err := ctx.Err(); err != nil {
		return true, fmt.Errorf("stop what an earlier stack left: %w", context.Cause(ctx))
	}
	if lifeline.Runs(state.Postgres.PID, state.Postgres.Argv) {
		if err := pgserver.StopProcess(ctx, state.Postgres.PID, pgserver.StopPatience); err != nil {
			return true, err
		}
	}
	return true, removeState(dir)
}

func anyRuns(processes []ProcessState) bool {
	for _, p := range processes {
		if lifeline.Runs(p.PID, p.Argv) {
			return true
		}
	}
	return false
}

// waitUntil reports whether done became true before the limit or the end of the context.
func waitUntil(ctx context.Context, limit time.Duration, done func() bool) bool {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	ticker := time.NewTicker(downPace)
	defer ticker.Stop()
	for !done() {
		select {
		case <-ctx.Done():
			return false
		case <-ticker.C:
		}
	}
	return true
}
