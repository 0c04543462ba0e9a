package claim

import (
	"context"
	"errors"
	"log/slog"
	"math/rand/v2"
	"sync"
	"time"

	"queen.internal/pkg/backoff"
	"queen.internal/pkg/logging"
	"queen.internal/pkg/pg"
	"queen.internal/pkg/store/task"
)

const (
	// retryAfter is how long a task rests whose work has failed, at most: its period may be shorter.
	retryAfter = 30 * time.Second
	// returnLimit bounds giving a task back when the process stops.
	returnLimit = 2 * time.Second
	// complaints is how seldom one task complains in the log.
	complaints = 30 * time.Second
)

// asking is how a process that gets no answer asks again.
var asking = backoff.Policy{Min: 200 * time.Millisecond, Max: 10 * time.Second}

// Worker works tasks for one process. Its fields are not changed any more once it is used.
type Worker struct {
	Store  *task.Store
	Tasks  []Task
	Holder string // what people are told the holder is called; need not be unique
	Logger *slog.Logger
	Meter  *Meter
}

// Run works each task whenever it is due and nobody else does, until ctx ends.
func (w *Worker) Run(ctx context.Context) error {
	var running sync.WaitGroup
	for _, t := range w.Tasks {
		running.Go(func() { w.attend(ctx, t) })
	}
	running.Wait()
	return nil
}

// attend asks for one task again and again: when it is due, by what the database says, at least once a period, and a
// little apart from the others who ask.
func (w *Worker) attend(ctx context.Context, t Task) {
	sampler := logging.Sampler{Window: complaints}
	for attempt := 0; ctx.Err() == nil; {
		_, wait, err := w.turn(ctx, t)
		if err == nil {
			attempt = 0
			wait = min(wait, t.Terms.Period)
			wait += rand.N(wait/20 + time.Millisecond)
		} else {
			wait = asking.Next(attempt)
			attempt++
			if suppressed, ok := sampler.Allow(time.Now()); ok && ctx.Err() == nil {
				w.log().WarnContext(ctx, "task failed", "task", t.Name, "err", pg.Reason(err), "suppressed", suppressed)
			}
		}
		if backoff.Sleep(ctx, wait) != nil {
			return
		}
	}
}

// turn works a task once if it is due and free; otherwise wait says for how long it is not.
func (w *Worker) turn(ctx context.Context, t Task) (o Outcome, wait time.Duration, err error) {
	asked := time.Now()
	hold, taken, wait, err := w.Store.Claim(ctx, t.Name, w.Holder, t.Terms)
	if err != nil || !taken {
		return o, wait, err
	}
	o.Taken = true
	o.Told, err = t.Work(ctx, &Lease{Hold: hold, store: w.Store, terms: t.Terms, asked: asked})
	elapsed := time.Since(asked)
	switch {
	case err == nil:
		err = w.Store.Finish(ctx, hold, t.Terms)
	case !errors.Is(err, task.ErrReplaced):
		err = errors.Join(err, w.giveUp(ctx, hold, t))
	}
	w.Meter.count(t.Name, elapsed, err)
	level := slog.LevelDebug
	if len(o.Told) > 0 {
		level = slog.LevelInfo
	}
	w.log().LogAttrs(ctx, level, "worked", append([]slog.Attr{
		slog.String("task", t.Name),
		slog.Int64("elapsed_ms", elapsed.Milliseconds()),
	}, o.Told...)...)
	return o, 0, err
}

// giveUp leaves a task to whoever comes next: at once when this process stops.
func (w *Worker) giveUp(ctx context.Context, hold task.Hold, t Task) error {
	retry := min(t.Terms.Period, retryAfter)
	if ctx.Err() != nil {
		retry = 0
	}
	limited, cancel := context.WithTimeout(context.WithoutCancel(ctx), returnLimit)
	defer cancel()
	return w.Store.GiveUp(limited, hold, t.Terms, retry)
}

func (w *Worker) log() *slog.Logger { return logging.For(w.Logger, "tasks") }

// Outcome is what came of asking for a task.
type Outcome struct {
	Taken bool        // it was due, and is worked unless there is an error
	Told  []slog.Attr // by the work
}

// Once asks for every task, one after the other, works those that are due and free, and tells of each that it took. An
// error does not keep it from the others; the first one is returned.
func (w *Worker) Once(ctx context.Context, tell func(name string, o Outcome, err error)) error {
	var failed error
	for _, t := range w.Tasks {
		o, _, err := w.turn(ctx, t)
		if o.Taken || err != nil {
			tell(t.Name, o, err)
		}
		if failed == nil {
			failed = err
		}
	}
	return failed
}
