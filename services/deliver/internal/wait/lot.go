package wait

import (
	"container/heap"
	"context"
	"log/slog"
	"sync"
	"time"

	"queen.internal/pkg/queue"
)

// Intervals are the pauses of the backstop.
type Intervals struct {
	Initial    time.Duration // before each of the first Threshold rounds
	Threshold  int
	Multiplier float64 // of each later pause over the one before
	Max        time.Duration
}

// togetherMax is how much earlier than planned a recheck may be for the sake of company.
const togetherMax = 250 * time.Millisecond

// together moves the time of a recheck after such a pause to where others are made, a little earlier: a thousand rechecks at
// four moments of a second cost a few questions, each by itself costs one.
func (l *Lot) together(at time.Time, pause time.Duration) time.Time {
	grain := min(pause/4, togetherMax)
	if grain <= 0 {
		return at
	}
	return l.begun.Add(at.Sub(l.begun) / grain * grain)
}

// pause is how long to wait before the round after that many empty ones.
func (i Intervals) pause(emptyRounds int) time.Duration {
	pause := float64(i.Initial)
	for range emptyRounds - i.Threshold + 1 {
		if pause *= i.Multiplier; pause >= float64(i.Max) {
			break
		}
	}
	return min(time.Duration(pause), i.Max)
}

// Options are the bounds of a Lot.
type Options struct {
	MaxParked int // polls parked at once
	Workers   int // rechecks at once: those made together share their questions
	Intervals Intervals
	Logger    *slog.Logger
}

// Source looks for the work that the polls of one spot wait for.
type Source interface {
	// Due is called when a time given to Spot.Due has come. It must not block.
	Due(now time.Time)
	// Recheck looks for work that nobody announced, and wakes polls for what it finds. It is never called twice at
	// once for one spot, and only while a poll is parked there or after Spot.Recheck.
	Recheck(ctx context.Context) error
}

// Lot is every parked poll of the process. Its methods are safe for concurrent use.
type Lot struct {
	options Options
	begun   time.Time     // what moments are counted from; another in each process
	kick    chan struct{} // the schedule has a new earliest time

	mu       sync.Mutex
	parked   int
	arrivals uint64
	schedule schedule
	failing  bool // the last recheck failed
}

// New returns a Lot. Nothing is looked for until it runs.
func New(options Options) *Lot {
	return &Lot{options: options, begun: time.Now(), kick: make(chan struct{}, 1)}
}

// Parked is how many polls are parked.
func (l *Lot) Parked() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.parked
}

// Spot returns a new spot whose work source knows how to find. It needs no closing: without parked polls the lot does
// not refer to it.
func (l *Lot) Spot(source Source) *Spot {
	return &Spot{lot: l, source: source, place: unscheduled}
}

// Run dispatches until ctx ends; it returns when its workers have ended, with a nil error.
func (l *Lot) Run(ctx context.Context) error {
	work := make(chan *Spot)
	var workers sync.WaitGroup
	for range l.options.Workers {
		workers.Go(func() {
			for spot := range work {
				l.recheck(ctx, spot)
			}
		})
	}
	l.dispatch(ctx, work)
	close(work)
	workers.Wait()
	return nil
}

// dispatch sleeps until the earliest scheduled time, a change of the schedule or a free worker, whichever is first.
func (l *Lot) dispatch(ctx context.Context, work chan<- *Spot) {
	const never = time.Hour // the pause of an empty schedule; a kick ends it
	timer := time.NewTimer(never)
	defer timer.Stop()
	var jobs []*Spot // spots whose recheck waits for a worker
	for ctx.Err() == nil {
		pause := never
		due, rechecks, next := l.collect(time.Now())
		for _, spot := range due {
			spot.source.Due(time.Now())
		}
		jobs = append(jobs, rechecks...)
		if !next.IsZero() {
			pause = max(time.Until(next), 0)
		}
		timer.Reset(pause)

		var free chan<- *Spot
		var first *Spot
		if len(jobs) > 0 {
			free, first = work, jobs[0]
		}
		select {
		case free <- first:
			jobs = jobs[1:]
		case <-timer.C:
		case <-l.kick:
		case <-ctx.Done():
		}
	}
}

// collect takes what is due by now out of the schedule. A spot whose recheck is returned is not scheduled for another
// until that one is done.
func (l *Lot) collect(now time.Time) (due, rechecks []*Spot, next time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for len(l.schedule) > 0 {
		spot := l.schedule[0]
		if at := spot.at(); at.After(now) {
			return due, rechecks, at
		}
		if spot.parked.Len() > 0 && !spot.due.IsZero() && !spot.due.After(now) {
			spot.due = time.Time{}
			due = append(due, spot)
		}
		if !spot.next.IsZero() && !spot.next.After(now) {
			spot.next, spot.checking = time.Time{}, true
			rechecks = append(rechecks, spot)
		}
		l.reschedule(spot)
	}
	return due, rechecks, time.Time{}
}

// recheck runs one recheck and schedules the next.
func (l *Lot) recheck(ctx context.Context, spot *Spot) {
	l.mu.Lock()
	wanted, version := spot.forced || spot.parked.Len() > 0, spot.version
	spot.forced = false
	l.mu.Unlock()
	if wanted {
		l.report(ctx, spot.source.Recheck(ctx))
	}

	l.mu.Lock()
	defer l.mu.Unlock()
	spot.checking = false
	if spot.version == version {
		spot.empty++
	}
	spot.next = time.Now()
	if !spot.forced {
		pause := l.options.Intervals.pause(spot.empty)
		spot.next = l.together(spot.next.Add(pause), pause)
	}
	l.reschedule(spot)
}

// report logs when rechecks begin to fail and when they work again, not each of thousands that fail alike.
func (l *Lot) report(ctx context.Context, err error) {
	if ctx.Err() != nil {
		return
	}
	l.mu.Lock()
	changed := l.failing != (err != nil)
	l.failing = err != nil
	l.mu.Unlock()
	switch {
	case !changed:
	case err != nil:
		l.options.Logger.WarnContext(ctx, "looking for work of parked polls fails", "err", err)
	default:
		l.options.Logger.InfoContext(ctx, "looking for work of parked polls works again")
	}
}

// reschedule puts spot where its times say, or takes it out when it has none. The caller holds the mutex.
func (l *Lot) reschedule(spot *Spot) {
	scheduled := spot.place != unscheduled
	switch at := spot.at(); {
	case at.IsZero() && scheduled:
		heap.Remove(&l.schedule, spot.place)
	case at.IsZero():
	case scheduled:
		heap.Fix(&l.schedule, spot.place)
	default:
		heap.Push(&l.schedule, spot)
	}
	if spot.place == 0 {
		select {
		case l.kick <- struct{}{}:
		default: // a kick is pending, and whoever takes it sees this change, too
		}
	}
}

// full is the answer to a poll beyond the bound.
func (l *Lot) full() error {
	return queue.Overloaded("too many long polls are waiting here; poll again later or without wait", time.Second)
}
