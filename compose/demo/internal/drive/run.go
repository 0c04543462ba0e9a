package drive

import (
	"context"
	"errors"
	"fmt"
	"os/exec"
	"time"

	"golang.org/x/sync/errgroup"

	"queen.internal/compose/demo/internal/ledger"
	"queen.internal/compose/demo/internal/source"
	"queen.internal/pkg/client"
)

// Options describe a run.
type Options struct {
	Client   *client.Client
	Queue    string
	Run      Run
	Again    bool // the run's name was used before: duplicates are of that run
	Records  source.Records
	Groups   []string // full names; the last one loses a worker
	Workers  int      // of each group
	Patience time.Duration
	// Victim makes the command of a process that calls Victim for the given group.
	Victim func(group string) *exec.Cmd
	// Progress is called about once a second.
	Progress func(ledger.Totals)
}

// Outcome is what a run came to.
type Outcome struct {
	ledger.Totals
	Death
	Stalled bool // nothing happened for the whole Patience although messages were missing
	Cut     bool // the run was ended from outside; what is missing may have been about to come
}

const producers = 4

// registerLease: a group of a run that is repeated may be given something at registration; it comes again this much later.
const registerLease = time.Second

var errSettled, errStalled = errors.New("everything is acknowledged"), errors.New("nothing happens any more")

// Execute pushes everything, consumes it and returns when every group has acknowledged every message, when nothing
// happens any more, or when ctx ends; then the error is ctx's cause and the outcome is what there was until then.
func Execute(ctx context.Context, o Options) (Outcome, error) {
	for _, group := range o.Groups {
		if err := register(ctx, o, group); err != nil {
			return Outcome{}, err
		}
	}
	l := ledger.New(time.Now, o.Groups...)
	stop, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	parts, running := errgroup.WithContext(stop)
	last := len(o.Groups) - 1
	var death Death

	for i, group := range o.Groups {
		crew := o.Workers
		if i == last {
			crew--
			parts.Go(func() (err error) {
				death, err = sacrifice(running, o.Victim(group), l, group, time.Now)
				if err == nil {
					err = consume(running, o, l, group, crew)
				}
				return err
			})
			continue
		}
		parts.Go(func() error { return consume(running, o, l, group, crew) })
	}
	parts.Go(func() error { return produce(running, o, l, producers) })
	parts.Go(func() error {
		cancel(watch(running, o, l))
		return nil
	})

	err := parts.Wait()
	outcome := Outcome{Totals: l.Totals(), Death: death}
	switch cause := context.Cause(stop); {
	case ctx.Err() != nil:
		outcome.Cut = true
		return outcome, context.Cause(ctx)
	case errors.Is(cause, errSettled):
		return outcome, nil
	case errors.Is(cause, errStalled):
		outcome.Stalled = true
		return outcome, nil
	default:
		return outcome, err
	}
}

// register makes the group known to the queue before anything is pushed: it then owes everything that comes after.
func register(ctx context.Context, o Options, group string) error {
	r := client.PopRequest{Queue: o.Queue, Group: group, Batch: 1, Lease: registerLease, Mode: "new"}
	if _, err := o.Client.Pop(ctx, r); err != nil {
		return fmt.Errorf("register group %s: %w", group, err)
	}
	return nil
}

// consume runs a group's workers until the context ends.
func consume(ctx context.Context, o Options, l *ledger.Ledger, group string, workers int) error {
	crew, ctx := errgroup.WithContext(ctx)
	for range workers {
		w := worker{client: o.Client, queue: o.Queue, run: o.Run, group: group, lease: workerLease, book: l}
		crew.Go(func() error { return w.consume(ctx) })
	}
	return crew.Wait()
}

// watch shows progress and says why the run is over: everything is settled, or nothing was heard for the whole patience.
// It looks once a second, which is what a reader of the progress line wants.
func watch(ctx context.Context, o Options, l *ledger.Ledger) error {
	ticker := time.NewTicker(time.Second)
	defer ticker.Stop()
	changes, since := l.Changes(), time.Now()
	for {
		select {
		case <-l.Done():
			return errSettled
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-ticker.C:
			o.Progress(l.Totals())
			if n := l.Changes(); n != changes {
				changes, since = n, time.Now()
			} else if time.Since(since) > o.Patience {
				return errStalled
			}
		}
	}
}
