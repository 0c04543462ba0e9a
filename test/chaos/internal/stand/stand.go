package stand

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"queen.internal/compose/local"
	"queen.internal/pkg/testkit/faketime"
	"queen.internal/test/chaos/internal/pipe"
)

// Client is the name of whoever calls from outside, as an end of pipes.
const Client = "client"

// Options describe a stand.
type Options struct {
	Dir, Binaries string
	Clock         bool // PostgreSQL runs under a clock that SetClock moves
	Disk          bool // the spools are on a file system of their own that is small
}

// Stand is a running one.
type Stand struct {
	Stack *local.Stack
	Spool string          // the folder of the spools
	Disk  string          // the file system they are on; empty for the machine's
	clock *faketime.Clock // nil without Options.Clock
	db    *pgxpool.Pool
	notes notes

	mu    sync.Mutex
	pipes []*pipe.Pipe
	lives map[string]int
	err   error // of making a pipe
}

// Start brings everything up. On an error nothing is left.
func Start(ctx context.Context, o Options) (s *Stand, err error) {
	s = &Stand{Spool: filepath.Join(o.Dir, "stack", "spool"), lives: make(map[string]int)}
	defer func() {
		if err != nil {
			err = errors.Join(err, s.Stop(context.WithoutCancel(ctx)))
		}
	}()
	opts := local.Options{
		Dir: filepath.Join(o.Dir, "stack"), Binaries: o.Binaries, Ingest: 2, Deliver: 2, Throwaway: true, Through: s.through, Log: &s.notes,
		HealthLimit: 3 * time.Minute,
	}
	if err := os.MkdirAll(opts.Dir, 0o755); err != nil {
		return s, fmt.Errorf("create the folder of the run: %w", err)
	}
	if o.Clock {
		if s.clock, opts.Postgres, err = newClock(o.Dir); err != nil {
			return s, err
		}
	}
	if o.Disk {
		s.Disk = filepath.Join(o.Dir, "disk")
		if err := mount(s.Disk); err != nil {
			s.Disk = ""
			return s, err
		}
		s.Spool = filepath.Join(s.Disk, "spool")
		opts.ServiceEnv = map[string][]string{local.Ingest: {"FILE_BUFFER_DIR=" + s.Spool, "QUEEN_SPOOL_MIN_FREE_BYTES=0"}}
	}
	if s.Stack, err = local.Start(ctx, opts); err != nil {
		return s, err
	}
	for _, p := range s.Processes() {
		s.through(Client, p.Name(), portOf(s.urlOf(p)))
	}
	if s.err != nil {
		return s, s.err
	}
	config, err := pgxpool.ParseConfig(s.Stack.DSN() + "&connect_timeout=5")
	if err != nil {
		return s, fmt.Errorf("read the address of the database: %w", err)
	}
	config.MaxConns = 4
	s.db, err = pgxpool.NewWithConfig(context.WithoutCancel(ctx), config)
	return s, err
}

// through puts a pipe into a connection.
func (s *Stand) through(from, to string, port int) int {
	p, err := pipe.New(from, to, port)
	s.mu.Lock()
	defer s.mu.Unlock()
	if err != nil {
		s.err = errors.Join(s.err, err)
		return port
	}
	s.pipes = append(s.pipes, p)
	return p.Port()
}

// Pipes are those that lead from one process to another; an empty name stands for any.
func (s *Stand) Pipes(from, to string) (found []*pipe.Pipe) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, p := range s.pipes {
		if (from == "" || p.From == from) && (to == "" || p.To == to) {
			found = append(found, p)
		}
	}
	return found
}

// Heal lets everything pass again.
func (s *Stand) Heal() {
	for _, p := range s.Pipes("", "") {
		p.Heal()
	}
}

// URL is the address of a process for clients, through a pipe.
func (s *Stand) URL(process string) string {
	for _, p := range s.Pipes(Client, process) {
		return "http://127.0.0.1:" + strconv.Itoa(p.Port())
	}
	return ""
}

func (s *Stand) urlOf(p Process) string { return s.Stack.URLs(p.Service)[p.Number-1] }

func portOf(address string) int {
	u, err := url.Parse(address)
	if err != nil {
		return 0
	}
	port, _ := strconv.Atoi(u.Port()) // the stack's own addresses have one
	return port
}

// DB are connections of the superuser, straight to the database.
func (s *Stand) DB() *pgxpool.Pool { return s.db }

// Crashes are what the runner says of processes that ended although nobody had asked them to.
func (s *Stand) Crashes() []string { return s.notes.crashes() }

// Stop ends everything.
func (s *Stand) Stop(ctx context.Context) error {
	var errs []error
	if s.db != nil {
		s.db.Close()
	}
	if s.Stack != nil {
		errs = append(errs, s.Stack.Stop(ctx))
	}
	for _, p := range s.Pipes("", "") {
		p.Close()
	}
	if s.Disk != "" {
		errs = append(errs, unmount(s.Disk))
	}
	return errors.Join(errs...)
}

// notes keeps what the runner says itself of the merged log.
type notes struct {
	mu    sync.Mutex
	lines []string
}

// Write takes one line.
func (n *notes) Write(line []byte) (int, error) {
	if text := string(line); strings.Contains(text, "ended by itself") {
		n.mu.Lock()
		n.lines = append(n.lines, strings.TrimSpace(text))
		n.mu.Unlock()
	}
	return len(line), nil
}

func (n *notes) crashes() (found []string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, line := range n.lines {
		if !strings.Contains(line, "PostgreSQL ended") { // which faults make it do
			found = append(found, line)
		}
	}
	return found
}
