package ready

import (
	"time"

	"queen.internal/pkg/store/group"
)

// enough is how many takeable partitions end a search: the pops that wait for it are served, and the next search goes on
// from there.
const enough = 256

// linger is how long a search that has found something goes on to look for more, while pops wait for it. A walk over a
// million partitions takes seconds.
const linger = 100 * time.Millisecond

// watchLimit bounds the leased partitions that one search looks at besides what it walks.
const watchLimit = 5000

// farAway is a time at which nothing was written, from now.
const farAway = 24 * time.Hour

// pass is one walk over a queue's partitions: over all of them, or over those written since the ring's knowledge ends. It
// may go on over several searches. When it is at its end, the ring knows every partition that had work when it began.
type pass struct {
	search uint64         // number of the search that began it
	from   group.Position // how far it has come
	since  time.Time      // zero: over all

	begun bool      // the first page was answered
	until time.Time // what was written later may be missing, by the database's clock
	moves int64     // of the group's cursors, when it began: what moves while all is walked has all walked once more
}

// ask is the next question of a search: the next page of the pass under way, or of a new one. The caller holds the mutex.
func (r *Ring) ask(f *flight, first bool) group.Search {
	if r.pass == nil {
		r.pass = &pass{search: f.number}
		switch {
		case r.paused: // only whether it still is
			r.pass.since = time.Now().Add(farAway)
			r.pass.from = group.WrittenSince(r.pass.since)
		case r.known.IsZero() || r.lost || r.entries.evicted:
			r.lost, r.entries.evicted = false, false
		default:
			r.pass.since = r.known.Add(-lookBack)
			r.pass.from = group.WrittenSince(r.pass.since)
		}
	}
	search := group.Search{Subscription: r.subscription.Ref, From: r.pass.from, Since: r.pass.since}
	if first {
		search.Known = r.entries.leased(watchLimit)
	}
	return search
}

// learn takes the answer to what was asked in a pass, and says whether the search is over. The caller holds the
// mutex.
func (r *Ring) learn(f *flight, p *pass, q *question) (over bool) {
	if r.pass != p {
		return false // what it would have added to counts no more
	}
	if q.found.Gone {
		r.stale, r.pass = true, nil
		return false
	}
	if q.found.Paused || r.paused {
		r.paused = q.found.Paused
		r.forget()
		return r.paused
	}
	if !p.begun {
		p.begun, p.until, p.moves = true, q.from, q.found.Moves
	}
	if q.found.Moves != r.moves && !p.from.Everywhere() {
		r.forget() // cursors were moved to where no write leads
		return false
	}
	stuck, fit := r.offer(q, f.as == backstop)
	switch {
	case !fit && p.from.Everywhere():
		p.from = p.from.Before(stuck)
		return true
	case q.found.End:
		r.lost = r.lost || !fit
		r.known, r.moves, r.pass = p.until, p.moves, nil
		if r.index.options.Doubt {
			r.known = time.Time{}
		}
		return p.search == f.number
	}
	r.lost = r.lost || !fit
	p.from = q.found.To
	return r.entries.queue.length >= enough || r.entries.queue.length > 0 && time.Since(r.search.begun) > linger
}

// forget has the next search begin with a walk over everything. The caller holds the mutex.
func (r *Ring) forget() {
	r.known, r.pass, r.forgot = time.Time{}, nil, time.Now()
}

// offer takes candidates that a search found. When one does not fit, which can only be when there is plenty to take, it
// names the first such. The caller holds the mutex.
func (r *Ring) offer(q *question, backstop bool) (stuck int64, fit bool) {
	before := r.entries.queue.length
	fit = true
	for _, c := range q.found.Candidates {
		n := r.entries.byID[c.Partition]
		due := q.due(c)
		switch {
		case n == nil && c.Until.IsZero():
			if !r.entries.add(c.Partition) && (fit || c.Partition < stuck) {
				stuck, fit = c.Partition, false
			}
		case n == nil:
			r.lost = !r.entries.addLater(c.Partition, due) || r.lost
		case n.state == taken:
			n.marked = true // by a lease as well: the claim under way may have looked when there was nothing to lease yet
		case !c.Until.IsZero():
			n.sighted = true
			if n.state == later && !n.deferred && (n.held || due.Before(n.due)) && n.tried.Before(q.asked) {
				r.entries.reschedule(n, due)
			}
		case n.state != later || n.held || n.tried.After(q.asked):
		case n.deferred && backstop && q.asked.Sub(n.tried) < deferredPause && !n.tried.Before(r.forgot):
		default:
			r.entries.promote(n)
		}
	}
	r.announce(r.entries.queue.length - before)
	return stuck, fit
}
