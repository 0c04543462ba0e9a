package daemon

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/signal"
	"runtime/debug"
	"syscall"

	"queen.internal/pkg/config"
	"queen.internal/pkg/logging"
)

// Env is what a service gets from its process.
type Env struct {
	Service string
	Version string
	Logger  *slog.Logger
	Stdout  io.Writer
	Flags   map[string]bool // the service's own flags that were given, by name without dashes
}

// Flag is an argument of one service, such as --once.
type Flag struct {
	Name  string // without dashes
	Usage string
}

// RunFunc is a service: it works until ctx ends, or its work is done, and returns nil then. An error ends the process
// with one line and exit code 1; so does one that comes after ctx ended, unless it only says that ctx did.
type RunFunc func(ctx context.Context, env Env) error

// Main runs a service and ends the process. version is what the build stamped; empty means to ask the build info.
func Main(service, version string, run RunFunc, flags ...Flag) {
	p := process{
		service: service, version: resolveVersion(version), flags: flags,
		stdout: os.Stdout, stderr: os.Stderr, exit: os.Exit,
	}
	os.Exit(p.execute(os.Args[1:], run))
}

// process is one execution of a binary.
type process struct {
	service, version string
	flags            []Flag
	stdout, stderr   io.Writer
	exit             func(code int) // for the second signal
}

const (
	exitFailure = 1
	exitUsage   = 2
)

// execute does what the arguments say and returns the exit code.
func (p process) execute(args []string, run RunFunc) int {
	command, given, err := parseArgs(args, p.flags)
	if err != nil {
		fmt.Fprintf(p.stderr, "%s: %v\n%s", p.service, err, p.usage())
		return exitUsage
	}
	switch command {
	case commandHelp:
		fmt.Fprint(p.stdout, p.usage())
		return 0
	case commandVersion:
		fmt.Fprintln(p.stdout, describeVersion(p.service, p.version))
		return 0
	case commandHealthcheck:
		return p.healthcheck()
	}
	logger, err := p.logger()
	if err == nil && command == commandMigrate {
		logging.For(logger, "migrate").Error("not supported: services apply the schema when they start")
		return exitFailure
	}
	if err == nil {
		err = p.live(logger, given, run)
	}
	if err != nil {
		logging.For(logger, "boot").Error("FATAL: " + err.Error())
		return exitFailure
	}
	return 0
}

// logger reads the logging settings before all others, so that even their mistakes are well-formed lines.
func (p process) logger() (*slog.Logger, error) {
	settings := struct{ config.Logging }{config.NewLogging()}
	err := config.Load(&settings)
	return logging.New(p.stderr, logging.Settings{Filter: settings.Level, JSON: bool(settings.JSON)}), err
}

// signalled is the cause of the context that a signal ended.
type signalled struct{ os.Signal }

func (s signalled) Error() string { return "stopped by signal: " + s.String() }

// live runs the service under signals.
func (p process) live(logger *slog.Logger, given map[string]bool, run RunFunc) error {
	profiles, err := openProfiles(logger)
	if err != nil {
		return err
	}
	defer profiles.close()
	signals := make(chan os.Signal, 2)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM)
	defer signal.Stop(signals)
	ctx, stop := context.WithCancelCause(context.Background())
	defer stop(nil)

	ended, watched := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(watched)
		p.watch(logging.For(logger, "shutdown"), signals, stop, ended)
	}()
	defer logPanic(logger)
	err = run(ctx, Env{p.service, p.version, logger, p.stdout, given})
	close(ended)
	<-watched
	if ctx.Err() == nil {
		return err
	}
	if err != nil && !errors.Is(err, context.Canceled) && !errors.As(err, new(signalled)) {
		return err
	}
	logging.For(logger, "shutdown").Info("shutdown complete")
	return nil
}

// watch turns the first signal into a stop and the second into the end.
func (p process) watch(logger *slog.Logger, signals <-chan os.Signal, stop context.CancelCauseFunc, ended <-chan struct{}) {
	select {
	case got := <-signals:
		logger.Info("signal received — draining in-flight requests", "signal", got.String())
		stop(signalled{got})
	case <-ended:
		return
	}
	select {
	case got := <-signals:
		logger.Warn("second signal received — exiting now", "signal", got.String())
		p.exit(exitCode(got))
	case <-ended:
	}
}

// exitCode is the shells' convention for a process that a signal ended.
func exitCode(got os.Signal) int {
	if number, ok := got.(syscall.Signal); ok {
		return 128 + int(number)
	}
	return exitFailure
}

// logPanic is deferred: it says in the log what panicked, and lets the panic end the process.
func logPanic(logger *slog.Logger) {
	if panicked := recover(); panicked != nil {
		logging.For(logger, "panic").Error(fmt.Sprint(panicked), "stack", string(debug.Stack()))
		panic(panicked)
	}
}
