package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"

	"queen.internal/compose/local"
)

// run measures the rows that are asked for, one after the other, and keeps what each found as soon as it is known. A row
// that fails does not stop the others.
func run(ctx context.Context, args []string, out, progress io.Writer) error {
	o, err := parse(args, progress)
	if errors.Is(err, errHelp) {
		return nil
	}
	if err != nil {
		return err
	}
	if o.list {
		for _, r := range table() {
			fmt.Fprintf(out, "%-12s %s\n", r.name, r.what)
		}
		return nil
	}
	root, err := local.Root(o.root)
	if err != nil {
		return err
	}
	binaries, remove, err := build(ctx, o, root)
	if err != nil {
		return err
	}
	failures := rowByRow(ctx, o, root, binaries, out, progress)
	return errors.Join(failures, remove())
}

func rowByRow(ctx context.Context, o options, root, binaries string, out, progress io.Writer) error {
	keeper, err := openKeeper(ctx, o, root)
	if err != nil {
		return err
	}
	var failures []error
	for _, r := range table() {
		if !o.wants(r.name) || ctx.Err() != nil {
			continue
		}
		start := time.Now()
		results, err := measure(ctx, o, r, binaries, progress)
		if err != nil {
			failures = append(failures, fmt.Errorf("row %s: %w", r.name, err))
			fmt.Fprintf(progress, "row %s: %v\n", r.name, err)
			continue
		}
		fmt.Fprintf(progress, "row %s took %.0f s\n", r.name, time.Since(start).Seconds())
		if err := printResults(out, results); err != nil {
			return err
		}
		if err := keeper.keep(r, results); err != nil {
			return err
		}
	}
	return errors.Join(append(failures, context.Cause(ctx))...)
}

// build compiles the services of the checkout, unless they are given. remove undoes it.
func build(ctx context.Context, o options, root string) (folder string, remove func() error, err error) {
	if o.binaries != "" {
		return o.binaries, func() error { return nil }, nil
	}
	if folder, err = os.MkdirTemp("", "queen-bench-bin-"); err != nil {
		return "", nil, err
	}
	remove = func() error { return os.RemoveAll(folder) }
	// The database's account does not run these, but a service that drops its rights would.
	err = os.Chmod(folder, 0o755)
	if err == nil {
		err = local.Build(ctx, root, folder, version(ctx, root))
	}
	if err != nil {
		return "", nil, errors.Join(err, remove())
	}
	return folder, remove, nil
}

func docs(root, given, name string) string {
	if given != "" {
		return given
	}
	return filepath.Join(root, "docs", name)
}
