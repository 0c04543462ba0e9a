package campaign

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"queen.internal/test/chaos/internal/fault"
	"queen.internal/test/chaos/internal/journal"
	"queen.internal/test/chaos/internal/judge"
	"queen.internal/test/chaos/internal/load"
	"queen.internal/test/chaos/internal/stand"
)

// Options describe a run.
type Options struct {
	Seed      uint64
	Workloads []load.Workload
	Faults    []fault.Fault
	Span      time.Duration // of load and faults
	Longest   time.Duration // bounds each dose of a fault
	Pause     time.Duration // between doses, about
	Floor     int           // operations that must have been answered
	Dir       string        // of the run; it is created
	Binaries  string        // the services
	Keep      bool          // the directory also of a valid run
}

// stopLimit is a safety net for the end of a stand.
const stopLimit = time.Minute

// run is one under way.
type run struct {
	Options
	stand   *stand.Stand
	journal *journal.Journal
	queues  []*load.Queue
	verdict *Verdict
}

// Run makes one run and judges it. An error means that there was none: a wrong setting, a folder that cannot be made. A stand that
// does not come up makes a verdict of UNKNOWN.
func Run(ctx context.Context, o Options) (*Verdict, error) {
	if err := os.MkdirAll(o.Dir, 0o755); err != nil {
		return nil, fmt.Errorf("create the folder of the run: %w", err)
	}
	if err := os.Chmod(o.Dir, 0o755); err != nil { // the database's account passes through
		return nil, fmt.Errorf("open the folder of the run: %w", err)
	}
	j, err := journal.Create(filepath.Join(o.Dir, "history.jsonl"))
	if err != nil {
		return nil, err
	}
	r := &run{Options: o, journal: j, verdict: &Verdict{Counts: map[string]int{}, Faults: map[string]*fault.Tally{}, Dir: o.Dir, Repeat: o.command()}}
	r.lack(r.whole(ctx))
	if err := j.Close(); err != nil {
		r.lack(err)
	}
	r.verdict.conclude()
	if r.verdict.Verdict == Valid && !o.Keep {
		return r.verdict, os.RemoveAll(o.Dir)
	}
	return r.verdict, os.WriteFile(filepath.Join(o.Dir, "verdict.txt"), []byte(r.verdict.Report()), 0o644)
}

// command repeats the run.
func (o Options) command() string {
	var workloads, faults []string
	for _, w := range o.Workloads {
		workloads = append(workloads, w.Name)
	}
	for _, f := range o.Faults {
		faults = append(faults, f.Name)
	}
	return fmt.Sprintf("cd test && go run ./chaos run -seed %d -workload %s -faults %s -t %v -longest %v", o.Seed, strings.Join(workloads, ","),
		strings.Join(faults, ","), o.Span, o.Longest)
}

func (r *run) lack(err error) {
	if err != nil {
		r.verdict.Lacks = append(r.verdict.Lacks, err.Error())
	}
}

func (r *run) wrong(findings ...string) { r.verdict.Wrong = append(r.verdict.Wrong, findings...) }

// whole is the run from the start of the stand to its end.
func (r *run) whole(ctx context.Context) (err error) {
	needs := fault.Needs{}
	for _, f := range r.Faults {
		needs.Clock, needs.Disk, needs.Trace = needs.Clock || f.Needs.Clock, needs.Disk || f.Needs.Disk, needs.Trace || f.Needs.Trace
	}
	if needs.Trace {
		if err := stand.FindTracer(); err != nil {
			return err
		}
	}
	s, err := stand.Start(ctx, stand.Options{Dir: r.Dir, Binaries: r.Binaries, Clock: needs.Clock, Disk: needs.Disk})
	if err != nil {
		return err
	}
	r.stand = s
	defer func() {
		stopping, cancel := context.WithTimeout(context.WithoutCancel(ctx), stopLimit)
		defer cancel()
		err = errors.Join(err, s.Stop(stopping))
	}()
	for _, w := range r.Workloads {
		q, err := load.New(ctx, w, s, r.journal)
		if err != nil {
			return fmt.Errorf("prepare %s: %w", w.Name, err)
		}
		defer q.Close()
		r.queues = append(r.queues, q)
	}
	before := judge.Hold(ctx, s)
	watch := judge.NewWatch(ctx, s, r.journal)
	err = r.disturb(ctx)
	if err == nil {
		err = r.settle(ctx)
	}
	samples, wrong := watch.Stop()
	r.verdict.Counts["samples"] = samples
	r.wrong(wrong...)
	if err != nil {
		return err
	}
	return r.judge(ctx, before)
}

// disturb is load and faults.
func (r *run) disturb(ctx context.Context) error {
	loading, stop := context.WithCancel(ctx)
	defer stop()
	var load sync.WaitGroup
	for _, q := range r.queues {
		load.Go(func() { q.Run(loading, r.Seed) })
	}
	faults := fault.Runner{Stand: r.stand, Journal: r.journal, Faults: r.Faults, Seed: r.Seed, Longest: r.Longest, Pause: r.Pause}
	begun := time.Now()
	tally, err := faults.Run(ctx, r.Span)
	if left := r.Span - time.Since(begun); left > 0 { // without faults
		timer := time.NewTimer(left)
		defer timer.Stop()
		select {
		case <-timer.C:
		case <-ctx.Done():
		}
	}
	r.verdict.Faults = tally
	r.stand.Heal()
	if err == nil {
		r.recover(ctx)
	}
	stop()
	load.Wait()
	return errors.Join(err, context.Cause(ctx))
}
