package rounds

import (
	"container/list"
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/google/uuid"
)

// Options are what Rounds work by.
type Options[T any] struct {
	Parallel int           // rounds at a time
	Bounds   []int         // for each class the most weight that a round takes; one call is taken whatever its weight
	Timeout  time.Duration // of a round
	Spare    time.Duration // a call that has less time left is not begun

	// Work carries out the calls of one round, which share nothing else, and leaves in each what came of it. Its context
	// bounds it.
	Work func(ctx context.Context, calls []T)
}

// Rounds carry out calls together. It is safe for concurrent use.
type Rounds[T any] struct {
	o Options[T]

	mu     sync.Mutex
	queues []queue[T] // by class
	leads  int        // calls that lead, or were named to
}

// New returns Rounds.
func New[T any](o Options[T]) *Rounds[T] {
	return &Rounds[T]{o: o, queues: make([]queue[T], len(o.Bounds))}
}

// ErrTooLate says that a call had too little time left to be begun.
var ErrTooLate = fmt.Errorf("too little time is left to begin: %w", context.DeadlineExceeded)

// errStopped is what calls get whose round ended early.
var errStopped = errors.New("the round broke off")

// waiter is a call under way.
type waiter[T any] struct {
	call     T
	tenant   uuid.UUID
	class    int
	weight   int
	deadline time.Time
	wake     chan struct{}

	// Under the mutex.
	place *list.Element // while it waits
	leads bool          // it leads, or was named to
	done  bool
	err   error // set before done
}

// Do has a call carried out, with others. Without an error Work had it, and what came of it is in the call. The error is
// the context's cause or ErrTooLate when the call was not begun; otherwise nobody knows.
func (r *Rounds[T]) Do(ctx context.Context, tenant uuid.UUID, class, weight int, call T) error {
	w := &waiter[T]{call: call, tenant: tenant, class: class, weight: weight, wake: make(chan struct{}, 2)}
	w.deadline, _ = ctx.Deadline()
	r.mu.Lock()
	r.queues[class].push(w)
	if r.leads < r.o.Parallel {
		r.leads++
		w.leads = true
		w.wake <- struct{}{}
	}
	r.mu.Unlock()

	withdrawn := ctx.Done()
	for {
		select {
		case <-w.wake:
		case <-withdrawn:
			r.withdraw(w, context.Cause(ctx))
			withdrawn = nil // if a round has it, it waits for that
		}
		if done, leads := r.state(w); leads {
			r.lead(w)
		} else if done {
			return w.err
		}
	}
}

func (r *Rounds[T]) state(w *waiter[T]) (done, leads bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return w.done, w.leads
}

// Waiting is how many calls are in no round yet.
func (r *Rounds[T]) Waiting() (n int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for class := range r.queues {
		n += r.queues[class].waiting
	}
	return n
}

// withdraw ends a call that no round has taken.
func (r *Rounds[T]) withdraw(w *waiter[T], cause error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if w.place != nil {
		r.queues[w.class].remove(w)
		w.end(cause)
	}
}

// lead makes rounds until w is in none of the queues any more, and names who is to go on.
func (r *Rounds[T]) lead(w *waiter[T]) {
	defer r.handOver(w)
	for {
		taken, deadline := r.compose(w)
		if len(taken) == 0 {
			return
		}
		r.work(taken, deadline)
	}
}

// compose takes the calls of the next round, nothing when w does not wait. Calls that come too late are ended.
func (r *Rounds[T]) compose(w *waiter[T]) (taken []*waiter[T], deadline time.Time) {
	r.mu.Lock()
	defer r.mu.Unlock()
	now := time.Now()
	deadline = now.Add(r.o.Timeout)
	if w.place != nil && r.late(w, now) {
		r.queues[w.class].remove(w)
		w.end(ErrTooLate) // it need not see the others through
	}
	for w.place != nil && len(taken) == 0 {
		for class := range r.queues {
			q, room, first := &r.queues[class], r.o.Bounds[class], true
			for next := q.front(); next != nil && (first || next.weight <= room); next = q.front() {
				q.take()
				if r.late(next, now) {
					next.end(ErrTooLate)
					continue
				}
				if !next.deadline.IsZero() && next.deadline.Before(deadline) {
					deadline = next.deadline
				}
				room -= next.weight
				first = false
				taken = append(taken, next)
			}
		}
	}
	return taken, deadline
}

// late says that a call has too little time left.
func (r *Rounds[T]) late(w *waiter[T], now time.Time) bool {
	return !w.deadline.IsZero() && w.deadline.Sub(now) < r.o.Spare
}

// work carries out a round and ends its calls.
func (r *Rounds[T]) work(taken []*waiter[T], deadline time.Time) {
	calls := make([]T, len(taken))
	for i, w := range taken {
		calls[i] = w.call
	}
	err := errStopped
	defer func() {
		r.mu.Lock()
		defer r.mu.Unlock()
		for _, w := range taken {
			w.end(err)
		}
	}()
	ctx, cancel := context.WithDeadline(context.Background(), deadline)
	defer cancel()
	r.o.Work(ctx, calls)
	err = nil
}

// handOver names the next leader. One that is named already will see to what waits.
func (r *Rounds[T]) handOver(w *waiter[T]) {
	r.mu.Lock()
	defer r.mu.Unlock()
	w.leads = false
	for class := range r.queues {
		if next := r.queues[class].front(); next != nil && !next.leads {
			next.leads = true
			next.wake <- struct{}{}
			return
		}
	}
	r.leads--
}

// end tells a call that it is over. It is called once, under the mutex.
func (w *waiter[T]) end(err error) {
	w.done, w.err = true, err
	w.wake <- struct{}{}
}
