// Package giveback undoes deliveries that did not reach their consumer: the lease ends at once, the delivery does not
// count, and whoever waits is told. Deliver does so itself when it cannot write an answer or cannot read what it leased; an
// edge that could not pass an answer on asks for it. Giving back twice, late or wrongly changes nothing: what may be undone
// is decided in SQL, by the lease's id and the cursor.
//
// When it does not work, the lease ends by expiry, as that of a consumer that died. The package starts no goroutine and
// keeps no state; a Giver is shared by all requests.
package giveback

import (
	"context"
	"log/slog"
	"time"

	"github.com/google/uuid"
	"github.com/prometheus/client_golang/prometheus"

	"queen.internal/pkg/store/group"
	"queen.internal/services/deliver/internal/announce"
	"queen.internal/services/deliver/internal/lease"
)

// Options are what a Giver works with.
type Options struct {
	Groups  *group.Store
	News    *announce.Announcer
	Clock   *lease.Clock
	Leases  *lease.Registry
	Logger  *slog.Logger
	Timeout time.Duration // of one give-back, except of what could not be read

	Returned *prometheus.CounterVec // cursors by label reason: asked, unwritten, unread
}

// unreadTimeout is for what could not be read. Its client still waits for the answer, and has waited for the read.
const unreadTimeout = 500 * time.Millisecond

// Giver gives leases back.
type Giver struct{ o Options }

// New returns a Giver.
func New(o Options) *Giver { return &Giver{o: o} }

// Asked gives back all of a lease for somebody who could not pass its messages on. What is no lease, or not one of this
// tenant, gives nothing back; that is no error. Errors have a kind.
func (g *Giver) Asked(ctx context.Context, tenant uuid.UUID, lease string) (released int, err error) {
	id, err := uuid.Parse(lease)
	if err != nil {
		return 0, nil
	}
	ctx, cancel := g.bound(ctx)
	defer cancel()
	return g.release(ctx, tenant, id, g.o.Leases.Keys(tenant, id), "asked", true)
}

// Unwritten gives back all of a lease whose answer the client did not get.
func (g *Giver) Unwritten(ctx context.Context, tenant uuid.UUID, lease string) {
	id, err := uuid.Parse(lease)
	if err != nil {
		return // an answer without a lease
	}
	ctx, cancel := g.bound(ctx)
	defer cancel()
	if _, err := g.release(ctx, tenant, id, g.o.Leases.Keys(tenant, id), "unwritten", true); err != nil {
		g.o.Logger.WarnContext(ctx, "lease of an answer that was not written cannot be given back, it will run out", "lease", lease, "err", err)
	}
}

// Unread gives back cursors of a lease whose messages could not be read. Nobody is told: what cannot be read now would
// have every waiting poll fail, one after the other, and the next search finds it.
func (g *Giver) Unread(ctx context.Context, tenant, lease uuid.UUID, keys []group.LeaseKey) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), unreadTimeout)
	defer cancel()
	if _, err := g.release(ctx, tenant, lease, keys, "unread", false); err != nil {
		g.o.Logger.WarnContext(ctx, "messages that could not be read cannot be given back, their lease will run out", "lease", lease, "err", err)
	}
}

// bound is a context for one give-back. It does not end with the request, which is over for its client already.
func (g *Giver) bound(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeout(context.WithoutCancel(ctx), g.o.Timeout)
}

func (g *Giver) release(ctx context.Context, tenant, lease uuid.UUID, keys []group.LeaseKey, reason string, tell bool) (int, error) {
	released, err := g.o.Groups.Release(ctx, tenant, lease, g.o.Clock.Bounds(), keys)
	if err != nil {
		return 0, err
	}
	g.o.Returned.WithLabelValues(reason).Add(float64(len(released)))
	for _, key := range released {
		g.o.Leases.Released(lease, key)
	}
	if tell {
		g.o.News.Freed(ctx, tenant, released...)
	}
	return len(released), nil
}
