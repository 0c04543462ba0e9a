package ready

import "time"

// Pushed says that a partition has got messages, the last of them at offset. It says nothing new of one that waits for a
// lease or a delay.
func (r *Ring) Pushed(partition, offset int64) {
	r.hear(partition, func(n *entry) {
		switch {
		case n == nil:
			r.appear(partition, offset, unknownOffset, r.goesFirst(partition))
		default:
			n.offset = max(n.offset, offset)
			n.marked = true // should it be taken, the claim may have looked before
		}
	})
}

// Freed says that the group's lease on a partition has ended with the cursor at the offset committed, and that there are
// messages past it. The process in which it ended, a peer unless from is empty, goes first.
func (r *Ring) Freed(partition, committed int64, from string) {
	now := time.Now()
	r.hear(partition, func(n *entry) {
		first := from == "" || !r.peers.active(from, now) && r.peers.goesFirst(r.index.options.Self, partition, now)
		r.free(partition, n, committed, first)
	})
}

// Drained says that the group's lease on a partition has ended and that nothing was left past the offset committed.
func (r *Ring) Drained(partition, committed int64) {
	r.hear(partition, func(n *entry) {
		switch {
		case n == nil:
		case n.state == taken:
			n.marked = true // the claim may have met the lease
		case n.offset > committed || n.sighted: // what a search saw may be younger than what the ack saw
			r.free(partition, n, committed, r.goesFirst(partition))
		case n.state == later:
			r.entries.drop(n)
		}
	})
}

// Leased says that a peer has leased a partition for the group, from the offset first on, for so long. A lease that ended
// before what is known here already is none.
func (r *Ring) Leased(from string, partition, first int64, length time.Duration) {
	now := time.Now()
	r.hear(partition, func(n *entry) {
		r.peers.note(from, now)
		if n == nil || n.state == taken || n.state == later && !n.held || first <= n.freed {
			return // not offered, or no longer leased
		}
		r.entries.remove(n)
		r.entries.postpone(n, now.Add(min(length, believedFor)), false)
		r.announce(0)
	})
}

// Consumed says that a peer has delivered everything up to an offset, without a lease.
func (r *Ring) Consumed(from string, partition, last int64) {
	now := time.Now()
	r.hear(partition, func(n *entry) {
		r.peers.note(from, now)
		if n != nil && n.state != taken && n.knownUpTo(last) {
			r.entries.drop(n)
		}
	})
}

// Declined says that a peer which would go first at a partition has no poll that waits.
func (r *Ring) Declined(from string, partition, offset int64) {
	r.hear(partition, func(n *entry) {
		r.peers.remove(from)
		first := r.goesFirst(partition)
		switch {
		case n == nil:
			r.appear(partition, offset, unknownOffset, first)
		case n.state == later && n.held && first:
			r.entries.promote(n)
			r.announce(1)
		}
	})
}

// hear takes news about a partition, of which n is what is known. What ends a pause has everything searched, so until then
// nothing is news; nor is it when the queue is gone, except that there may be one again.
func (r *Ring) hear(partition int64, take func(n *entry)) {
	r.mu.Lock()
	defer r.mu.Unlock()
	n := r.entries.byID[partition]
	switch {
	case r.paused:
	case n == nil && r.subscription.ID == 0:
		if r.waitedFor() {
			r.spot.Recheck()
		}
	default:
		take(n)
	}
	r.filling.heard()
}

// appear adds a partition that is not known. Unless this process goes first it holds back a little. The caller holds the
// mutex.
func (r *Ring) appear(partition, offset, freed int64, first bool) {
	n := r.entries.make(partition, offset)
	if n == nil {
		r.lost = true
		return
	}
	n.freed = freed
	if !first {
		r.holdBack(n)
		return
	}
	r.entries.requeue(n)
	r.serve(n)
}

// free takes a partition whose lease has ended. The caller holds the mutex.
func (r *Ring) free(partition int64, n *entry, committed int64, first bool) {
	if n == nil {
		r.appear(partition, unknownOffset, committed, first)
		return
	}
	n.freed = max(n.freed, committed)
	switch {
	case n.state == taken:
		n.marked = true
	case n.state == later && first:
		r.entries.promote(n)
		r.serve(n)
	case n.state == later && !n.held:
		r.entries.remove(n)
		r.holdBack(n)
	}
}
