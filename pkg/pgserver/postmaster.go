package pgserver

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"strconv"
	"strings"
	"syscall"
	"time"

	"queen.internal/pkg/pgserver/process"
)

// pollPace is how often a condition is looked at for which the system offers no event: a process that is not our child
// ending, and PostgreSQL's own status line.
const pollPace = 20 * time.Millisecond

// postmasterStatus is what PostgreSQL writes about itself into postmaster.pid.
type postmasterStatus struct {
	pid   int
	ready bool
}

func readPostmaster(f *folder) (postmasterStatus, error) {
	raw, err := os.ReadFile(f.postmasterFile())
	if err != nil {
		return postmasterStatus{}, err
	}
	lines := strings.Split(string(raw), "\n")
	pid, err := strconv.Atoi(strings.TrimSpace(lines[0]))
	if err != nil || pid <= 1 {
		return postmasterStatus{}, fmt.Errorf("%s does not begin with a process id", f.postmasterFile())
	}
	// The eighth line is the status; it appears last and says ready when connections are accepted.
	return postmasterStatus{pid: pid, ready: len(lines) >= 8 && strings.HasPrefix(lines[7], "ready")}, nil
}

// clearLeftover makes the folder free for a new server. The caller holds the folder's lock, so a server that still runs
// has lost the program that started it.
func clearLeftover(ctx context.Context, f *folder, logger *slog.Logger) error {
	status, err := readPostmaster(f)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("look for a server that still runs: %w", err)
	}
	if !process.Exists(status.pid) {
		return nil // PostgreSQL itself recognises a dead id and recovers
	}
	if !strings.Contains(process.CommandLine(status.pid), f.data()) {
		// The id belongs to another program by now. PostgreSQL could not tell and would refuse to start. Stray
		// backends of the old server would still stop it, through its shared memory check.
		logger.Info("removing a stale postmaster.pid", "target", "postgres", "pid", status.pid)
		if err := os.Remove(f.postmasterFile()); err != nil {
			return fmt.Errorf("remove a stale postmaster.pid: %w", err)
		}
		return nil
	}
	logger.Info("stopping a server left behind by an earlier run", "target", "postgres", "pid", status.pid)
	return StopProcess(ctx, status.pid, 10*time.Second)
}

// StopProcess stops a postmaster that is not a child of this program: fast shutdown, after patience immediate shutdown
// (which recovers at the next start). The caller has made sure that pid is the right process.
func StopProcess(ctx context.Context, pid int, patience time.Duration) error {
	for _, sig := range []syscall.Signal{syscall.SIGINT, syscall.SIGQUIT} {
		if err := syscall.Kill(pid, sig); errors.Is(err, syscall.ESRCH) {
			return nil
		} else if err != nil {
			return fmt.Errorf("stop PostgreSQL (pid %d): %w", pid, err)
		}
		waitCtx, cancel := context.WithTimeout(ctx, patience)
		err := poll(waitCtx, func() bool { return process.CommandLine(pid) == "" })
		cancel()
		if err == nil {
			return nil
		}
		if ctx.Err() != nil {
			return fmt.Errorf("stop PostgreSQL (pid %d): %w", pid, context.Cause(ctx))
		}
	}
	return fmt.Errorf("PostgreSQL (pid %d) does not stop", pid)
}

// poll returns nil as soon as done says so, or the context's cause.
func poll(ctx context.Context, done func() bool) error {
	ticker := time.NewTicker(pollPace)
	defer ticker.Stop()
	for !done() {
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-ticker.C:
		}
	}
	return nil
}
