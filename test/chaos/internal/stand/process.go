package stand

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"

	"queen.internal/compose/local"
)

// Process is a copy of a service, from 1.
type Process struct {
	Service string
	Number  int
}

// Name is what the process is called as an end of pipes and in logs.
func (p Process) Name() string {
	if p.Service == local.Ingest || p.Service == local.Deliver {
		return fmt.Sprintf("%s.%d", p.Service, p.Number)
	}
	return p.Service
}

// Processes are all services of a stand.
func (s *Stand) Processes() []Process {
	return []Process{
		{local.Ingest, 1}, {local.Ingest, 2}, {local.Deliver, 1}, {local.Deliver, 2}, {local.Maintainer, 1}, {local.Console, 1}, {local.Edge, 1},
	}
}

// Kill ends a process with SIGKILL.
func (s *Stand) Kill(p Process) error {
	s.next(p)
	return s.Stack.Kill(p.Service, p.Number)
}

// Launch starts a process that was ended, and does not wait for it.
func (s *Stand) Launch(p Process) error {
	s.next(p)
	return s.Stack.Launch(p.Service, p.Number)
}

func (s *Stand) next(p Process) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.lives[p.Name()]++
}

// Life names the current life of a process: another name after each of its ends and starts.
func (s *Stand) Life(name string) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return name + "#" + strconv.Itoa(s.lives[name])
}

// Signal is for SIGSTOP and SIGCONT.
func (s *Stand) Signal(p Process, sig syscall.Signal) error {
	return s.Stack.Signal(p.Service, p.Number, sig)
}

// StartDatabase starts PostgreSQL again until it has come up, or the context is over.
func (s *Stand) StartDatabase(ctx context.Context) error {
	for {
		err := s.Stack.StartDatabase(ctx)
		if err == nil || ctx.Err() != nil || strings.Contains(err.Error(), "runs already") {
			return err
		}
	}
}

// DatabasePIDs are the postmaster and all its children.
func (s *Stand) DatabasePIDs() ([]int, error) {
	state, err := local.ReadState(s.Stack.Dir())
	if err != nil {
		return nil, fmt.Errorf("look for the database: %w", err)
	}
	return append([]int{state.Postgres.PID}, childrenOf(state.Postgres.PID)...), nil
}

// childrenOf reads the system's list; a process that ends meanwhile is left out.
func childrenOf(parent int) (children []int) {
	stats, _ := filepath.Glob("/proc/[0-9]*/stat") // the pattern is a constant and well formed
	for _, path := range stats {
		raw, err := os.ReadFile(path)
		if err != nil {
			continue
		}
		_, rest, found := strings.Cut(string(raw), ") ") // the name before may hold anything
		fields := strings.Fields(rest)
		if !found || len(fields) < 2 || fields[1] != strconv.Itoa(parent) {
			continue
		}
		if pid, err := strconv.Atoi(filepath.Base(filepath.Dir(path))); err == nil {
			children = append(children, pid)
		}
	}
	return children
}

// SignalDatabase sends a signal to PIDs of the database; one that has ended is passed over.
func (s *Stand) SignalDatabase(pids []int, sig syscall.Signal) error {
	for _, pid := range pids {
		if err := syscall.Kill(pid, sig); err != nil && err != syscall.ESRCH {
			return fmt.Errorf("signal process %d of the database: %w", pid, err)
		}
	}
	return nil
}
