package ready

import (
	"cmp"
	"slices"
	"sync"
	"time"

	"github.com/google/uuid"

	"queen.internal/pkg/store/group"
	"queen.internal/services/deliver/internal/wait"
)

// Key names a ring.
type Key struct {
	Tenant uuid.UUID
	Queue  string
	Group  string
}

// busyPause is how long a partition rests whose cursor another transaction had locked. Such transactions are single
// calls of a millisecond or two.
const busyPause = 5 * time.Millisecond

// failedPause is how long a partition rests whose claim failed, or whose head could not be dead-lettered. Offering it at once would have every parked poll fail,
// one after the other, while the database is away.
const failedPause = 500 * time.Millisecond

// deferredPause is how often the backstop has a hidden partition tried before its time: a window may have filled up.
const deferredPause = time.Second

// Ring is where one consumer group may find work in one queue. Its methods are safe for concurrent use.
type Ring struct {
	key   Key
	index *Index
	spot  *wait.Spot

	filling *Filling

	// Guarded by the index's mutex.
	users int
	idle  time.Time // since when it has had no user

	mu           sync.Mutex
	start        group.Start // of the newest pop, for a first contact
	subscription group.Subscription
	stale        bool // the subscription may be gone
	paused       bool // deliveries are stopped: news is no reason to try
	changes      int  // calls of changed: a claim that began before one may say what is no longer so
	met          bool // a contact was made or tried
	generation   int  // of the subscription: what was taken under an older one is not put back
	entries      entries
	known        time.Time      // what was written later may be missing, by the database's clock; zero: nothing is known
	moves        int64          // of the group's cursors, as of then
	lost         bool           // partitions with work were forgotten for lack of room: only a walk over all finds them
	swept        group.Position // how far the sweep has come
	pass         *pass          // the walk under way, also between searches
	forgot       time.Time      // own time since when what claims have said of hidden partitions may be no longer so
	takings      map[uint64]struct{}
	lastTaking   uint64
	returned     chan struct{} // closed, and replaced, at each Return
	search       search
	listeners    map[*Discovery]struct{} // discoveries with parked polls that take from this ring, too
	peers        peers                   // other processes whose polls take in this group
	pace         pace                    // of claims
}

// Taking is the entries that one claim may try.
type Taking struct {
	Subscription group.Ref
	Partitions   []int64

	began      time.Time
	number     uint64
	generation int
	changes    int
}

// Spot is where polls of this group and queue park.
func (r *Ring) Spot() *wait.Spot { return r.spot }

// Take offers up to n partitions, those first that have waited longest, and none of those excepted; one that must be
// delivered alone comes alone. What it returns must be given to Return. Without any, Partitions is empty and nothing is to be
// returned.
func (r *Ring) Take(n int, except []int64) Taking {
	now := time.Now()
	r.mu.Lock()
	defer r.mu.Unlock()
	r.entries.promoteDue(now)
	ids := r.entries.takeUpTo(n, except, now)
	if len(ids) == 0 {
		return Taking{}
	}
	r.lastTaking++
	t := Taking{
		Subscription: r.subscription.Ref, Partitions: ids,
		number: r.lastTaking, began: now, generation: r.generation, changes: r.changes,
	}
	r.takings[t.number] = struct{}{}
	old := now.Sub(r.search.begun) > r.index.options.Refresh
	if r.search.running == nil && (old || r.incomplete() && r.entries.queue.length == 0) {
		r.search.begun = now // the recheck may have to wait for a worker: ask once
		r.spot.Recheck()
	}
	return t
}

// More says whether there may be work that the last search left out.
func (r *Ring) More() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.incomplete()
}

func (r *Ring) incomplete() bool { return r.pass != nil || r.lost || r.entries.evicted }

// Queued is how many partitions could be taken now.
func (r *Ring) Queued() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.entries.promoteDue(time.Now())
	return r.entries.queue.length
}

// Return puts a taking where the claim's verdicts, in ascending order of partition, say. With consumed, a span that was taken is not leased but consumed,
// and its partition may be taken again at once. An empty result means that the claim failed.
func (r *Ring) Return(t Taking, result group.ClaimResult, consumed bool) {
	now := time.Now()
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.takings, t.number)
	close(r.returned)
	r.returned = make(chan struct{})
	if t.generation != r.generation {
		return
	}
	before := r.entries.queue.length
	r.pace.add(now.Sub(t.began))
	for _, id := range slices.Backward(t.Partitions) { // those not tried go to the front one by one
		n := r.entries.byID[id]
		news := r.entries.settle(n)
		at, tried := slices.BinarySearchFunc(result.Claims, id, func(c group.Claim, id int64) int { return cmp.Compare(c.PartitionID, id) })
		switch {
		case tried && result.Claims[at].Verdict == group.Paused && t.changes != r.changes:
			r.entries.requeue(n) // it may have been resumed
		case tried:
			r.place(n, &result.Claims[at], news, consumed, now, result.Clock)
			r.tell(&result.Claims[at], consumed, result.Clock)
		case len(result.Claims) == 0:
			r.entries.postpone(n, now.Add(failedPause), false)
		default:
			r.entries.giveBack(n)
		}
	}
	r.announce(r.entries.queue.length - before)
}

// place puts one entry where its verdict says.
func (r *Ring) place(n *entry, claim *group.Claim, news, consumed bool, now, clock time.Time) {
	// The clock was read at some time since the claim began. Counted from then, an entry may be tried too early but never
	// too late. The claim compares strictly.
	until := n.tried.Add(max(claim.Until.Sub(clock), 0) + time.Millisecond)
	switch claim.Verdict {
	case group.Took:
		// What came to be known while it was being leased is older than the lease, which is ours now.
		switch {
		case !consumed:
			r.entries.postpone(n, until, false)
		case !news && n.knownUpTo(claim.Last):
			r.entries.forget(n)
		default:
			r.entries.requeue(n)
		}
	case group.Leased:
		if news {
			r.entries.requeue(n)
		} else {
			r.entries.postpone(n, until, false)
		}
	case group.Deferred:
		// A search finds hidden partitions, too, so that it did is no news.
		if n.tried.Before(r.forgot) {
			r.entries.requeue(n)
		} else {
			r.entries.postpone(n, until, true)
		}
	case group.Busy:
		r.entries.postpone(n, now.Add(busyPause), false)
	case group.Exhausted:
		r.entries.postpone(n, now.Add(failedPause), false)
	case group.Alone:
		n.alone = true // the next pop begins with it, or others would always come before it
		r.entries.giveBack(n)
	case group.Paused:
		r.paused = true // until a search says otherwise, which then looks at everything
		r.entries.forget(n)
	case group.Empty:
		if news {
			r.entries.requeue(n)
		} else {
			r.entries.forget(n)
		}
	default:
		r.entries.forget(n)
		r.stale = true
	}
}

// announce wakes polls for n entries that have become queued, and asks to be told when the next one is due. It returns for
// how many there was no poll. The caller holds the mutex.
func (r *Ring) announce(n int) (left int) {
	if due, ok := r.entries.nextDue(); ok {
		r.spot.Due(due)
		for d := range r.listeners {
			d.spot.Due(due)
		}
	}
	if n <= 0 {
		return 0
	}
	n -= r.spot.Wake(n)
	for d := range r.listeners {
		if n <= 0 {
			return 0
		}
		n -= d.spot.Wake(n)
	}
	return n
}

// Doubted says that a pop does not take what the ring holds before it has searched.
func (r *Ring) Doubted() bool { return r.index.options.Doubt }

// Kick wakes one poll when there is something to take. A pop calls it when it leaves without having emptied the ring.
func (r *Ring) Kick() {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.entries.queue.length > 0 {
		r.announce(1)
	}
}

// rouse wakes one poll when there is something to take and nobody who waits for company comes for it: the backstop's last
// word. A pop that gave up among hidden partitions has left what it did not try, and parks.
func (r *Ring) rouse() {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.entries.queue.length > 0 && !r.filling.spot.Parked() {
		r.announce(1)
	}
}

// configured has hidden partitions tried again: what hid them may have been changed. One poll begins.
func (r *Ring) configured() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.forgot = time.Now()
	if r.entries.promoteHidden() > 0 {
		r.announce(1)
	}
}

// awaited says whether a pop of this queue is under way or waits, of so many users.
func (r *Ring) awaited(users int) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return users > len(r.listeners)
}

// changed has everything about the ring found out anew: now when a pop is under way or waits, else by the next one.
func (r *Ring) changed(used bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.stale, r.paused = true, false
	r.changes++
	r.forget()
	if used {
		r.spot.Recheck()
	}
	r.filling.heard()
}

// Due implements wait.Source.
func (r *Ring) Due(now time.Time) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.announce(r.entries.promoteDue(now))
}

// reset forgets all entries, when the subscription is another one. The caller holds the mutex.
func (r *Ring) reset(subscription group.Subscription) {
	r.subscription = subscription
	r.generation++
	r.entries = newEntries(r.index.options.Limit)
	r.lost, r.paused, r.swept = false, false, group.Position{}
	r.forget()
}

// Stats is how many entries of each state a ring has.
type Stats struct {
	Rings, Queued, Taken, Later int
	More                        int // rings that may have work which did not fit
}

func (r *Ring) stats(s *Stats) {
	r.mu.Lock()
	defer r.mu.Unlock()
	s.Rings++
	s.Queued += r.entries.queue.length
	s.Taken += r.entries.taken
	s.Later += len(r.entries.later)
	if r.incomplete() {
		s.More++
	}
}
