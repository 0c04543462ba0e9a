package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"os/signal"
	"syscall"
	"time"

	"queen.internal/pkg/pgserver"
)

// startLimit covers creating a cluster on a slow disk.
const startLimit = 2 * time.Minute

// run returns the exit code for the whole program; with an error the command did not run, the server did not stop, or
// there was nothing to run.
func run(ctx context.Context, logger *slog.Logger, argv []string) (int, error) {
	if len(argv) > 0 && argv[0] == "--" {
		argv = argv[1:]
	}
	if len(argv) == 0 {
		return 2, errors.New("usage: withpg [--] command [argument ...]")
	}
	signals := make(chan os.Signal, 4)
	signal.Notify(signals, syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP)
	defer signal.Stop(signals)

	startCtx, cancel := context.WithTimeout(ctx, startLimit)
	defer cancel()
	server, err := pgserver.Start(startCtx, pgserver.Options{Throwaway: true, Logger: logger})
	if err != nil {
		return 1, err
	}
	code, err := command(argv, server, signals)
	if err = errors.Join(err, server.Stop(ctx)); err != nil {
		code = max(code, 1)
	}
	return code, err
}

// command passes signals on rather than dying of them: the command decides when it is over, the server goes after it.
func command(argv []string, server *pgserver.Server, signals <-chan os.Signal) (int, error) {
	select {
	case sig := <-signals: // it came while the server started
		return 1, fmt.Errorf("ended by a signal: %v", sig)
	default:
	}
	cmd := exec.Command(argv[0], argv[1:]...)
	cmd.Env = append(os.Environ(), "QUEEN_TEST_PG="+server.DSN("postgres"))
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stdout, os.Stderr
	if err := cmd.Start(); err != nil {
		return 127, fmt.Errorf("run %s: %w", argv[0], err)
	}
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	for {
		select {
		case sig := <-signals:
			_ = cmd.Process.Signal(sig) // an ended command needs no signal
		case err := <-ended:
			var exit *exec.ExitError
			if err != nil && !errors.As(err, &exit) {
				return 1, fmt.Errorf("run %s: %w", argv[0], err)
			}
			return exitCode(cmd.ProcessState), nil
		}
	}
}

// exitCode follows the shell: a command that died of signal n counts as 128+n.
func exitCode(state *os.ProcessState) int {
	if status, ok := state.Sys().(syscall.WaitStatus); ok && status.Signaled() {
		return 128 + int(status.Signal())
	}
	return state.ExitCode()
}
