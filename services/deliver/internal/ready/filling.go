package ready

import (
	"context"
	"math"
	"time"

	"queen.internal/pkg/store/group"
	"queen.internal/services/deliver/internal/wait"
)

// fillSample bounds the partitions of one estimate. A batch that more of them would fill is full enough.
const fillSample = 1000

// Filling is where polls wait until a ring has enough for them. Its methods are safe for concurrent use.
type Filling struct {
	ring *Ring
	spot *wait.Spot

	// Guarded by the ring's mutex.
	known group.Available // as last read
	of    group.Ref       // the subscription it was read for
	asked time.Time       // when it was last asked for
}

// Filling is where polls of this group and queue wait for company.
func (r *Ring) Filling() *Filling { return r.filling }

// Spot is where they park. They are woken when the estimate has changed.
func (f *Filling) Spot() *wait.Spot { return f.spot }

// MinWait is how long the queue lets a poll be held for company; most queues do not. It is asked for at most every
// Options.Refresh. A group that is new to the queue makes its first contact. Errors have a kind.
func (f *Filling) MinWait(ctx context.Context) (time.Duration, error) {
	r := f.ring
	r.mu.Lock()
	known, of := f.known.MinWait, f.of
	fresh := of.ID != 0 && of == r.subscription.Ref && time.Since(f.asked) < r.index.options.Refresh
	if !fresh {
		f.asked = time.Now() // whoever comes meanwhile goes by the last answer, if there is one
	}
	r.mu.Unlock()
	if fresh {
		return known, nil
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), r.index.options.Timeout)
	defer cancel()
	if _, err := r.subscribe(ctx, queuePop); err != nil {
		return 0, err
	}
	available, err := f.estimate(ctx)
	return available.MinWait, err
}

// Messages is how many messages the last estimate found.
func (f *Filling) Messages() int {
	f.ring.mu.Lock()
	defer f.ring.mu.Unlock()
	return f.known.Messages
}

// Estimate brings Messages up to date. Errors have a kind.
func (f *Filling) Estimate(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), f.ring.index.options.Timeout)
	defer cancel()
	_, err := f.estimate(ctx)
	return err
}

func (f *Filling) estimate(ctx context.Context) (group.Available, error) {
	r := f.ring
	r.mu.Lock()
	r.entries.promoteDue(time.Now())
	subscription, sample := r.subscription.Ref, make([]int64, 0, min(r.entries.queue.length, fillSample))
	for n := r.entries.queue.front; n != nil && len(sample) < cap(sample); n = n.after {
		sample = append(sample, n.id)
	}
	r.mu.Unlock()
	var available group.Available
	err := r.index.call(ctx, func() (err error) {
		available, err = r.index.store.Available(ctx, subscription, sample)
		return err
	})
	if err != nil {
		return group.Available{}, err
	}
	if len(sample) == fillSample {
		available.Messages = math.MaxInt
	}
	r.mu.Lock()
	changed := f.known != available
	f.known, f.of = available, subscription
	r.mu.Unlock()
	if changed {
		f.spot.Wake(math.MaxInt)
	}
	return available, nil
}

// heard takes the news that there is more. The caller holds the ring's mutex.
func (f *Filling) heard() {
	if f.spot.Parked() {
		f.spot.Recheck()
	}
}

// Due implements wait.Source. It is never called: nothing here is due at a time.
func (f *Filling) Due(time.Time) {}

// Recheck implements wait.Source: it looks for work that nobody announced and estimates anew.
func (f *Filling) Recheck(ctx context.Context) error {
	if err := f.ring.Recheck(ctx); err != nil {
		return err
	}
	return f.Estimate(ctx)
}
