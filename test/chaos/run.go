package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"queen.internal/compose/local"
	"queen.internal/test/chaos/internal/campaign"
	"queen.internal/test/chaos/internal/fault"
	"queen.internal/test/chaos/internal/load"
)

const usage = `usage:
  chaos run [flags]   make runs (chaos run --help tells the flags)
  chaos list          tell the workloads and the faults there are
`

func run(ctx context.Context, args []string, out, progress io.Writer) error {
	command := ""
	if len(args) > 0 {
		command = args[0]
	}
	switch command {
	case "run":
		o, err := parse(args[1:], progress)
		if errors.Is(err, errHelp) {
			return nil
		}
		if err != nil {
			return err
		}
		return runs(ctx, o, out)
	case "list":
		return list(out)
	case "-h", "-help", "--help":
		fmt.Fprint(out, usage)
		return nil
	default:
		fmt.Fprint(progress, usage)
		return errors.New("no command that is known")
	}
}

// list tells what can be chosen.
func list(out io.Writer) error {
	for _, w := range load.Workloads() {
		fmt.Fprintf(out, "workload %-9s %-4s %s\n", w.Name, w.Code, w.About)
	}
	for _, f := range fault.Faults() {
		fmt.Fprintf(out, "fault    %-9s %-4s %s\n", f.Name, f.Code, f.About)
	}
	return nil
}

// runs makes one run after the other, and fails when any is not valid.
func runs(ctx context.Context, o options, out io.Writer) error {
	built := o.Binaries == ""
	if built {
		var err error
		if o.Binaries, err = build(ctx); err != nil {
			return err
		}
		defer func() { _ = os.RemoveAll(o.Binaries) }() // temporary files
	}
	failed := 0
	for i := range o.runs {
		one := o.Options
		one.Seed += uint64(i)
		if o.Dir == "" {
			var err error
			if one.Dir, err = newFolder(); err != nil {
				return err
			}
		} else if o.runs > 1 {
			one.Dir = filepath.Join(o.Dir, fmt.Sprint("seed-", one.Seed))
		}
		v, err := campaign.Run(ctx, one)
		if err != nil {
			return err
		}
		fmt.Fprintf(out, "seed %d: %s", one.Seed, v.Report())
		if v.Verdict != campaign.Valid {
			failed++
		}
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
	}
	if failed > 0 {
		return fmt.Errorf("%d of %d runs are not valid", failed, o.runs)
	}
	return nil
}

// build compiles the services of this checkout.
func build(ctx context.Context) (folder string, err error) {
	root, err := local.Root(".")
	if err != nil {
		return "", err
	}
	if folder, err = newFolder(); err != nil {
		return "", err
	}
	return folder, local.Build(ctx, root, folder, "chaos")
}
