package turn

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"

	"queen.internal/test/load/internal/machine"
)

// Plan is how long a turn lasts and what is watched meanwhile.
type Plan struct {
	Warmup, Duration time.Duration
	Processes        []machine.Process
	// Progress, if set, is told each second of the window what was done in it. It must not block.
	Progress func(Tick)
}

// Tick is one second of a turn.
type Tick struct {
	Since                      time.Duration // the window opened
	Pushed, Popped, Acked, Row float64       // a second
	Failed                     int64         // since the start
}

// String is a line of progress.
func (t Tick) String() string {
	line := fmt.Sprintf("%4.0f s  pushed %7.0f/s  popped %7.0f/s  acked %7.0f/s", t.Since.Seconds(), t.Pushed, t.Popped, t.Acked)
	if t.Row > 0 {
		line = fmt.Sprintf("%4.0f s  yardstick %7.0f/s", t.Since.Seconds(), t.Row)
	}
	if t.Failed > 0 {
		line += fmt.Sprintf("  failed %d", t.Failed)
	}
	return line
}

// Figures are what a turn came to. Rates are a second.
type Figures struct {
	Seconds   float64          `json:"seconds"`
	Pushed    float64          `json:"pushed,omitempty"`
	Popped    float64          `json:"popped,omitempty"`
	Acked     float64          `json:"acked,omitempty"`
	Stored    float64          `json:"stored,omitempty"`
	Calls     float64          `json:"calls"`
	Empty     float64          `json:"empty,omitempty"`
	Failed    int64            `json:"failed,omitempty"` // in all, warm-up included
	Problem   string           `json:"problem,omitempty"`
	Latencies map[string]Times `json:"latencies,omitempty"`
	Usage     []machine.Usage  `json:"usage,omitempty"`
	Generator float64          `json:"generator_cores"` // what the generator itself used, in cores
	Others    float64          `json:"others_cores"`    // what else ran on the machine
}

// Times are percentiles in milliseconds.
type Times struct {
	Count int64   `json:"count"`
	P50   float64 `json:"p50"`
	P90   float64 `json:"p90"`
	P99   float64 `json:"p99"`
	P999  float64 `json:"p999"`
	Max   float64 `json:"max"`
}

var latencyNames = [latencies]string{"push", "pop", "ack", "delivered", "statement"}

// Run lets work run until the window is over. The warm-up begins when the first call was answered, or failed, so that connecting is
// no part of it. work starts its workers and returns when they have ended, which must be soon
// after its context has. An error of work ends the turn early.
func Run(ctx context.Context, plan Plan, work func(context.Context, *Meter) error) (Figures, error) {
	meter := NewMeter()
	working, stop := context.WithCancel(ctx)
	defer stop()
	ended := make(chan error, 1)
	go func() { ended <- work(working, meter) }()

	figures, err := window(ctx, plan, meter, ended)
	stop()
	var early endedError
	if errors.As(err, &early) {
		err = early.err
	} else {
		err = errors.Join(err, <-ended)
	}
	figures.Latencies = timesOf(meter.merged())
	figures.Failed = meter.Total(Failed)
	if problem := meter.Problem(); problem != nil {
		figures.Problem = problem.Error()
	}
	return figures, err
}

// endedError says that the workers ended before the window did, and with what.
type endedError struct{ err error }

func (e endedError) Error() string { return fmt.Sprint("the workers ended: ", e.err) }

// window waits for the warm-up, then measures. It is over early when the workers have ended.
func window(ctx context.Context, plan Plan, meter *Meter, ended <-chan error) (Figures, error) {
	select {
	case <-meter.begun:
	case err := <-ended:
		return Figures{}, endedError{err}
	case <-ctx.Done():
		return Figures{}, context.Cause(ctx)
	}
	if err := wait(ctx, plan.Warmup, ended); err != nil {
		return Figures{}, err
	}
	usage, err := machine.Start(plan.Processes)
	if err != nil {
		return Figures{}, err
	}
	before, start := meter.snapshot(), time.Now()
	meter.measuring.Store(true)
	err = pace(ctx, plan, meter, ended, start)
	meter.measuring.Store(false)
	after, elapsed := meter.snapshot(), time.Since(start).Seconds()
	f := Figures{Seconds: elapsed}
	rate := func(c Count) float64 { return float64(after[c]-before[c]) / elapsed }
	f.Pushed, f.Popped, f.Acked, f.Stored = rate(Pushed), rate(Popped), rate(Acked), rate(Stored)
	f.Calls, f.Empty = rate(Calls), rate(Empty)
	seen, failure := usage.Stop()
	f.Usage, f.Generator, f.Others = seen.Usage, seen.Own, seen.Others
	return f, errors.Join(err, failure)
}

// pace sleeps through the window second by second.
func pace(ctx context.Context, plan Plan, meter *Meter, ended <-chan error, start time.Time) error {
	last := meter.snapshot()
	for {
		left := plan.Duration - time.Since(start)
		if left <= 0 {
			return nil
		}
		step := min(left, time.Second)
		if err := wait(ctx, step, ended); err != nil {
			return err
		}
		now := meter.snapshot()
		if plan.Progress != nil {
			rate := func(c Count) float64 { return float64(now[c]-last[c]) / step.Seconds() }
			plan.Progress(Tick{time.Since(start), rate(Pushed), rate(Popped), rate(Acked), rate(Stored), now[Failed]})
		}
		last = now
	}
}

func wait(ctx context.Context, d time.Duration, ended <-chan error) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case err := <-ended:
		return endedError{err}
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

func (m *Meter) snapshot() (s [counts]int64) {
	for c := range s {
		s[c] = m.counts[c].Load()
	}
	return s
}

func timesOf(all [latencies]*hdrhistogram.Histogram) map[string]Times {
	times := map[string]Times{}
	for l, h := range all {
		if h != nil {
			ms := func(percentile float64) float64 { return float64(h.ValueAtQuantile(percentile)) / 1000 }
			times[latencyNames[l]] = Times{h.TotalCount(), ms(50), ms(90), ms(99), ms(99.9), float64(h.Max()) / 1000}
		}
	}
	return times
}

// CPU is what all watched processes together took, in seconds.
func (f Figures) CPU() (total float64) {
	for _, u := range f.Usage {
		total += u.CPU
	}
	return total
}

// String is a line for whoever waits.
func (f Figures) String() string {
	var b strings.Builder
	rate := func(name string, perSecond float64) {
		if perSecond > 0 {
			fmt.Fprintf(&b, "%s %.0f/s  ", name, perSecond)
		}
	}
	rate("pushed", f.Pushed)
	rate("popped", f.Popped)
	rate("acked", f.Acked)
	rate("yardstick", f.Stored)
	for _, name := range latencyNames {
		if t, ok := f.Latencies[name]; ok {
			fmt.Fprintf(&b, "%s %.2f/%.2f ms  ", name, t.P50, t.P99)
		}
	}
	for _, u := range f.Usage {
		if cores := u.CPU / f.Seconds; cores >= 0.01 {
			fmt.Fprintf(&b, "%s %.2f cores  ", u.Name, cores)
		}
	}
	fmt.Fprintf(&b, "generator %.2f cores", f.Generator)
	if f.Others >= 0.1 {
		fmt.Fprintf(&b, "  OTHERS %.2f cores", f.Others)
	}
	if f.Failed > 0 {
		fmt.Fprintf(&b, "  FAILED %d: %s", f.Failed, f.Problem)
	}
	return b.String()
}
