package ready

import (
	"context"
	"sync"
	"time"

	"github.com/google/uuid"

	"queen.internal/pkg/store/group"
	"queen.internal/services/deliver/internal/wait"
)

// Store is what a search asks. *group.Store is one; tests have another, whose answers they hold back.
type Store interface {
	Subscribe(ctx context.Context, tenant uuid.UUID, queue, group string, start group.Start) (group.Subscription, error)
	Rejoin(ctx context.Context, tenant uuid.UUID, queue, group string, start group.Start) (group.Subscription, bool, error)
	Find(ctx context.Context, searches []group.Search, limit int, clock group.Bounds) ([]group.Found, group.Snapshot, error)
	Discover(ctx context.Context, tenant uuid.UUID, namespace, task string) ([]string, error)
	Available(ctx context.Context, subscription group.Ref, partitions []int64) (group.Available, error)
}

// Options are the bounds of an Index.
type Options struct {
	Limit    int                 // entries of a ring
	Refresh  time.Duration       // a ring in use is searched at least this often
	Timeout  time.Duration       // of a search
	IdleDrop time.Duration       // how long a ring without users is kept
	Doubt    bool                // each search walks over everything, and pops search before they take; see Ring.Doubted
	Sweep    time.Duration       // between two pages of the walk that never ends; 0: there is none
	Clock    func() group.Bounds // of the database's clock; see package lease

	// Watch is told of each queue that has a ring or a pin, before anything is looked for, and Unwatch when it has none
	// any more. They must not block. Nil: nobody is told.
	Watch, Unwatch func(tenant uuid.UUID, queue string)

	// Self is the server id of this process, which decides with those of its peers who goes first. Took is told what was
	// taken, and Declined of each partition with work at which this process would go first and has no poll; the offset is
	// the highest known. They must not block. Nil: nobody is told.
	Self     string
	Took     func(Delivery)
	Declined func(key Key, partition, offset int64)
}

// queueKey names a queue.
type queueKey struct {
	tenant uuid.UUID
	queue  string
}

// cursorKey names a cursor.
type cursorKey struct{ subscription, partition int64 }

// Index is every ring, pin and discovery of the process. Its methods are safe for concurrent use.
type Index struct {
	store   Store
	lot     *wait.Lot
	options Options
	finder  *finder
	calls   chan struct{} // room for the other calls of the store
	created func(tenant uuid.UUID, queue string)

	mu            sync.Mutex
	rings         map[Key]*Ring
	subscriptions map[int64]*Ring
	pins          map[pinKey]*Pin
	cursors       map[cursorKey]*Pin
	discoveries   map[discoveryKey]*Discovery
	queues        map[queueKey]*interest
}

// interest is who takes from one queue.
type interest struct {
	rings map[*Ring]struct{}
	pins  map[*Pin]struct{}
}

// New returns an empty index whose polls park in lot.
func New(store Store, lot *wait.Lot, options Options) *Index {
	x := &Index{
		store:         store,
		lot:           lot,
		options:       options,
		rings:         make(map[Key]*Ring),
		subscriptions: make(map[int64]*Ring),
		pins:          make(map[pinKey]*Pin),
		cursors:       make(map[cursorKey]*Pin),
		discoveries:   make(map[discoveryKey]*Discovery),
		queues:        make(map[queueKey]*interest),
		calls:         make(chan struct{}, maxCalls),
	}
	x.finder = newFinder(store, options, x.forget)
	return x
}

// maxCalls bounds the calls of the store that are made for one ring or discovery alone, at once.
const maxCalls = 4

// call waits for room and makes a call of the store. The error is the call's, or ctx's own.
func (x *Index) call(ctx context.Context, call func() error) error {
	select {
	case x.calls <- struct{}{}:
	case <-ctx.Done():
		return ctx.Err()
	}
	defer func() { <-x.calls }()
	return call()
}

// forget has every ring find out anew where it has work.
func (x *Index) forget() {
	for _, r := range x.all() {
		r.mu.Lock()
		r.forget()
		r.mu.Unlock()
	}
}

// all is every ring.
func (x *Index) all() []*Ring {
	x.mu.Lock()
	defer x.mu.Unlock()
	rings := make([]*Ring, 0, len(x.rings))
	for _, r := range x.rings {
		rings = append(rings, r)
	}
	return rings
}

// Ring returns the ring of a group and a queue. start is where the group begins if this is its first contact. The ring
// must be given back by Release.
func (x *Index) Ring(key Key, start group.Start) *Ring {
	r := x.acquire(key, start)
	r.mu.Lock()
	r.start = start
	r.mu.Unlock()
	return r
}

func (x *Index) acquire(key Key, start group.Start) *Ring {
	x.mu.Lock()
	defer x.mu.Unlock()
	r := x.rings[key]
	if r == nil {
		r = &Ring{
			key: key, index: x, start: start,
			entries:  newEntries(x.options.Limit),
			takings:  make(map[uint64]struct{}),
			returned: make(chan struct{}),
		}
		r.spot = x.lot.Spot(r)
		r.filling = &Filling{ring: r}
		r.filling.spot = x.lot.Spot(r.filling)
		x.rings[key] = r
		x.interest(queueKey{key.Tenant, key.Queue}).rings[r] = struct{}{}
	}
	r.users++
	return r
}

// Release gives back a ring. The last user's release starts the time after which it is dropped.
func (x *Index) Release(r *Ring) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if r.users--; r.users == 0 {
		r.idle = time.Now()
	}
}

// uses says whether pops of a ring are under way or wait.
func (x *Index) uses(r *Ring) bool {
	x.mu.Lock()
	defer x.mu.Unlock()
	return r.users > 0
}

// interest is who takes from a queue; the caller holds the mutex.
func (x *Index) interest(key queueKey) *interest {
	i := x.queues[key]
	if i == nil {
		i = &interest{rings: make(map[*Ring]struct{}), pins: make(map[*Pin]struct{})}
		x.queues[key] = i
		if x.options.Watch != nil {
			x.options.Watch(key.tenant, key.queue)
		}
	}
	return i
}

// lose takes a ring or a pin out of the interest in a queue; the caller holds the mutex.
func (x *Index) lose(key queueKey, r *Ring, p *Pin) {
	i := x.queues[key]
	delete(i.rings, r)
	delete(i.pins, p)
	if len(i.rings) == 0 && len(i.pins) == 0 {
		delete(x.queues, key)
		if x.options.Unwatch != nil {
			x.options.Unwatch(key.tenant, key.queue)
		}
	}
}

// bind notes under which subscription a ring takes.
func (x *Index) bind(r *Ring, old, subscription int64) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.subscriptions[old] == r {
		delete(x.subscriptions, old)
	}
	if subscription != 0 && x.rings[r.key] == r {
		x.subscriptions[subscription] = r
	}
}

// Freed says that the lease which a subscription had on a partition ended here, by an ack, a nack or a release, with the
// cursor at the offset committed, and that there are messages past it.
func (x *Index) Freed(subscription, partition, committed int64) {
	r, p := x.cursor(subscription, partition)
	if p != nil && p.freed() {
		return // who waits for this very partition goes first
	}
	if r != nil {
		r.Freed(partition, committed, "")
	}
}

// Drained is Freed for a lease that left nothing past the cursor.
func (x *Index) Drained(subscription, partition, committed int64) {
	r, p := x.cursor(subscription, partition)
	if p != nil && p.drained(committed) {
		return
	}
	if r != nil {
		r.Drained(partition, committed)
	}
}

// cursor is who takes by a cursor: the ring of the group, and the pin, if there are any.
func (x *Index) cursor(subscription, partition int64) (*Ring, *Pin) {
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.subscriptions[subscription], x.cursors[cursorKey{subscription, partition}]
}

// Wake says that a partition of a queue has got messages, the last of them at offset. Whoever learns of pushes calls it;
// without it they are found by searches.
func (x *Index) Wake(tenant uuid.UUID, queue string, partition, offset int64) {
	x.mu.Lock()
	var rings []*Ring
	var pins []*Pin
	if i := x.queues[queueKey{tenant, queue}]; i != nil {
		for r := range i.rings {
			rings = append(rings, r)
		}
		for p := range i.pins {
			if p.cursor.partition == partition || p.cursor.partition == 0 {
				pins = append(pins, p)
			}
		}
	}
	var discoveries []*Discovery
	for _, d := range x.discoveries {
		if d.key.tenant == tenant {
			discoveries = append(discoveries, d)
		}
	}
	x.mu.Unlock()
	for _, p := range pins {
		p.pushed(offset)
	}
	for _, r := range rings {
		r.Pushed(partition, offset)
	}
	for _, d := range discoveries {
		d.heard(queue)
	}
}

// Changed says that a queue or a group is not what it was: its cursors were moved or its subscription deleted, the queue
// was deleted, paused or resumed. An empty group means every group of the queue. What the rings believe is found out
// anew, beginning with whether their subscriptions still exist, and the polls that wait for them look again. A ring that no
// pop uses now waits for the next one: its search would make the first contact of a group that was deleted just now, in
// the name of a pop that is long over.
func (x *Index) Changed(tenant uuid.UUID, queue, group string) {
	x.mu.Lock()
	rings := make(map[*Ring]bool) // whether it is in use
	var pins []*Pin
	if i := x.queues[queueKey{tenant, queue}]; i != nil {
		for r := range i.rings {
			if group == "" || r.key.Group == group {
				rings[r] = r.users > 0
			}
		}
		for p := range i.pins {
			if group == "" || p.key.group == group {
				pins = append(pins, p)
			}
		}
	}
	x.mu.Unlock()
	for r, used := range rings {
		r.changed(used)
	}
	for _, p := range pins {
		p.freed()
	}
}

// Run makes the searches and drops rings that nobody has used for a while, until ctx ends.
func (x *Index) Run(ctx context.Context) error {
	var workers sync.WaitGroup
	workers.Go(func() { x.finder.run(ctx) })
	workers.Go(func() { x.sweep(ctx) })
	defer workers.Wait()
	ticker := time.NewTicker(max(x.options.IdleDrop/4, time.Millisecond))
	defer ticker.Stop()
	for {
		select {
		case now := <-ticker.C:
			x.dropIdle(now)
		case <-ctx.Done():
			return nil
		}
	}
}

func (x *Index) dropIdle(now time.Time) {
	x.mu.Lock()
	defer x.mu.Unlock()
	for key, r := range x.rings {
		if r.users > 0 || now.Sub(r.idle) < x.options.IdleDrop {
			continue
		}
		delete(x.rings, key)
		x.lose(queueKey{key.Tenant, key.Queue}, r, nil)
	}
	for subscription, r := range x.subscriptions {
		if x.rings[r.key] != r {
			delete(x.subscriptions, subscription)
		}
	}
}

// Stats adds up the states of all rings.
func (x *Index) Stats() Stats {
	var s Stats
	for _, r := range x.all() {
		r.stats(&s)
	}
	return s
}
