package main

import (
	"context"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"

	"queen.internal/compose/demo/internal/drive"
	"queen.internal/pkg/client"
)

// victimCommand is the hidden first argument of the process that is going to be killed.
const victimCommand = "victim"

// victimOf returns the command that starts a victim: this program again.
func victimOf(program, url, queue string, run drive.Run) func(group string) *exec.Cmd {
	return func(group string) *exec.Cmd {
		c := exec.Command(program, victimCommand, "--url", url, "--queue", queue, "--run", string(run), "--group", group)
		c.Stderr = os.Stderr
		return c
	}
}

// victim ends when stdin does, which is when its parent has gone.
func victim(args []string, stdin io.Reader, stdout, stderr io.Writer) int {
	// Ctrl-C reaches every process of the terminal; the parent decides about this one.
	signal.Ignore(os.Interrupt)
	flags := flag.NewFlagSet(victimCommand, flag.ContinueOnError)
	flags.SetOutput(stderr)
	url := flags.String("url", "", "address of the cell")
	queue := flags.String("queue", "", "queue to take from")
	run := flags.String("run", "", "name of the run")
	group := flags.String("group", "", "consumer group")
	if flags.Parse(args) != nil {
		return 2
	}
	cell, err := client.New(client.Options{URL: *url})
	if err == nil {
		ctx, cancel := context.WithCancel(context.Background())
		go func() {
			_, _ = io.Copy(io.Discard, stdin) // whatever ends it, the parent is gone
			cancel()
		}()
		err = drive.Victim(ctx, cell, *queue, *group, drive.Run(*run), stdout)
		cancel()
	}
	if err != nil {
		fmt.Fprintln(stderr, "victim:", err)
		return 1
	}
	return 0
}
