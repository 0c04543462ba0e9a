package ready

import (
	"context"
	"time"

	"queen.internal/pkg/store/group"
)

// pageSize is how many partitions one call of the store names, and enough is how many takeable ones end a search: the
// pops that wait for it are served, and the next search goes on from there.
const (
	pageSize = 1000
	enough   = 256
)

// contactPause is how long the backstop takes an empty answer at its word before it asks whether the queue and the group
// are still those it knows. A pop asks at once.
const contactPause = 10 * time.Second

// search is the single flight of a ring. Searches are numbered; all its fields are guarded by the ring's mutex.
type search struct {
	number  uint64 // of the search begun last
	begun   time.Time
	running *flight
}

// seeker is who has a ring searched.
type seeker uint8

const (
	backstop  seeker = iota // for the polls that are parked
	discovery               // a pop of many queues, which creates none
	queuePop                // a pop of this queue, which creates it
)

// flight is one search under way.
type flight struct {
	number uint64
	as     seeker
	done   chan struct{} // closed by the one who searches
	err    error         // valid once done
}

// Ticket is what a pop must take before it looks, to ask for a search that began later.
func (r *Ring) Ticket() uint64 {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.search.number
}

// Search returns when a search that began after the ticket was taken has ended, with its error; it runs one if it must.
// Errors have a kind, or are ctx's own.
func (r *Ring) Search(ctx context.Context, ticket uint64) error {
	return r.searchOnce(ctx, ticket, queuePop)
}

// Look is Search for a discovery: a queue that is gone stays gone.
func (r *Ring) Look(ctx context.Context, ticket uint64) error {
	return r.searchOnce(ctx, ticket, discovery)
}

// Recheck implements wait.Source: the backstop's search.
func (r *Ring) Recheck(ctx context.Context) error {
	return r.searchOnce(ctx, r.Ticket(), backstop)
}

func (r *Ring) searchOnce(ctx context.Context, ticket uint64, as seeker) error {
	r.mu.Lock()
	for r.search.running != nil {
		running := r.search.running
		r.mu.Unlock()
		select {
		case <-running.done:
		case <-ctx.Done():
			return ctx.Err()
		}
		if running.number > ticket && running.as >= as {
			return running.err
		}
		r.mu.Lock()
	}
	r.search.number++
	f := &flight{number: r.search.number, as: as, done: make(chan struct{})}
	r.search.running, r.search.begun = f, time.Now()
	r.mu.Unlock()

	// Others wait for the answer, so it does not end with the request that happened to be first.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), r.index.options.Timeout)
	defer cancel()
	f.err = r.run(ctx, as)

	r.mu.Lock()
	r.search.running = nil
	r.mu.Unlock()
	close(f.done)
	return f.err
}

// run searches until enough can be taken or everything was looked at.
func (r *Ring) run(ctx context.Context, as seeker) error {
	if there, err := r.subscribe(ctx, as, false); err != nil || !there {
		return err
	}
	found, err := r.pages(ctx, as == backstop)
	if err != nil || found > 0 {
		return err
	}
	// Nothing anywhere: is it still the same queue and the same group? If not, what we asked about is dead.
	r.mu.Lock()
	before, trust := r.generation, as == backstop && time.Since(r.contact) < contactPause
	r.mu.Unlock()
	if trust {
		return nil
	}
	if there, err := r.subscribe(ctx, as, true); err != nil || !there {
		return err
	}
	r.mu.Lock()
	same := r.generation == before
	r.mu.Unlock()
	if same {
		return nil
	}
	_, err = r.pages(ctx, as == backstop)
	return err
}

// subscribe makes the group's first contact, or finds out with which identity it was made. It is false when there is no
// queue, which only a pop of this queue creates: whoever was there before cannot undo a deletion.
func (r *Ring) subscribe(ctx context.Context, as seeker, again bool) (there bool, err error) {
	r.mu.Lock()
	known, start := r.subscription.ID != 0 && !r.stale && !again, r.start
	if !r.contact.IsZero() && start.From.IsZero() && r.waitedFor() {
		start.Mode = "all" // polls wait since before this queue was there, so nothing of it is backlog
	}
	r.mu.Unlock()
	if known {
		return true, nil
	}
	var subscription group.Subscription
	if there = as == queuePop; there {
		subscription, err = r.index.store.Subscribe(ctx, r.key.Tenant, r.key.Queue, r.key.Group, start)
	} else {
		subscription, there, err = r.index.store.Rejoin(ctx, r.key.Tenant, r.key.Queue, r.key.Group, start)
	}
	if err != nil {
		return false, err
	}
	r.mu.Lock()
	old := r.subscription.Ref
	if old != subscription.Ref {
		r.reset(subscription)
	}
	r.stale, r.contact = false, time.Now()
	r.mu.Unlock()
	if old != subscription.Ref {
		r.index.bind(r, old.ID, subscription.ID)
	}
	return there, nil
}

// waitedFor says whether polls are parked that would take from this ring. The caller holds the mutex.
func (r *Ring) waitedFor() bool {
	if r.spot.Parked() || r.filling.spot.Parked() {
		return true
	}
	for d := range r.listeners {
		if d.spot.Parked() {
			return true
		}
	}
	return false
}

// pages reads candidates from where the last search stopped, around to the same place, or until enough can be taken. It
// returns how many candidates it saw.
func (r *Ring) pages(ctx context.Context, backstop bool) (found int, err error) {
	r.mu.Lock()
	subscription, from, generation := r.subscription.Ref, r.after, r.generation
	r.mu.Unlock()
	after, wrapped, dropped := from, from == 0, false
	for {
		asked := time.Now()
		ids, err := r.index.store.Candidates(ctx, subscription, after, pageSize, r.index.options.ClockCap())
		if err != nil {
			return found, err
		}
		last := len(ids) < pageSize
		if wrapped && from > 0 {
			for i, id := range ids {
				if id > from {
					ids, last = ids[:i], true
					break
				}
			}
		}
		found += len(ids)
		takeable, fit := r.offer(ids, generation, asked, backstop)
		dropped = dropped || !fit
		switch {
		case last && wrapped:
			r.proceed(0, dropped)
			return found, nil
		case last:
			after, wrapped = 0, true
		default:
			after = ids[len(ids)-1]
		}
		if takeable >= enough {
			r.proceed(after, true)
			return found, nil
		}
	}
}

// proceed notes where the next search begins, and whether this one left anything out.
func (r *Ring) proceed(after int64, more bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.after, r.more = after, more
}

// offer queues candidates that a search found and returns how many can be taken now, and whether all did fit. asked is
// when the question was sent: what a claim said that began later is newer than the answer.
func (r *Ring) offer(ids []int64, generation int, asked time.Time, backstop bool) (takeable int, fit bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if generation != r.generation {
		return 0, true
	}
	before := r.entries.queue.length
	fit = true
	for _, id := range ids {
		n := r.entries.byID[id]
		switch {
		case n == nil:
			fit = r.entries.add(id) && fit
		case n.state == taken:
			n.marked = true
		case n.state != later || n.tried.After(asked):
		case n.deferred && backstop && asked.Sub(n.tried) < deferredPause:
		default:
			r.entries.promote(n)
		}
	}
	r.announce(r.entries.queue.length - before)
	return r.entries.queue.length, fit
}

// Settle waits until something can be taken, or until every claim that was under way when it was called has returned. It
// is false when there was nothing to wait for. A pop that may not wait for a wake calls it before it leaves empty-handed:
// what a search has just found may be in the hands of a claim that began before the search and finds nothing, or that
// takes something else and gives it back untried.
func (r *Ring) Settle(ctx context.Context) (waited bool, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	last := r.lastTaking
	for r.entries.queue.length == 0 && r.underWay(last) {
		waited = true
		returned := r.returned
		r.mu.Unlock()
		select {
		case <-returned:
		case <-ctx.Done():
			err = ctx.Err()
		}
		r.mu.Lock()
		if err != nil {
			return true, err
		}
	}
	return waited || r.entries.queue.length > 0, nil
}

func (r *Ring) underWay(last uint64) bool {
	for number := range r.takings {
		if number <= last {
			return true
		}
	}
	return false
}
