package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"strings"
	"time"
)

// options are what the command line says.
type options struct {
	rows     []string // empty: all
	pairs    int
	duration time.Duration // of one turn
	warmup   time.Duration // before it
	payload  int           // bytes
	random   float64       // share of the payload

	backlog           int // messages
	backlogPartitions int
	polls, edgePolls  int
	starts            int // of each service
	idle              time.Duration
	ringPartitions    int
	ringGroups        int

	root     string // of the checkout
	binaries string // already built; empty: build
	record   string // JSON
	document string // markdown
	profiles string // folder; empty: none
	keepLogs string // folder; empty: none
	list     bool
}

var errHelp = errors.New("help was asked for")

func parse(args []string, out io.Writer) (options, error) {
	var o options
	var rows string
	f := flag.NewFlagSet("bench", flag.ContinueOnError)
	f.SetOutput(out)
	f.StringVar(&rows, "rows", "", "comma list of rows to measure (see -list); empty: all")
	f.BoolVar(&o.list, "list", false, "print the rows and end")
	f.IntVar(&o.pairs, "pairs", 5, "how often subject and yardstick take turns")
	f.DurationVar(&o.duration, "duration", 3*time.Second, "how long one turn is measured")
	f.DurationVar(&o.warmup, "warmup", time.Second, "how long it runs before that")
	f.IntVar(&o.payload, "payload", 256, "bytes of a message")
	f.Float64Var(&o.random, "random", defaultRandom, "share of the payload that is random characters; the default compresses three times")
	f.IntVar(&o.backlog, "backlog", 10_000_000, "messages of the row backlog")
	f.IntVar(&o.backlogPartitions, "backlog-partitions", 100_000, "its partitions, and those of the row idle")
	f.IntVar(&o.polls, "polls", 10_000, "parked long polls at deliver of the row polls")
	f.IntVar(&o.edgePolls, "edge-polls", 9_000, "and through the edge")
	f.IntVar(&o.starts, "starts", 20, "of each service, for the row cold-start")
	f.DurationVar(&o.idle, "idle", time.Minute, "how long the row idle watches a stack that has nothing to do")
	f.IntVar(&o.ringPartitions, "ring-partitions", 1_000_000, "partitions of the row rings")
	f.IntVar(&o.ringGroups, "ring-groups", 16, "and its groups")
	f.StringVar(&o.root, "root", ".", "a folder of the checkout")
	f.StringVar(&o.binaries, "binaries", "", "folder of built services; empty: build them")
	f.StringVar(&o.record, "json", "", "where the figures are kept; empty: docs/benchmarks.json of the checkout")
	f.StringVar(&o.document, "document", "", "where the table is written; empty: docs/benchmarks.md of the checkout; - for nowhere")
	f.StringVar(&o.profiles, "profiles", "", "a folder for processor profiles of the services and the times of statements, taken in the first turn of each subject; such figures are a little slower")
	f.StringVar(&o.keepLogs, "logs", "", "a folder for what the processes printed")
	if err := f.Parse(args); errors.Is(err, flag.ErrHelp) {
		return o, errHelp
	} else if err != nil {
		return o, err
	}
	if f.NArg() > 0 {
		return o, fmt.Errorf("unknown argument %q", f.Arg(0))
	}
	for row := range strings.FieldsFuncSeq(rows, func(r rune) bool { return r == ',' || r == ' ' }) {
		if _, ok := find(row); !ok {
			return o, fmt.Errorf("there is no row %q (see -list)", row)
		}
		o.rows = append(o.rows, row)
	}
	if o.pairs < 1 || o.duration <= 0 || o.warmup < 0 {
		return o, errors.New("at least one pair, a duration above zero and a warm-up that is not negative")
	}
	return o, nil
}

// wants says whether a row is to be measured.
func (o options) wants(row string) bool {
	if len(o.rows) == 0 {
		return true
	}
	for _, r := range o.rows {
		if r == row {
			return true
		}
	}
	return false
}
