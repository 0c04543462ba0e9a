package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math/rand/v2"
	"os"
	"strconv"

	"queen.internal/compose/demo/internal/drive"
	"queen.internal/compose/demo/internal/report"
	"queen.internal/compose/demo/internal/source"
	"queen.internal/compose/local"
	"queen.internal/pkg/client"
)

// Exit codes.
const (
	exitGood        = 0
	exitBad         = 1 // a fault in what was delivered, or the run could not be made
	exitUsage       = 2
	exitInterrupted = 130
)

// run is the whole program; it returns the exit code.
func run(ctx context.Context, args []string, env func(string) string, stdout, stderr io.Writer) int {
	o, err := parse(args, env, strconv.FormatUint(rand.Uint64N(1<<31), 36), stderr)
	if errors.Is(err, errHelp) {
		return exitGood
	}
	if err != nil {
		fmt.Fprintln(stderr, "demo:", err)
		return exitUsage
	}
	outcome, err := demonstrate(ctx, o, stdout)
	interrupted := err != nil && ctx.Err() != nil
	if err != nil && !interrupted {
		fmt.Fprintln(stderr, "demo:", err)
		return exitBad
	}
	if interrupted {
		fmt.Fprintln(stdout, "\ninterrupted; until then:")
	}
	report.Table(stdout, outcome)
	switch {
	case interrupted:
		return exitInterrupted
	case outcome.Stalled:
		fmt.Fprintf(stderr, "demo: nothing happened for %s, although messages are missing\n", o.patience)
		return exitBad
	case outcome.Faults(true) > 0:
		fmt.Fprintln(stderr, "demo: the broker broke a promise, see the table")
		return exitBad
	}
	return exitGood
}

func demonstrate(ctx context.Context, o options, stdout io.Writer) (drive.Outcome, error) {
	if o.url == "" {
		var err error
		if o.url, err = edgeOf(o.stackDir); err != nil {
			return drive.Outcome{}, err
		}
	}
	records, closeSource, err := open(ctx, o)
	if err != nil {
		return drive.Outcome{}, err
	}
	defer closeSource()
	program, err := os.Executable()
	if err != nil {
		return drive.Outcome{}, err
	}
	cell, err := client.New(client.Options{URL: o.url, Attempts: 8})
	if err != nil {
		return drive.Outcome{}, err
	}
	defer cell.Close()

	groups := []string{o.run.Group("index"), o.run.Group("audit")}
	fmt.Fprintf(stdout, "%s: queue %s, run %s, groups %s and %s with %d workers each\n",
		o.url, o.queue, o.run, groups[0], groups[1], o.workers)
	progress := report.NewProgress(stdout)
	outcome, err := drive.Execute(ctx, drive.Options{
		Client: cell, Queue: o.queue, Run: o.run, Again: o.again, Records: records, Groups: groups, Workers: o.workers,
		Patience: o.patience, Victim: victimOf(program, o.url, o.queue, o.run), Progress: progress.Show,
	})
	progress.End()
	var transport *client.TransportError
	if errors.As(err, &transport) && ctx.Err() == nil {
		err = fmt.Errorf("%w (is a stack running there? `make up` starts one)", err)
	}
	return outcome, err
}

// open returns the records and what releases them.
func open(ctx context.Context, o options) (source.Records, func(), error) {
	if o.file == "" {
		return source.History(ctx, o.repository), func() {}, nil
	}
	file, err := os.Open(o.file)
	if err != nil {
		return nil, nil, err
	}
	return source.Lines(file, o.key), func() { _ = file.Close() }, nil // only read from
}

// edgeOf reads the edge's address from the stack's own description.
func edgeOf(stackDir string) (string, error) {
	state, err := local.ReadState(stackDir)
	if errors.Is(err, fs.ErrNotExist) {
		return "", fmt.Errorf("no stack runs in %s: `make up` starts one, or name a cell with --url", stackDir)
	}
	return state.Edge, err
}
