package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"time"

	"queen.internal/test/chaos/internal/campaign"
	"queen.internal/test/chaos/internal/fault"
	"queen.internal/test/chaos/internal/load"
)

// Doses of faults are bounded by a share of a run, so that each fault comes in a short one too, and by a smaller one when
// there are many; pauses between them let work go on.
const (
	longestShare = 5
	pauseBetween = 1500 * time.Millisecond
	longestDose  = time.Minute
)

// floorRate is how many operations a second must have been answered at least: a tenth of what a free machine does.
const floorRate = 8

var errHelp = errors.New("help was asked for")

// options are what the command line says.
type options struct {
	campaign.Options
	runs int
}

func parse(args []string, out io.Writer) (options, error) {
	var o options
	var workloads, faults string
	f := flag.NewFlagSet("chaos run", flag.ContinueOnError)
	f.SetOutput(out)
	f.Uint64Var(&o.Seed, "seed", 1, "what all choices follow from; with -runs, of the first run")
	f.IntVar(&o.runs, "runs", 1, "runs, with one seed after the other")
	f.StringVar(&workloads, "workload", strings.Join(load.Names(), ","), "comma list of workloads (chaos list tells them)")
	f.StringVar(&faults, "faults", strings.Join(usual(), ","), "comma list of faults; none: an undisturbed run")
	f.DurationVar(&o.Span, "t", time.Minute, "how long load and faults go on")
	f.DurationVar(&o.Longest, "longest", 0, "bounds each dose of a fault; 0: a fifth of -t or what lets each come once, at most a minute")
	f.IntVar(&o.Floor, "floor", 0, fmt.Sprintf("operations that must be answered, or the run shows too little; 0: %d for each second of -t", floorRate))
	f.StringVar(&o.Dir, "dir", "", "folder of the run; empty: a new one among the temporary files")
	f.StringVar(&o.Binaries, "binaries", "", "folder with the services; empty: they are built")
	f.BoolVar(&o.Keep, "keep", false, "keep the folder of a valid run as well")
	if err := f.Parse(args); errors.Is(err, flag.ErrHelp) {
		return o, errHelp
	} else if err != nil {
		return o, err
	}
	if f.NArg() > 0 {
		return o, fmt.Errorf("unknown argument %q", f.Arg(0))
	}
	if o.Span <= 0 || o.runs < 1 || o.Longest < 0 || o.Floor < 0 {
		return o, errors.New("-t and -runs are above zero, -longest and -floor not below")
	}
	var err error
	if o.Workloads, err = load.Find(fields(workloads)); err != nil {
		return o, err
	}
	if len(o.Workloads) == 0 {
		return o, errors.New("no workload is given")
	}
	if o.Faults, err = fault.Find(fields(strings.TrimPrefix(faults, "none"))); err != nil {
		return o, err
	}
	o.normalize()
	return o, nil
}

// usual are the faults that a correct Queen is known to stand, whichever come together. A deliver that begins while the clock
// is far off believes it (docs/reliability.md).
func usual() []string {
	return slices.DeleteFunc(fault.Names(), func(name string) bool { return name == "clock" })
}

func (o *options) normalize() {
	if o.Longest == 0 {
		o.Longest = min(o.Span/max(longestShare, time.Duration(len(o.Faults)+1)), longestDose)
	}
	if o.Floor == 0 {
		o.Floor = int(o.Span.Seconds()) * floorRate
	}
	o.Pause = pauseBetween
}

func fields(list string) []string {
	return strings.FieldsFunc(list, func(r rune) bool { return r == ',' || r == ' ' })
}

// newFolder makes one for a run that names none.
func newFolder() (string, error) {
	folder, err := os.MkdirTemp("", "queen-chaos-")
	if err != nil {
		return "", fmt.Errorf("make a folder for the run: %w", err)
	}
	return folder, nil
}
