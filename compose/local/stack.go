package local

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"queen.internal/pkg/pgserver"
	lifeline "queen.internal/pkg/pgserver/process"
)

// runnerName prefixes the runner's own lines in the merged log.
const runnerName = "stack"

// databaseLimit bounds the database's start. It is generous: installing the package, and recovery after a crash of the
// machine, are part of it.
const databaseLimit = 5 * time.Minute

// Stack is a running Queen.
type Stack struct {
	opts      Options
	lock      *os.File
	printer   *printer
	line      *lifeline.Lifeline
	processes []*process
	secret    string // of the mesh
	dbLog     *processLog
	up        atomic.Bool    // from healthy to the begin of Stop: only then is an end a crash
	wg        sync.WaitGroup // collecting and watching goroutines
	// life is held shared by whoever starts something after Start, and exclusively by Stop while it ends that.
	life sync.RWMutex

	dbMu sync.Mutex       // guards db, and keeps its restarts one at a time
	db   *pgserver.Server // nil while it is down on purpose
	// dbFolder and dbPort are those of the last run.
	dbFolder string
	dbPort   int

	stopOnce sync.Once
	stopErr  error
}

// Start brings a stack up and returns when all of it is healthy. The context bounds the start only. On an error nothing
// is left running; a *StartError names the process that was at fault, a *RunningError says that a stack is there already.
func Start(ctx context.Context, opts Options) (*Stack, error) {
	opts, err := opts.normalized()
	if err != nil {
		return nil, err
	}
	for _, folder := range []string{opts.Dir, filepath.Join(opts.Dir, "logs"), filepath.Join(opts.Dir, "spool")} {
		if err := os.MkdirAll(folder, 0o755); err != nil {
			return nil, fmt.Errorf("create the stack's folder: %w", err)
		}
	}
	lock, err := takeLock(opts.Dir)
	if err != nil {
		return nil, err
	}
	s := &Stack{opts: opts, lock: lock, processes: newProcesses(opts)}
	names := []string{runnerName, Postgres}
	for _, p := range s.processes {
		names = append(names, p.name)
	}
	s.printer = newPrinter(opts.Log, opts.Colour, names)
	if err := s.start(ctx); err != nil {
		// What is running is of no use, so it gets the short way out.
		stopCtx, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Second)
		defer cancel()
		return nil, errors.Join(err, s.Stop(stopCtx))
	}
	return s, nil
}

func (s *Stack) start(ctx context.Context) error {
	if err := sign(s.lock); err != nil {
		return err
	}
	if _, err := clearLeftovers(ctx, s.opts.Dir); err != nil {
		return err
	}
	for _, p := range s.processes { // before the database, which takes seconds
		if _, err := exec.LookPath(p.argv[0]); err != nil {
			return &StartError{Service: p.name, Reason: err.Error()}
		}
	}
	if err := choosePorts(s.opts.EdgePort, s.processes); err != nil {
		return err
	}
	var err error
	if s.secret, err = meshSecret(s.opts.Dir); err != nil {
		return err
	}
	for _, p := range s.processes {
		if p.displaced != 0 {
			s.note("port %d is taken, %s gets %d", p.displaced, p.name, p.port)
		}
	}
	if s.line, err = lifeline.NewLifeline(); err != nil {
		return err
	}
	if err := s.firstDatabase(ctx); err != nil {
		return err
	}
	for _, p := range s.processes {
		p.env = s.settings(p, s.db)
		if p.log, err = openLog(s.logPath(p.name), p.name, s.printer); err != nil {
			return err
		}
		if err := p.start(s.line, &s.wg, s.ended); err != nil {
			return err
		}
	}
	limit := s.opts.HealthLimit
	healthCtx, cancel := context.WithTimeoutCause(ctx, limit, fmt.Errorf("not healthy within %v", limit))
	defer cancel()
	if err := awaitHealthy(healthCtx, s.processes); err != nil {
		return err
	}
	s.up.Store(true)
	return s.writeState()
}

// firstDatabase finds or installs PostgreSQL, starts it and makes the services' role and database.
func (s *Stack) firstDatabase(ctx context.Context) error {
	ctx, cancel := context.WithTimeoutCause(ctx, databaseLimit, fmt.Errorf("not ready within %v", databaseLimit))
	defer cancel()
	var err error
	if s.dbLog, err = openLog(s.logPath(Postgres), Postgres, s.printer); err != nil {
		return err
	}
	find := func() (pgserver.Binaries, error) { return pgserver.Find() }
	if s.opts.InstallPostgres {
		find = func() (pgserver.Binaries, error) { return pgserver.FindOrInstall(ctx, s.logger()) }
	}
	binaries := s.opts.Postgres
	if binaries == (pgserver.Binaries{}) {
		if binaries, err = find(); err != nil {
			return &StartError{Service: Postgres, Reason: err.Error()}
		}
	}
	if err := s.startDatabase(ctx, binaries, 0); err != nil {
		return err
	}
	s.note("PostgreSQL %d runs on port %d, its data is in %s", binaries.Major, s.db.Port(), s.db.Folder())
	if err := s.db.EnsureDatabase(ctx, role, database); err != nil {
		return s.databaseError(err)
	}
	return nil
}

func (s *Stack) databaseError(err error) error {
	return &StartError{Service: Postgres, Reason: err.Error(), LogFile: s.dbLog.path, Lines: s.dbLog.lastLines()}
}

// startDatabase must be called with dbMu held or before the stack is shared.
func (s *Stack) startDatabase(ctx context.Context, binaries pgserver.Binaries, port int) error {
	db, err := pgserver.Start(ctx, pgserver.Options{
		Folder: filepath.Join(s.opts.Dir, "postgres"), Port: port, Binaries: binaries,
		RemoveIfKilled: s.opts.Throwaway, Output: s.dbLog, Logger: s.logger(),
	})
	if err != nil {
		return s.databaseError(err)
	}
	s.db = db
	s.wg.Go(func() {
		<-db.Done()
		s.dbMu.Lock()
		asked := s.db != db // whoever ends it on purpose takes it out first
		s.dbMu.Unlock()
		if !asked && s.up.Load() {
			s.note("PostgreSQL ended by itself (%v); it is not restarted, its log is %s", db.Err(), s.dbLog.path)
		}
	})
	return nil
}

// ended reports a process that nobody had asked to end.
func (s *Stack) ended(p *process, r *run) {
	if !s.up.Load() {
		return // the start itself reports this, or everything is being stopped
	}
	s.note("%s ended by itself (%s); it is not restarted, its log is %s", p.name, r.how(), p.log.path)
	if words := p.log.lastWords(); words != "" {
		s.note("%s said: %s", p.name, words)
	}
}

func (s *Stack) writeState() error {
	state := State{Version: stateVersion, Edge: s.URL(Edge), Runner: os.Getpid()}
	s.dbMu.Lock()
	if s.db != nil {
		state.Postgres = PostgresState{
			DSN: s.db.DSN(database), PID: s.db.PID(), Data: filepath.Join(s.db.Folder(), "data"),
			Log: s.dbLog.path, Argv: s.db.Argv(),
		}
	}
	s.dbMu.Unlock()
	for _, p := range s.processes {
		state.Processes = append(state.Processes, ProcessState{
			Service: p.service, Copy: p.copy, URL: p.url(), PID: p.current().cmd.Process.Pid, Log: p.log.path,
			Argv: slices.Clone(p.argv), Env: p.env,
		})
	}
	return state.write(s.opts.Dir)
}

func (s *Stack) logPath(name string) string { return filepath.Join(s.opts.Dir, "logs", name+".log") }

// note is a line of the runner's own in the merged log.
func (s *Stack) note(format string, args ...any) {
	s.printer.print(runnerName, fmt.Sprintf(format, args...))
}

// logger carries what the database package has to say into the merged log.
func (s *Stack) logger() *slog.Logger { return slog.New(&noteHandler{note: s.note}) }

// closeLogs runs when nothing writes any more.
func (s *Stack) closeLogs() error {
	var errs []error
	for _, p := range s.processes {
		if p.log != nil {
			errs = append(errs, p.log.close())
		}
	}
	if s.dbLog != nil {
		errs = append(errs, s.dbLog.close())
	}
	return errors.Join(errs...)
}

// removeDatabase is the end of a throw-away stack's data, wherever it was put.
func removeDatabase(folder string) error {
	if err := os.RemoveAll(folder); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("remove the database: %w", err)
	}
	return nil
}
