// Package announce tells whoever waits for it that work has come up. Whoever commits an append, or frees or moves a
// cursor, calls it right after the commit: that is all it takes to be found. The polls and rings of this process learn of it
// at once, those of others by the mesh. Nothing here decides anything, and nothing here can fail: news that is lost is found
// by a search.
//
// The other way, an Announcer takes what other processes announce and passes it on to the rings, and has them look again
// when something may have been missed.
//
// # Concurrency
//
// The package starts no goroutine. An Announcer is shared by all requests; what it remembers, the names of subscriptions,
// has a lock of its own that is not held during the call which asks for them. News is taken by the mesh's one receiving
// goroutine, on which nothing waits: it only touches rings.
package announce

import (
	"context"
	"time"

	"github.com/google/uuid"
	lru "github.com/hashicorp/golang-lru/v2"

	"queen.internal/pkg/appendlog"
	"queen.internal/pkg/mesh"
	"queen.internal/pkg/route"
	"queen.internal/pkg/store/group"
	"queen.internal/services/deliver/internal/ready"
)

// keptNames bounds the names of subscriptions that are remembered, about 200 bytes each.
const keptNames = 10_000

// nameTimeout is how long an ack may be held up to find out a name that was not needed before.
const nameTimeout = 500 * time.Millisecond

// Announcer is where news goes.
type Announcer struct {
	index  *ready.Index
	mesh   *mesh.Mesh
	groups *group.Store
	names  *lru.Cache[int64, group.Name]
}

// New returns an Announcer that tells index, and others by way of m. groups knows the names of subscriptions.
func New(index *ready.Index, m *mesh.Mesh, groups *group.Store) *Announcer {
	names, err := lru.New[int64, group.Name](keptNames)
	if err != nil {
		panic(err) // a constant, positive size
	}
	return &Announcer{index: index, mesh: m, groups: groups, names: names}
}

// Freed says that leases of a tenant's groups have ended before their time: by an ack, a nack or a release.
func (a *Announcer) Freed(ctx context.Context, tenant uuid.UUID, keys ...group.LeaseKey) {
	for _, key := range keys {
		a.index.Freed(key.Subscription, key.Partition)
	}
	if !a.others() {
		return
	}
	a.name(ctx, keys)
	hints := make([]mesh.Hint, 0, len(keys))
	for _, key := range keys {
		if name, ok := a.names.Get(key.Subscription); ok {
			hints = append(hints, mesh.Hint{Tenant: tenant, Queue: name.Queue, Group: name.Group, Partition: key.Partition})
		}
	}
	a.mesh.Announce(hints...)
}

// Changed says that a group's cursors were moved, that a group or a queue was deleted, paused or resumed, or that nobody
// knows what has happened to it. An empty group means every group of the queue.
func (a *Announcer) Changed(tenant uuid.UUID, queue, group string) {
	a.index.Changed(tenant, queue, group)
	a.mesh.Announce(mesh.Hint{Tenant: tenant, Queue: queue, Group: group})
}

// Appended says what an append has committed. It has the form that appendlog.New takes.
func (a *Announcer) Appended(announcements []appendlog.Announcement) {
	hints := appendlog.Hints(announcements)
	a.heard(hints)
	a.mesh.Announce(hints...)
}

// Listen takes the news of others. It is called before the mesh runs.
func (a *Announcer) Listen() {
	a.mesh.OnHints(func(_ string, hints []mesh.Hint) { a.heard(hints) })
	a.mesh.OnGap(func(gap mesh.Gap) { a.index.Missed(gap.Covers) })
	a.mesh.OnConfig(func(_ string, c mesh.Config) { a.index.Configured(c.Tenant, c.Queue, c.Deleted) })
}

// heard passes news on to the rings.
func (a *Announcer) heard(hints []mesh.Hint) {
	for i := range hints {
		h := &hints[i]
		switch {
		case h.Partition == 0:
			a.index.Changed(h.Tenant, h.Queue, h.Group)
		case h.Group == "":
			a.index.Wake(h.Tenant, h.Queue, h.Partition)
		default:
			a.index.FreedFor(ready.Key{Tenant: h.Tenant, Queue: h.Queue, Group: h.Group}, h.Partition)
		}
	}
}

// others says whether another process has rings.
func (a *Announcer) others() bool {
	for _, peer := range a.mesh.Peers() {
		if peer.Alive && peer.Role == string(route.Deliver) {
			return true
		}
	}
	return false
}

// name sees to it that the names of the subscriptions are known, of those that exist.
func (a *Announcer) name(ctx context.Context, keys []group.LeaseKey) {
	var unknown []int64
	for _, key := range keys {
		if !a.names.Contains(key.Subscription) {
			unknown = append(unknown, key.Subscription)
		}
	}
	if len(unknown) == 0 {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), nameTimeout)
	defer cancel()
	names, err := a.groups.Names(ctx, unknown)
	if err != nil {
		return // not told to others, whose searches find it
	}
	for id, name := range names {
		a.names.Add(id, name)
	}
}
