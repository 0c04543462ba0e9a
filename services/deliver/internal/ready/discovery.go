package ready

import (
	"context"
	"sync"
	"time"

	"github.com/google/uuid"

	"queen.internal/pkg/store/group"
	"queen.internal/services/deliver/internal/wait"
)

// discoveryKey names the queues a discovery means, as one group pops them.
type discoveryKey struct {
	tenant                 uuid.UUID
	namespace, task, group string
}

// Discovery is where polls park that take from every queue with a namespace and a task. It takes from the rings of
// these queues; what a ring has to offer wakes the ring's own polls first and then the discovery's.
type Discovery struct {
	key   discoveryKey
	index *Index
	spot  *wait.Spot

	users int // guarded by the index's mutex

	mu     sync.Mutex
	start  group.Start // of the newest pop
	looked bool        // a first list of queues was read: what comes later has been created since
	rings  map[string]*Ring
	order  []*Ring
	closed bool
}

// Discovery returns the discovery of a namespace, a task and a group; an empty namespace or task means any. It must be
// given back by Undiscover.
func (x *Index) Discovery(tenant uuid.UUID, namespace, task, groupName string, start group.Start) *Discovery {
	key := discoveryKey{tenant, namespace, task, groupName}
	x.mu.Lock()
	d := x.discoveries[key]
	if d == nil {
		d = &Discovery{key: key, index: x, rings: make(map[string]*Ring)}
		d.spot = x.lot.Spot(d)
		x.discoveries[key] = d
	}
	d.users++
	x.mu.Unlock()
	d.mu.Lock()
	d.start = start
	d.mu.Unlock()
	return d
}

// Undiscover gives back a discovery; without users it is forgotten.
func (x *Index) Undiscover(d *Discovery) {
	x.mu.Lock()
	d.users--
	last := d.users == 0
	if last {
		delete(x.discoveries, d.key)
	}
	x.mu.Unlock()
	if !last {
		return
	}
	d.mu.Lock()
	order := d.order
	d.order, d.rings, d.closed = nil, nil, true
	d.mu.Unlock()
	for _, r := range order {
		r.ignore(d)
		x.Release(r)
	}
}

// Spot is where polls of this discovery park.
func (d *Discovery) Spot() *wait.Spot { return d.spot }

// Rings is the rings of the queues known so far. Undiscover releases them.
func (d *Discovery) Rings() []*Ring {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.order[:len(d.order):len(d.order)]
}

// Discover brings Rings up to date. Queues that are gone stay in it and have nothing to offer. Errors have a kind.
func (d *Discovery) Discover(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), d.index.options.Timeout)
	defer cancel()
	var names []string
	err := d.index.call(ctx, func() (err error) {
		names, err = d.index.store.Discover(ctx, d.key.tenant, d.key.namespace, d.key.task)
		return err
	})
	if err != nil {
		return err
	}
	for _, name := range names {
		d.include(name)
	}
	d.mu.Lock()
	d.looked = true
	d.mu.Unlock()
	return nil
}

// include adds a queue's ring, unless it is there or the discovery has ended.
func (d *Discovery) include(name string) {
	d.mu.Lock()
	known, start := d.closed || d.rings[name] != nil, d.start
	if d.looked && start.From.IsZero() {
		start.Mode = "all" // a poll waits since before the queue was there, so nothing of it is backlog
	}
	d.mu.Unlock()
	if known {
		return
	}
	r := d.index.Ring(Key{d.key.tenant, name, d.key.group}, start)
	d.mu.Lock()
	added := !d.closed && d.rings[name] == nil // another call may have been faster
	if added {
		d.rings[name] = r
		d.order = append(d.order, r)
		r.listen(d) // before Undiscover can come, whose ignore must be the last word
	}
	d.mu.Unlock()
	if !added {
		d.index.Release(r)
	}
}

// heard takes the news that a queue of the tenant has got messages.
func (d *Discovery) heard(queue string) {
	d.mu.Lock()
	known := d.rings[queue] != nil
	d.mu.Unlock()
	if !known {
		d.spot.Recheck() // it may be a new queue of this namespace
	}
}

// Due implements wait.Source. The times are those of the rings.
func (d *Discovery) Due(now time.Time) {
	for _, r := range d.Rings() {
		r.Due(now)
	}
}

// Recheck implements wait.Source: it looks for new queues and searches all rings, which wake the polls for what they
// find. It goes on to the other rings when one fails.
func (d *Discovery) Recheck(ctx context.Context) error {
	if err := d.Discover(ctx); err != nil {
		return err
	}
	var failed error
	for _, r := range d.Rings() {
		if err := r.Recheck(ctx); err != nil {
			failed = err
		}
	}
	return failed
}

// listen has a ring wake a discovery's polls, too.
func (r *Ring) listen(d *Discovery) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.listeners == nil {
		r.listeners = make(map[*Discovery]struct{})
	}
	r.listeners[d] = struct{}{}
	r.announce(0) // when its next entry is due
}

func (r *Ring) ignore(d *Discovery) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.listeners, d)
}
