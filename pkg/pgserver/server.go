package pgserver

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/url"
	"os/exec"
	"strconv"
	"sync"
	"syscall"
	"time"

	"queen.internal/pkg/pgserver/process"
)

// Options describe one server.
type Options struct {
	// Folder holds the cluster, its password, its port and a lock. Empty is allowed with Throwaway: a temporary one.
	Folder string
	// Throwaway runs without durability and removes the whole folder at the end, also when this program is killed.
	Throwaway bool
	// RemoveIfKilled removes the whole folder when this program dies without Stop. Stop itself keeps it.
	RemoveIfKilled bool
	// Port is the only port to use; 0 prefers the one of the last run and else takes a free one.
	Port int
	// Binaries is which PostgreSQL to use for a new cluster; the zero value means Find. An existing cluster needs,
	// and gets, the version that created it.
	Binaries Binaries
	// Output, when set, receives what the server prints, in arbitrary pieces, from one goroutine.
	Output io.Writer
	// Logger is told about moved folders and left-over servers; nil means silence.
	Logger *slog.Logger
}

// Server is a running PostgreSQL. Its exported methods may be called from any goroutine.
type Server struct {
	opts     Options
	folder   *folder
	password string
	port     int
	cmd      *exec.Cmd
	tail     *outputTail
	lifeline *process.Lifeline

	done    chan struct{} // closed by wait when the process has ended
	waitErr error         // set before done is closed
	stop    sync.Mutex    // one Stop at a time
	release sync.Once
}

// Start creates the cluster if there is none, starts the server and returns when it accepts connections. The context
// bounds the start only, crash recovery of an earlier run included; a server that was started outlives it. A server
// that an earlier, dead program left running in the same folder is stopped first.
func Start(ctx context.Context, opts Options) (*Server, error) {
	if opts.Logger == nil {
		opts.Logger = slog.New(slog.DiscardHandler)
	}
	who, err := chooseAccount()
	if err != nil {
		return nil, err
	}
	if opts.Folder == "" {
		if !opts.Throwaway {
			return nil, errors.New("start PostgreSQL: a server whose data is kept needs a folder")
		}
		if opts.Folder, err = TemporaryFolder(); err != nil {
			return nil, err
		}
	}
	f, err := openFolder(opts.Folder, who, opts.Logger)
	if err != nil {
		return nil, err
	}
	s := &Server{opts: opts, folder: f, tail: &outputTail{}}
	if err := s.start(ctx, who); err != nil {
		s.letGo()
		return nil, err
	}
	return s, nil
}

func (s *Server) start(ctx context.Context, who account) error {
	if err := clearLeftover(ctx, s.folder, s.opts.Logger); err != nil {
		return err
	}
	binaries, err := s.chooseBinaries()
	if err != nil {
		return err
	}
	if s.password, err = s.folder.password(); err != nil {
		return err
	}
	if s.lifeline, err = process.NewLifeline(); err != nil {
		return err
	}
	if s.opts.Throwaway || s.opts.RemoveIfKilled {
		if err := s.lifeline.RemoveFolder(s.folder.path); err != nil {
			return err
		}
	}
	if err := ensureCluster(ctx, s.folder, binaries, who, s.password, !s.opts.Throwaway && !s.opts.RemoveIfKilled); err != nil {
		return err
	}
	return s.launchUntilReady(ctx, binaries, who)
}

func (s *Server) chooseBinaries() (Binaries, error) {
	if s.folder.clusterExists() {
		major, err := clusterMajor(s.folder)
		if err != nil {
			return Binaries{}, err
		}
		if s.opts.Binaries.Major == major {
			return s.opts.Binaries, nil
		}
		b, err := FindMajor(major)
		if err != nil {
			return Binaries{}, fmt.Errorf("start the cluster in %s: %w", s.folder.data(), err)
		}
		return b, nil
	}
	if s.opts.Binaries != (Binaries{}) {
		return s.opts.Binaries, nil
	}
	return Find()
}

// launchUntilReady repeats a start that failed for a reason that passes by itself: somebody took the free port between
// choosing and binding it, or backends of a killed server are still leaving.
func (s *Server) launchUntilReady(ctx context.Context, b Binaries, who account) error {
	const attempts = 50
	for attempt := 1; ; attempt++ {
		err := s.launch(ctx, b, who)
		if err == nil {
			return s.folder.writePort(s.port)
		}
		if attempt == attempts || !s.passing() {
			return err
		}
		pause, cancel := context.WithTimeout(ctx, 100*time.Millisecond)
		<-pause.Done()
		cancel()
		if ctx.Err() != nil {
			return err
		}
	}
}

// launch starts the process once and waits until it is ready, has ended, or the context is over.
func (s *Server) launch(ctx context.Context, b Binaries, who account) error {
	port, err := s.folder.choosePort(s.opts.Port)
	if err != nil {
		return err
	}
	s.port, s.tail, s.done = port, &outputTail{}, make(chan struct{})
	settings := DurableSettings()
	if s.opts.Throwaway {
		settings = ThrowawaySettings()
	}
	settings["listen_addresses"], settings["port"] = "127.0.0.1", strconv.Itoa(port)
	cmd := exec.Command(b.program("postgres"), append([]string{"-D", s.folder.data()}, arguments(settings)...)...)
	cmd.Dir, cmd.Env = "/", serverEnvironment()
	output := io.Writer(s.tail)
	if s.opts.Output != nil {
		output = io.MultiWriter(s.tail, s.opts.Output)
	}
	cmd.Stdout, cmd.Stderr = output, output
	cmd.WaitDelay = 5 * time.Second // backends of a killed server keep its output open while they leave
	who.apply(cmd)
	if err := cmd.Start(); err != nil {
		return fmt.Errorf("start %s: %w", cmd.Path, err)
	}
	s.cmd = cmd
	go s.wait(s.done)
	if err := s.lifeline.Add(cmd.Process.Pid, syscall.SIGINT, syscall.SIGQUIT); err != nil {
		s.abandon()
		return err
	}
	return s.awaitReady(ctx)
}

// wait collects the process. It is the one goroutine of a Server.
func (s *Server) wait(done chan struct{}) {
	s.waitErr = s.cmd.Wait()
	_ = s.lifeline.Remove(s.cmd.Process.Pid) // the helper may have been killed too; nothing depends on it any more
	close(done)
}

func (s *Server) awaitReady(ctx context.Context) error {
	ended := false
	err := poll(ctx, func() bool {
		select {
		case <-s.done:
			ended = true
			return true
		default:
		}
		status, err := readPostmaster(s.folder)
		return err == nil && status.ready && status.pid == s.cmd.Process.Pid
	})
	if ended {
		return fmt.Errorf("PostgreSQL ended while starting (%s): %s", s.exitText(), lastLines(s.tail.String(), 4))
	}
	if err != nil {
		s.abandon()
		return fmt.Errorf("wait for PostgreSQL to accept connections: %w: %s", err, lastLines(s.tail.String(), 4))
	}
	return nil
}

// abandon ends a server that nobody will use.
func (s *Server) abandon() {
	_ = s.cmd.Process.Signal(syscall.SIGQUIT)
	<-s.done
}

// DSN is a connection string for a database, as the cluster's superuser. It contains the password.
func (s *Server) DSN(database string) string { return s.RoleDSN(superuser, database) }

// RoleDSN is the same for a role made by EnsureDatabase; all roles of a private cluster share one password.
func (s *Server) RoleDSN(role, database string) string {
	u := url.URL{
		Scheme: "postgres", User: url.UserPassword(role, s.password), Path: "/" + database,
		Host: net.JoinHostPort("127.0.0.1", strconv.Itoa(s.port)), RawQuery: "sslmode=disable",
	}
	return u.String()
}

// Port is the TCP port on the loopback address.
func (s *Server) Port() int { return s.port }

// Password is the password of every role.
func (s *Server) Password() string { return s.password }

// PID is the process id of the postmaster.
func (s *Server) PID() int { return s.cmd.Process.Pid }

// Argv is what the postmaster was started with.
func (s *Server) Argv() []string { return s.cmd.Args }

// Folder is where the server really lives, which may differ from Options.Folder.
func (s *Server) Folder() string { return s.folder.path }

// Done is closed when the server has ended, for whatever reason.
func (s *Server) Done() <-chan struct{} { return s.done }

// exitText says how the process ended. Only after Done.
func (s *Server) exitText() string {
	if s.waitErr != nil {
		return s.waitErr.Error()
	}
	return "exit status 0"
}

// Err says how the server ended; nil for a regular end or while it runs.
func (s *Server) Err() error {
	select {
	case <-s.done:
		return s.waitErr
	default:
		return nil
	}
}
