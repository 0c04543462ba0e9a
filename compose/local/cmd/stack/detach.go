package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"

	"queen.internal/compose/local"
)

// reportDescriptor is where a detached stack tells the command that started it how the start went.
const reportDescriptor = 3

// report is its one message: what to print, or why it did not start.
type report struct {
	Announcement string   `json:"announcement"`
	Error        string   `json:"error"`
	Lines        []string `json:"lines"` // the last words of the process at fault
}

// detach starts this program again as a background process with a session of its own and returns when the stack is
// healthy, or is not going to be.
func detach(ctx context.Context, s settings) error {
	program, err := os.Executable()
	if err != nil {
		return fmt.Errorf("find this program: %w", err)
	}
	reader, writer, err := os.Pipe()
	if err != nil {
		return fmt.Errorf("open a pipe: %w", err)
	}
	defer func() { _ = reader.Close() }()
	logPath := filepath.Join(s.Dir, "stack.log")
	logFile, err := os.OpenFile(logPath, os.O_CREATE|os.O_TRUNC|os.O_WRONLY, 0o600)
	if err != nil {
		return fmt.Errorf("open the stack's log: %w", err)
	}
	defer func() { _ = logFile.Close() }()
	cmd := exec.Command(program, backgroundCommand)
	cmd.Env = append(os.Environ(), "QUEEN_STACK_DIR="+s.Dir)
	cmd.Stdout, cmd.Stderr = logFile, logFile
	cmd.ExtraFiles = []*os.File{writer}
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	err = cmd.Start()
	_ = writer.Close() // the child's copy is the only one left, so its end is the end of the pipe
	if err != nil {
		return fmt.Errorf("start the background process: %w", err)
	}
	got, err := awaitReport(ctx, cmd, reader)
	switch {
	case err != nil:
		return fmt.Errorf("%w; see %s", err, logPath)
	case got.Error != "":
		_ = cmd.Wait() // it has said why already
		for _, line := range got.Lines {
			fmt.Fprintln(os.Stderr, "  |", line)
		}
		return errors.New(got.Error)
	}
	fmt.Print(got.Announcement)
	fmt.Println("It runs in the background, its log is " + logPath + "; make down stops it.")
	return cmd.Process.Release()
}

// awaitReport passes a Ctrl-C on and then waits for the end: a half-started stack is not left behind.
func awaitReport(ctx context.Context, cmd *exec.Cmd, reader io.Reader) (report, error) {
	stop := context.AfterFunc(ctx, func() { _ = cmd.Process.Signal(syscall.SIGTERM) })
	defer stop()
	var got report
	err := json.NewDecoder(reader).Decode(&got)
	if ctx.Err() != nil {
		_ = cmd.Wait()
		return got, errors.New("interrupted, everything is stopped again")
	}
	if err != nil {
		return got, fmt.Errorf("the background process ended without a word (%v)", cmd.Wait())
	}
	return got, nil
}

// background is the detached process.
func background(s settings) error {
	syscall.CloseOnExec(reportDescriptor) // or every service would keep the pipe open
	pipe := os.NewFile(reportDescriptor, "report")
	ctx, stop := interruptible()
	defer stop()
	options := s.options()
	options.Colour = false
	err := serve(ctx, options, func(stack *local.Stack) error {
		var text strings.Builder
		announce(&text, stack)
		return send(pipe, report{Announcement: text.String()})
	})
	var start *local.StartError
	if errors.As(err, &start) {
		_ = send(pipe, report{Error: err.Error(), Lines: start.Lines})
	} else if err != nil {
		_ = send(pipe, report{Error: err.Error()}) // fails when it was started well, and nobody listens any more
	}
	return err
}

func send(pipe *os.File, r report) error {
	err := json.NewEncoder(pipe).Encode(r)
	return errors.Join(err, pipe.Close())
}

// redacted hides the password of an address that is printed.
func redacted(dsn string) string {
	u, err := url.Parse(dsn)
	if err != nil {
		return ""
	}
	return u.Redacted()
}
