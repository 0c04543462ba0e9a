package ready

import (
	"container/heap"
	"slices"
	"time"
)

// state is where an entry stands.
type state uint8

const (
	queued state = iota
	taken
	later
)

// entry is one partition that a ring knows of.
type entry struct {
	id       int64
	state    state
	marked   bool      // there was news since it was taken
	deferred bool      // while later: a delay or a window hides it, no lease does
	sighted  bool      // a search has seen work behind the lease since it was taken
	held     bool      // while later: a peer goes first, no lease is known
	alone    bool      // while queued: no other may be taken with it
	tried    time.Time // when its last claim began
	due      time.Time // while later
	place    int       // while later: in the heap
	offset   int64     // highest offset that was heard of; unknownOffset: none
	freed    int64     // highest offset that a lease is known to have ended at

	before, after *entry // while queued: in the line
}

// unknownOffset is below all offsets.
const unknownOffset = -1

// knownUpTo says whether nothing is known of the partition past an offset, and all that is known was announced.
func (n *entry) knownUpTo(offset int64) bool { return n.offset != unknownOffset && n.offset <= offset }

// entries is the partitions of a ring. It is not safe for concurrent use.
type entries struct {
	limit   int
	byID    map[int64]*entry
	queue   line
	later   dueHeap
	taken   int
	evicted bool // one was forgotten to make room
	watched int  // place in later at which the next look at leased partitions begins
}

func newEntries(limit int) entries {
	return entries{limit: limit, byID: make(map[int64]*entry)}
}

// make notes a partition that is not known; the caller puts it where it belongs. It is nil when there is no room.
func (e *entries) make(id, offset int64) *entry {
	if len(e.byID) >= e.limit && !e.evict() {
		return nil
	}
	n := &entry{id: id, offset: offset, freed: unknownOffset}
	e.byID[id] = n
	return n
}

// add queues a partition that is not known. It is false when there is no room.
func (e *entries) add(id int64) bool {
	n := e.make(id, unknownOffset)
	if n == nil {
		return false
	}
	e.requeue(n)
	return true
}

// addLater notes a partition that is not known and leased. It is false when there is no room.
func (e *entries) addLater(id int64, due time.Time) bool {
	if len(e.byID) >= e.limit {
		return false
	}
	e.postpone(e.make(id, unknownOffset), due, false)
	return true
}

// evict forgets an entry that waits for its time, one of those with the latest. Only a walk over all partitions finds it
// again.
func (e *entries) evict() bool {
	if len(e.later) == 0 {
		return false
	}
	e.evicted = true
	last := e.later[len(e.later)-1] // a leaf
	heap.Remove(&e.later, last.place)
	delete(e.byID, last.id)
	return true
}

// takeUpTo takes up to n queued entries from the front, fewer when one must be alone, and none of those excepted.
func (e *entries) takeUpTo(n int, except []int64, now time.Time) []int64 {
	ids := make([]int64, 0, min(n, e.queue.length))
	for next := e.queue.front; next != nil && len(ids) < n; {
		first := next
		next = first.after
		if slices.Contains(except, first.id) {
			continue
		}
		alone := first.alone
		if alone && len(ids) > 0 {
			break
		}
		e.queue.remove(first)
		ids = append(ids, first.id)
		first.state, first.marked, first.sighted, first.alone, first.tried = taken, false, false, false, now
		e.taken++
		if alone {
			break
		}
	}
	return ids
}

// settle ends the taking of an entry and says whether there was news meanwhile.
func (e *entries) settle(n *entry) (news bool) {
	e.taken--
	return n.marked
}

func (e *entries) requeue(n *entry) {
	n.state = queued
	e.queue.pushBack(n)
}

func (e *entries) giveBack(n *entry) {
	n.state = queued
	e.queue.pushFront(n)
}

func (e *entries) postpone(n *entry, due time.Time, deferred bool) {
	n.state, n.due, n.deferred, n.held = later, due, deferred, false
	heap.Push(&e.later, n)
}

// forget forgets an entry that is nowhere.
func (e *entries) forget(n *entry) { delete(e.byID, n.id) }

// remove takes an entry out of where it is. It must not be taken.
func (e *entries) remove(n *entry) {
	if n.state == queued {
		e.queue.remove(n)
	} else {
		heap.Remove(&e.later, n.place)
	}
}

// drop forgets an entry that is not taken.
func (e *entries) drop(n *entry) {
	e.remove(n)
	e.forget(n)
}

// promote queues an entry that waits for its time.
func (e *entries) promote(n *entry) {
	e.remove(n)
	e.requeue(n)
}

// reschedule has an entry that waits for its time wait until another, for a lease.
func (e *entries) reschedule(n *entry, due time.Time) {
	n.due, n.deferred, n.held = due, false, false
	heap.Fix(&e.later, n.place)
}

// leased is up to n partitions that wait for the end of a lease, others at each call.
func (e *entries) leased(n int) []int64 {
	n = min(n, len(e.later))
	if n == 0 {
		return nil
	}
	ids := make([]int64, 0, n)
	for range n {
		e.watched = (e.watched + 1) % len(e.later)
		if waiting := e.later[e.watched]; !waiting.deferred && !waiting.held {
			ids = append(ids, waiting.id)
		}
	}
	return ids
}

// promoteDue queues what has become due and returns how many that were.
func (e *entries) promoteDue(now time.Time) int {
	n := 0
	for ; len(e.later) > 0 && !e.later[0].due.After(now); n++ {
		e.promote(e.later[0])
	}
	return n
}

// promoteHidden queues what a delay or a window hides and returns how many that were.
func (e *entries) promoteHidden() int {
	n := 0
	for _, waiting := range slices.Clone(e.later) {
		if waiting.deferred {
			e.promote(waiting)
			n++
		}
	}
	return n
}

// promoteHeld queues what is left to peers. All of it is due soon, so only the top of the heap is looked at.
func (e *entries) promoteHeld(now time.Time) {
	var found []*entry
	var look func(place int)
	look = func(place int) {
		if place >= len(e.later) || e.later[place].due.After(now.Add(maxPause)) {
			return
		}
		if e.later[place].held {
			found = append(found, e.later[place])
		}
		look(2*place + 1)
		look(2*place + 2)
	}
	look(0)
	for _, n := range found {
		e.promote(n)
	}
}

// nextDue is when the next entry becomes due.
func (e *entries) nextDue() (time.Time, bool) {
	if len(e.later) == 0 {
		return time.Time{}, false
	}
	return e.later[0].due, true
}

// dueHeap is entries by the time they wait for.
type dueHeap []*entry

func (h dueHeap) Len() int           { return len(h) }
func (h dueHeap) Less(i, j int) bool { return h[i].due.Before(h[j].due) }

func (h dueHeap) Swap(i, j int) {
	h[i], h[j] = h[j], h[i]
	h[i].place, h[j].place = i, j
}

// Push implements heap.Interface.
func (h *dueHeap) Push(x any) {
	n := x.(*entry)
	n.place = len(*h)
	*h = append(*h, n)
}

// Pop implements heap.Interface.
func (h *dueHeap) Pop() any {
	last := len(*h) - 1
	n := (*h)[last]
	(*h)[last] = nil
	*h = (*h)[:last]
	return n
}
