package pop

import (
	"cmp"
	"context"
	"log/slog"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/google/uuid"
	"github.com/prometheus/client_golang/prometheus"

	"queen.internal/pkg/seal"
	"queen.internal/pkg/store/group"
	"queen.internal/pkg/wire"
	"queen.internal/services/deliver/internal/commit"
	"queen.internal/services/deliver/internal/giveback"
	"queen.internal/services/deliver/internal/lease"
	"queen.internal/services/deliver/internal/ready"
	"queen.internal/services/deliver/internal/segments"
	"queen.internal/services/deliver/internal/wait"
)

// MaxBytes is the most payload, before compression, that one pop delivers; one message is always delivered.
const MaxBytes = 16 << 20

// Options are what an Engine works with.
type Options struct {
	Groups   *group.Store
	Commits  *commit.Committer
	Segments *segments.Reader
	Index    *ready.Index
	Clock    *lease.Clock
	Leases   *lease.Registry
	Logger   *slog.Logger
	Timeout  time.Duration // of one claim and the read that follows it
	Returns  *giveback.Giver
	Keys     *seal.Keys // open sealed payloads; what they do not open is delivered as it is

	Claims    *prometheus.CounterVec // by label verdict; see Verdicts
	Delivered prometheus.Counter     // messages
	Unopened  prometheus.Counter     // messages delivered sealed
}

// Engine serves pops.
type Engine struct {
	o        Options
	verdicts [len(verdictNames)]prometheus.Counter
	answers  sync.Pool // of *wire.PopResponse
}

// verdictNames are the label values of Options.Claims, by verdict.
var verdictNames = [...]string{"failed", "took", "empty", "leased", "busy", "deferred", "gone", "exhausted", "alone", "paused"}

// New returns an Engine.
func New(o Options) *Engine {
	e := &Engine{o: o}
	for i, name := range verdictNames {
		e.verdicts[i] = o.Claims.WithLabelValues(name)
	}
	return e
}

// keepBytes is the largest buffer of an answer that is kept for another.
const keepBytes = 4 << 20

// Recycle takes back an answer that was sent.
func (e *Engine) Recycle(answer *wire.PopResponse) {
	if answer.Cap() <= keepBytes {
		e.answers.Put(answer)
	}
}

// Request is one pop.
type Request struct {
	Tenant    uuid.UUID
	Queue     string // empty for a discovery
	Partition string // of a pinned pop
	Query     wire.PopQuery
	Arrived   time.Time
	Draining  <-chan struct{} // closed when the process stops
	Halted    <-chan struct{} // closed when nothing is delivered any more
}

// start is where the group begins if this is its first contact.
func (r *Request) start(pinned bool) group.Start {
	mode, from := r.Query.Start(pinned)
	return group.Start{Mode: mode, From: from}
}

// Queue pops from whichever partitions of a queue have work. The answer is nil when there was none to be had, and must
// be given back by Recycle otherwise. Errors have a kind.
func (e *Engine) Queue(ctx context.Context, req *Request) (*wire.PopResponse, error) {
	ring := e.o.Index.Ring(ready.Key{Tenant: req.Tenant, Queue: req.Queue, Group: req.Query.Group}, req.start(false))
	defer e.o.Index.Release(ring)
	c := e.begin(req)
	defer c.end(ctx)
	defer ring.Kick()
	ticket := ring.Ticket()
	for search := true; ; search = false {
		version := ring.Spot().Version()
		vain, err := c.fatten(ctx, ring, ticket, search)
		if err == nil {
			err = c.drain(ctx, ring, ticket, search && !vain)
		}
		if c.over(err) {
			return c.answer(ctx, err)
		}
		if woken, err := c.park(ctx, ring.Spot(), version); !woken {
			return nil, cmp.Or(err, c.emptyHanded(ring))
		}
	}
}

// Discover pops from every queue with the namespace and the task of the query, like Queue.
func (e *Engine) Discover(ctx context.Context, req *Request) (*wire.PopResponse, error) {
	d := e.o.Index.Discovery(req.Tenant, req.Query.Namespace, req.Query.Task, req.Query.Group, req.start(false))
	defer e.o.Index.Undiscover(d)
	c := e.begin(req)
	defer c.end(ctx)
	if err := d.Discover(ctx); err != nil {
		return nil, err
	}
	if err := d.Contact(ctx); err != nil {
		return nil, err
	}
	for search := true; ; search = false {
		version := d.Spot().Version()
		if err := c.round(ctx, d.Rings(), search); c.over(err) {
			return c.answer(ctx, err)
		}
		if woken, err := c.park(ctx, d.Spot(), version); !woken {
			return nil, cmp.Or(err, c.emptyHanded(d.Rings()...))
		}
	}
}

// round drains the rings of a discovery one after the other, beginning with any, until the budget is used up. A ring whose
// search does not come to its end keeps none of the others back.
func (c *call) round(ctx context.Context, rings []*ready.Ring, search bool) error {
	if len(rings) == 0 {
		return nil
	}
	var unfinished error
	first := rand.IntN(len(rings))
	for i := range rings {
		if !c.wants() {
			break
		}
		ring := rings[(first+i)%len(rings)]
		err := c.drain(ctx, ring, ring.Ticket(), search)
		ring.Kick()
		switch {
		case ready.Unfinished(err):
			unfinished = err
		case err != nil:
			return err
		}
	}
	return unfinished
}

// Partition pops from one partition, like Queue. Neither queue nor partition need exist, and none is created.
func (e *Engine) Partition(ctx context.Context, req *Request) (*wire.PopResponse, error) {
	pin := e.o.Index.Pin(req.Tenant, req.Queue, req.Partition, req.Query.Group)
	defer e.o.Index.Unpin(pin)
	c := e.begin(req)
	defer c.end(ctx)
	defer func() {
		// The wake that this poll may have got is for another when its client is gone, and there may be more where it
		// leased nothing.
		if ctx.Err() != nil || c.delivers() && req.Query.AutoAck {
			pin.Spot().Wake(1)
		}
	}()
	var known *group.Pinned
	for {
		version := pin.Spot().Version()
		if err := c.pinned(ctx, pin, &known); c.over(err) {
			return c.answer(ctx, err)
		}
		if woken, err := c.park(ctx, pin.Spot(), version); !woken {
			return nil, err
		}
	}
}

// margin is how long before its deadline a poll is answered.
func margin(timeout time.Duration) time.Duration { return min(timeout/20, 100*time.Millisecond) }

// park waits for a wake. Without one it is false, and the pop ends empty or with the error.
func (c *call) park(ctx context.Context, spot *wait.Spot, version uint64) (woken bool, err error) {
	outcome, err := spot.Park(ctx, &c.poll, version, c.deadline, c.req.Draining)
	return err == nil && outcome == wait.Woken, err
}
