package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"time"

	"queen.internal/test/load/internal/payload"
)

// options are what the command line says.
type options struct {
	stackDir        string
	ingest, deliver string // comma lists of host:port; empty: the stack's
	edge            bool
	tenant, queue   string

	producers, consumers, groups int
	batch, popBatch              int
	partitions, popPartitions    int
	spread, autoAck              bool
	payload                      int
	random                       float64
	rate                         float64
	backlog                      int64
	pollTimeout                  time.Duration

	warmup, duration time.Duration
	drain            time.Duration
	yardsticks       []string
	pairs            int
	dsn              string
	json             string
	quiet            bool
}

var errHelp = errors.New("help was asked for")

func parse(args []string, out io.Writer) (options, error) {
	var o options
	var yardsticks string
	f := flag.NewFlagSet("load", flag.ContinueOnError)
	f.SetOutput(out)
	f.StringVar(&o.stackDir, "stack-dir", ".queen", "folder of a stack that `make up` runs: its addresses, processes and database are used")
	f.StringVar(&o.ingest, "ingest", "", "comma list of host:port to push to, instead of the stack's")
	f.StringVar(&o.deliver, "deliver", "", "comma list of host:port to pop from and ack to, instead of the stack's")
	f.BoolVar(&o.edge, "edge", false, "go through the stack's edge instead of straight to the roles")
	f.StringVar(&o.tenant, "tenant", "", "UUID for x-queen-tenant; empty sends none")
	f.StringVar(&o.queue, "queue", "", "name of the queue; empty: a new one")

	f.IntVar(&o.producers, "producers", 16, "connections that push; 0: nobody does")
	f.IntVar(&o.consumers, "consumers", 16, "connections that pop, spread over the groups; 0: nobody does")
	f.IntVar(&o.groups, "groups", 1, "consumer groups, each of which gets everything; 0: queue mode")
	f.IntVar(&o.batch, "batch", 100, "messages a push")
	f.IntVar(&o.popBatch, "pop-batch", 0, "messages a pop; 0: as -batch")
	f.IntVar(&o.partitions, "partitions", 256, "of the queue")
	f.IntVar(&o.popPartitions, "pop-partitions", 1, "how many a pop may claim")
	f.BoolVar(&o.spread, "spread", false, "a push goes to one partition after another, message by message, instead of to one")
	f.BoolVar(&o.autoAck, "auto-ack", false, "pops acknowledge what they bring")
	f.IntVar(&o.payload, "payload", 256, "bytes of a message")
	f.Float64Var(&o.random, "random", payload.DefaultRandomShare, "share of the payload that is random characters, from 0 to 1")
	f.Float64Var(&o.rate, "rate", 0, "pushes a second of all producers together, to a schedule; times count from when a push was due. 0: as fast as they are answered")
	f.Int64Var(&o.backlog, "backlog", 0, "messages to push before anything is measured")
	f.DurationVar(&o.pollTimeout, "poll-timeout", time.Second, "how long a pop waits for a message")

	f.DurationVar(&o.warmup, "warmup", time.Second, "before the window")
	f.DurationVar(&o.duration, "duration", 10*time.Second, "of the window")
	f.DurationVar(&o.drain, "drain", time.Minute, "how long the groups may go on reading afterwards, to the end of the queue; 0: not at all, and what is left is no loss")
	f.StringVar(&yardsticks, "yardstick", "", "comma list of what takes turns with the load: "+strings.Join(slices.Sorted(maps.Keys(yards)), ", "))
	f.IntVar(&o.pairs, "pairs", 5, "how often")
	f.StringVar(&o.dsn, "dsn", "", "database of the yardsticks, instead of the stack's")
	f.StringVar(&o.json, "json", "", "a file for all figures; - for standard output instead of the table")
	f.BoolVar(&o.quiet, "quiet", false, "no line a second")
	if err := f.Parse(args); errors.Is(err, flag.ErrHelp) {
		return o, errHelp
	} else if err != nil {
		return o, err
	}
	if f.NArg() > 0 {
		return o, fmt.Errorf("unknown argument %q", f.Arg(0))
	}
	o.yardsticks = strings.FieldsFunc(yardsticks, func(r rune) bool { return r == ',' || r == ' ' })
	if o.popBatch == 0 {
		o.popBatch = o.batch
	}
	return o, o.validate()
}

func (o options) validate() error {
	for _, name := range o.yardsticks {
		if _, ok := yards[name]; !ok {
			return fmt.Errorf("there is no yardstick %q", name)
		}
	}
	switch {
	case o.producers < 0 || o.consumers < 0 || o.producers+o.consumers == 0:
		return errors.New("nobody pushes and nobody pops")
	case o.groups < 0 || o.consumers > 0 && o.consumers < o.groups:
		return fmt.Errorf("%d consumers for %d groups", o.consumers, o.groups)
	case o.batch < 1 || o.popBatch < 1 || o.popPartitions < 1 || o.rate < 0 || o.backlog < 0 || o.pairs < 1:
		return errors.New("batches, partitions of a pop and pairs are at least 1, rate and backlog at least 0")
	case o.duration <= 0 || o.warmup < 0 || o.drain < 0 || o.pollTimeout < 0:
		return errors.New("the duration is above zero, other times are not negative")
	}
	return nil
}
