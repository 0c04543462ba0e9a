package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"time"
)

func main() {
	var opts options
	flag.IntVar(&opts.rounds, "rounds", 5, "how often the choices of a set take turns")
	flag.DurationVar(&opts.turn, "turn", 2*time.Second, "how long one turn lasts")
	flag.StringVar(&opts.dsn, "dsn", "", "an existing server to use (its schema queen_storage_bench is dropped); empty starts a private one")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := run(ctx, opts, os.Stdout, os.Stderr); err != nil {
		fmt.Fprintln(os.Stderr, "storage:", err)
		os.Exit(1)
	}
}
