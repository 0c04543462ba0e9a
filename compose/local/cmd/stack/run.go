package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"queen.internal/compose/local"
)

// backgroundCommand is how a detached stack calls itself; its progress goes to the file descriptor after stderr.
const backgroundCommand = "up-in-background"

func run(args []string) error {
	if len(args) != 1 {
		return errUsage
	}
	// A terminal or pipe that went away must not end the runner in the middle of its work: with a handler, writing to
	// it is an error like any other. (Ignoring the signal would be inherited by the services.)
	signal.Notify(make(chan os.Signal, 1), syscall.SIGPIPE)
	s, err := loadSettings()
	if err != nil {
		return err
	}
	switch args[0] {
	case "up":
		return up(s)
	case backgroundCommand:
		return background(s)
	case "down":
		return down(s)
	default:
		return errUsage
	}
}

func up(s settings) error {
	ctx, stop := interruptible()
	defer stop()
	// The early look spares a build, and keeps it from replacing programs that are running.
	if err := local.Running(s.Dir); err != nil {
		return err
	}
	root, err := local.Root(".")
	if err != nil {
		return err
	}
	fmt.Println("building the services")
	if err := local.Build(ctx, root, local.BinFolder(s.Dir), version); err != nil {
		return err
	}
	if s.Detach {
		return detach(ctx, s)
	}
	return serve(ctx, s.options(), func(stack *local.Stack) error {
		announce(os.Stdout, stack)
		fmt.Println("Ctrl-C stops everything and keeps the data.")
		return nil
	})
}

// serve runs a stack until the first signal. A second signal ends it at once.
func serve(ctx context.Context, options local.Options, ready func(*local.Stack) error) error {
	stack, err := local.Start(ctx, options)
	if err != nil {
		return err
	}
	readyErr := ready(stack)
	if readyErr == nil {
		<-ctx.Done()
	}
	began := time.Now()
	stopCtx, stop := interruptible()
	defer stop()
	if err := stack.Stop(stopCtx); err != nil {
		return err
	}
	fmt.Printf("stopped in %.1f s\n", time.Since(began).Seconds())
	return readyErr
}

// interruptible is over with the next signal that asks for an end. Losing the terminal is one, except under nohup.
func interruptible() (context.Context, context.CancelFunc) {
	signals := []os.Signal{syscall.SIGINT, syscall.SIGTERM}
	if !signal.Ignored(syscall.SIGHUP) {
		signals = append(signals, syscall.SIGHUP)
	}
	return signal.NotifyContext(context.Background(), signals...)
}

func down(s settings) error {
	ctx, stop := interruptible()
	defer stop()
	stopped, err := local.Down(ctx, s.Dir)
	if err != nil {
		return err
	}
	if stopped {
		fmt.Println("stopped the stack in", s.Dir)
	} else {
		fmt.Println("no stack is running in", s.Dir)
	}
	return nil
}

// announce prints where everything is and two lines to try it with.
func announce(out io.Writer, stack *local.Stack) {
	var text strings.Builder
	text.WriteString("\nQueen is up.\n\n")
	for _, name := range append([]string{local.Edge}, local.Names()[:len(local.Names())-1]...) {
		fmt.Fprintf(&text, "  %-11s %s\n", name, strings.Join(stack.URLs(name), "  "))
	}
	fmt.Fprintf(&text, "  %-11s %s\n", "postgres", redacted(stack.DSN()))
	fmt.Fprintf(&text, "  %-11s %s\n\n", "everything", stack.Dir()+"/stack.json (with the password), logs in "+stack.Dir()+"/logs")
	edge := stack.URL(local.Edge)
	fmt.Fprintf(&text, "  push  curl -sS -X POST %s/api/v1/push -H 'Content-Type: application/json' \\\n"+
		"          -d '{\"items\":[{\"queue\":\"hello\",\"partition\":\"p1\",\"payload\":{\"text\":\"first\"}}]}'\n", edge)
	fmt.Fprintf(&text, "  pop   curl -sS '%s/api/v1/pop/queue/hello?batch=10&wait=true&timeout=5000&autoAck=true'\n\n", edge)
	_, _ = io.WriteString(out, text.String()) // a terminal that went away changes nothing
}
