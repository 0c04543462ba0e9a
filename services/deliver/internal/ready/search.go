package ready

import (
	"context"
	"errors"
	"time"
)

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

// Recheck implements wait.Source: the backstop's search. One that did not come to its end is followed by another while
// polls wait for it.
func (r *Ring) Recheck(ctx context.Context) error {
	err := r.searchOnce(ctx, r.Ticket(), backstop)
	r.rouse()
	if Unfinished(err) {
		r.goOn()
		return nil
	}
	return err
}

func (r *Ring) goOn() {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.waitedFor() {
		r.spot.Recheck()
	}
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
		if running.number > ticket && running.as >= as || unregistered(running.err) || Unfinished(running.err) {
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
	f.err = r.run(ctx, f)

	r.mu.Lock()
	r.search.running = nil
	r.mu.Unlock()
	close(f.done)
	return f.err
}

// run searches until enough can be taken or everything was looked at. When it has found something before it fails, that is
// no failure: the next search goes on from there.
func (r *Ring) run(ctx context.Context, f *flight) error {
	for first := true; ; first = false {
		if there, err := r.subscribe(ctx, f.as); err != nil || !there {
			return err
		}
		over, err := r.page(ctx, f, first)
		if over || err != nil {
			return err
		}
	}
}

// page asks for one page of a search and takes the answer.
func (r *Ring) page(ctx context.Context, f *flight, first bool) (over bool, err error) {
	r.mu.Lock()
	search := r.ask(f, first)
	p := r.pass
	r.mu.Unlock()
	answer, err := r.index.finder.find(ctx, search)
	r.mu.Lock()
	defer r.mu.Unlock()
	switch {
	case err != nil && r.entries.queue.length > 0:
		return true, nil
	case search.From.Everywhere() && errors.Is(err, context.DeadlineExceeded): // of the search, or of its call, which began later
		return false, &unfinishedError{err}
	case err != nil:
		return false, err
	}
	return r.learn(f, p, answer), nil
}

// subscribe makes the group's first contact, or finds out with which identity it was made. It is false when there is no
// queue, which only a pop of this queue creates: whoever was there before cannot undo a deletion. So it is when the backstop
// searches for a pop that has ended meanwhile: it would undo the deletion of the group.
func (r *Ring) subscribe(ctx context.Context, as seeker) (there bool, err error) {
	r.mu.Lock()
	known, start := r.subscription.ID != 0 && !r.stale, r.start
	if r.met && start.From.IsZero() && r.waitedFor() {
		start.Mode = "all" // polls wait since before this queue was there, so nothing of it is backlog
	}
	r.mu.Unlock()
	if known {
		return true, nil
	}
	if as == backstop && !r.index.uses(r) {
		return false, nil
	}
	subscription, there, err := r.index.subscribe(ctx, r.key, start, as == queuePop)
	if err != nil {
		return false, err
	}
	r.mu.Lock()
	old := r.subscription.Ref
	if old != subscription.Ref {
		r.reset(subscription)
	}
	r.stale, r.met = false, true
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

// Settle waits until something can be taken, or until every claim that was under way when it was called has returned. It
// is false when there was nothing to wait for. A pop that may not wait for a wake calls it before it leaves empty-handed:
// what a search has just found may be in the hands of a claim that began before the search and finds nothing, or that
// takes something else and gives it back untried. What is held back for peers is offered to it.
func (r *Ring) Settle(ctx context.Context) (waited bool, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.entries.promoteHeld(time.Now())
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
