package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"path/filepath"
	"strings"
	"time"

	"queen.internal/compose/demo/internal/drive"
	"queen.internal/pkg/queue"
)

const usage = `Pushes real data through a running cell, consumes it with two consumer groups of 4 workers each, kills one worker while
it holds a lease, and prints what was delivered.

  demo                                                    this repository's history: a message per commit and touched file
  demo --file x.jsonl --queue q --partition-key field     any file with one JSON value per line

The exit code is 1 when anything was delivered out of order, lost or altered, 2 for a wrong call, 130 after Ctrl-C.

Every run has a name of its own, which is part of its transaction ids and group names, so a second run pushes and consumes
everything again, in the same queue. With --run NAME given twice, the second run finds its messages already there: within
the queue's deduplication window the broker answers "duplicate" to each, and nothing is delivered again.

`

// options are what the command line says.
type options struct {
	url, stackDir    string
	repository, file string
	queue, key       string
	run              drive.Run
	again            bool
	workers          int
	patience         time.Duration
}

// errHelp ends the program after its usage was printed.
var errHelp = errors.New("help")

// parse reads the command line; freshRun names the run when the caller does not.
func parse(args []string, env func(string) string, freshRun string, out io.Writer) (options, error) {
	var o options
	flags := flag.NewFlagSet("demo", flag.ContinueOnError)
	flags.SetOutput(out)
	flags.Usage = func() {
		fmt.Fprint(out, usage)
		flags.PrintDefaults()
	}
	stackDir := env("QUEEN_STACK_DIR")
	if stackDir == "" {
		stackDir = ".queen"
	}
	flags.StringVar(&o.url, "url", "", "`address` of the cell (default: the edge in stack.json)")
	flags.StringVar(&o.stackDir, "stack-dir", stackDir, "`folder` of stack.json, also QUEEN_STACK_DIR")
	flags.StringVar(&o.repository, "repo", ".", "git `repository` whose history is pushed")
	flags.StringVar(&o.file, "file", "", "push the lines of this `file` instead of a history")
	flags.StringVar(&o.queue, "queue", "", "`queue` (default history.files; with --file, lines.<file name>)")
	flags.StringVar(&o.key, "partition-key", "", "with --file: top-level `field` whose value is the partition")
	runName := flags.String("run", "", "`name` of the run (default: a new one)")
	flags.IntVar(&o.workers, "workers", 4, "workers of each group, at least 2")
	flags.DurationVar(&o.patience, "patience", time.Minute, "give up when nothing at all happened for so long")
	switch err := flags.Parse(args); {
	case errors.Is(err, flag.ErrHelp):
		return options{}, errHelp
	case err != nil:
		return options{}, err
	case flags.NArg() > 0:
		return options{}, fmt.Errorf("unexpected argument %q", flags.Arg(0))
	case o.workers < 2:
		return options{}, errors.New("--workers: at least 2, one of them is killed")
	case o.file == "" && o.key != "":
		return options{}, errors.New("--partition-key needs --file; a history is partitioned by top-level folder")
	}
	o.run, o.again = drive.Run(freshRun), *runName != ""
	if o.again {
		o.run = drive.Run(*runName)
	}
	if strings.Contains(string(o.run), "/") || queue.CheckName("run", string(o.run)) != nil {
		return options{}, errors.New("--run: no slash and no control character")
	}
	if o.queue == "" {
		o.queue = defaultQueue(o.file)
	}
	if err := queue.CheckName("--queue", o.queue); err != nil {
		return options{}, err
	}
	return o, nil
}

func defaultQueue(file string) string {
	if file == "" {
		return "history.files"
	}
	base := filepath.Base(file)
	return "lines." + strings.TrimSuffix(base, filepath.Ext(base))
}
