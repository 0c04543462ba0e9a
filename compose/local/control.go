package local

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"syscall"

	"queen.internal/pkg/pgserver"
)

// URL is the address of a service's first copy, without a slash at the end; empty for a name that does not exist.
func (s *Stack) URL(service string) string {
	if urls := s.URLs(service); len(urls) > 0 {
		return urls[0]
	}
	return ""
}

// URLs are the addresses of all copies of a service.
func (s *Stack) URLs(service string) []string {
	var urls []string
	for _, p := range s.processes {
		if p.service == service {
			urls = append(urls, p.url())
		}
	}
	return urls
}

// Dir is the stack's folder as an absolute path.
func (s *Stack) Dir() string { return s.opts.Dir }

// DSN connects to the services' database as the cluster's superuser; empty while the database is down.
func (s *Stack) DSN() string {
	s.dbMu.Lock()
	defer s.dbMu.Unlock()
	if s.db == nil {
		return ""
	}
	return s.db.DSN(database)
}

// Logs is everything that the copies of a service, or Postgres, printed in this stack's life.
func (s *Stack) Logs(service string) string {
	var paths []string
	if service == Postgres {
		paths = []string{s.dbLog.path}
	}
	for _, p := range s.processes {
		if p.service == service {
			paths = append(paths, p.log.path)
		}
	}
	var all strings.Builder
	for _, path := range paths {
		raw, err := os.ReadFile(path)
		if err != nil {
			fmt.Fprintf(&all, "(%v)\n", err)
		}
		all.Write(raw)
	}
	return all.String()
}

func (s *Stack) find(service string, number int) (*process, error) {
	i := slices.IndexFunc(s.processes, func(p *process) bool { return p.service == service && p.copy == number })
	if i < 0 {
		return nil, fmt.Errorf("%s, copy %d: %w", service, number, errNoSuchProcess)
	}
	return s.processes[i], nil
}

// PID is the process id of a copy (from 1) of a service, or of its last life when it has ended; 0 for one that does not
// exist.
func (s *Stack) PID(service string, number int) int {
	p, err := s.find(service, number)
	if err != nil {
		return 0
	}
	return p.current().cmd.Process.Pid
}

// Done is closed when the current life of a copy of a service has ended. It is nil for one that does not exist.
func (s *Stack) Done(service string, number int) <-chan struct{} {
	p, err := s.find(service, number)
	if err != nil {
		return nil
	}
	return p.current().done
}

// Signal sends a signal to a copy of a service, for instance SIGSTOP and SIGCONT. If it ends of it, that is a crash.
func (s *Stack) Signal(service string, number int, sig syscall.Signal) error {
	p, err := s.find(service, number)
	if err != nil {
		return err
	}
	_, err = p.signal(sig, false)
	return err
}

// Kill ends a copy of a service with SIGKILL and returns when it has ended.
func (s *Stack) Kill(service string, number int) error {
	p, err := s.find(service, number)
	if err != nil {
		return err
	}
	return p.end(context.Background(), syscall.SIGKILL) // SIGKILL needs no patience
}

// Terminate asks a copy of a service to stop with SIGTERM and returns when it has ended, or the context is over.
func (s *Stack) Terminate(ctx context.Context, service string, number int) error {
	p, err := s.find(service, number)
	if err != nil {
		return err
	}
	return p.end(ctx, syscall.SIGTERM)
}

// Launch starts a copy of a service that has ended again, with the same port and settings, and does not wait for it.
func (s *Stack) Launch(service string, number int) error {
	p, err := s.find(service, number)
	if err != nil {
		return err
	}
	s.life.RLock()
	defer s.life.RUnlock()
	if !s.up.Load() {
		return errStopped
	}
	if err := p.start(s.line, &s.wg, s.ended); err != nil {
		return err
	}
	return s.writeState()
}

// AwaitHealthy returns when a copy of a service answers /health with 200. It fails at once when the process ends.
func (s *Stack) AwaitHealthy(ctx context.Context, service string, number int) error {
	p, err := s.find(service, number)
	if err != nil {
		return err
	}
	return awaitHealthy(ctx, []*process{p})
}

// Restart is Terminate where it still runs, Launch, AwaitHealthy.
func (s *Stack) Restart(ctx context.Context, service string, number int) error {
	p, err := s.find(service, number)
	if err != nil {
		return err
	}
	if p.current().alive() {
		if err := p.end(ctx, syscall.SIGTERM); err != nil {
			return err
		}
	}
	if err := s.Launch(service, number); err != nil {
		return err
	}
	return awaitHealthy(ctx, []*process{p})
}

var (
	errStopped      = errors.New("the stack is stopped")
	errDatabaseDown = errors.New("the database does not run")
)

// KillDatabase ends PostgreSQL with SIGKILL, as a crash would.
func (s *Stack) KillDatabase() error {
	return s.endDatabase((*pgserver.Server).Kill)
}

// StopDatabase shuts PostgreSQL down in order; open connections are closed.
func (s *Stack) StopDatabase(ctx context.Context) error {
	return s.endDatabase(func(db *pgserver.Server) error { return db.Stop(ctx) })
}

func (s *Stack) endDatabase(end func(*pgserver.Server) error) error {
	s.dbMu.Lock()
	defer s.dbMu.Unlock()
	db := s.db
	if db == nil {
		return errDatabaseDown
	}
	s.db, s.dbFolder = nil, db.Folder()
	s.dbPort = db.Port()
	return end(db)
}

// SignalDatabase sends a signal to the postmaster alone. SIGSTOP makes new connections hang; running sessions go on.
func (s *Stack) SignalDatabase(sig syscall.Signal) error {
	s.dbMu.Lock()
	defer s.dbMu.Unlock()
	if s.db == nil {
		return errDatabaseDown
	}
	if err := syscall.Kill(s.db.PID(), sig); err != nil {
		return fmt.Errorf("signal the database: %w", err)
	}
	return nil
}

// StartDatabase starts PostgreSQL again on the same port and returns when it accepts connections; recovery after
// KillDatabase is part of that.
func (s *Stack) StartDatabase(ctx context.Context) error {
	s.life.RLock()
	defer s.life.RUnlock()
	if !s.up.Load() {
		return errStopped
	}
	if err := s.againDatabase(ctx); err != nil {
		return err
	}
	return s.writeState()
}

func (s *Stack) againDatabase(ctx context.Context) error {
	s.dbMu.Lock()
	defer s.dbMu.Unlock()
	if db := s.db; db != nil {
		select {
		case <-db.Done(): // it crashed; what it holds beside its process is still to be let go
			s.db, s.dbPort = nil, db.Port()
			if err := db.Stop(ctx); err != nil {
				return err
			}
		default:
			return errors.New("the database runs already")
		}
	}
	return s.startDatabase(ctx, s.opts.Postgres, s.dbPort)
}
