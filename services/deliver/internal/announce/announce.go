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

// unknownOffset stands for a cursor that nobody has looked at.
const unknownOffset = -1

// Freed says that leases of a tenant's groups have ended before their time and left messages: by a release or a nack.
func (a *Announcer) Freed(ctx context.Context, tenant uuid.UUID, keys ...group.LeaseKey) {
	for _, key := range keys {
		a.index.Freed(key.Subscription, key.Partition, unknownOffset)
	}
	a.tell(ctx, tenant, mesh.Freed, unknownOffset, keys...)
}

// Acked says that an ack has ended a lease with the cursor at the offset committed, in a partition whose highest offset was
// last.
func (a *Announcer) Acked(ctx context.Context, tenant uuid.UUID, key group.LeaseKey, committed, last int64) {
	if last > committed {
		a.index.Freed(key.Subscription, key.Partition, committed)
		a.tell(ctx, tenant, mesh.Freed, committed, key)
		return
	}
	a.index.Drained(key.Subscription, key.Partition, committed)
	a.tell(ctx, tenant, mesh.Drained, committed, key)
}

// tell tells other processes that leases have ended.
func (a *Announcer) tell(ctx context.Context, tenant uuid.UUID, news mesh.News, committed int64, keys ...group.LeaseKey) {
	if !others(a.mesh) {
		return
	}
	a.name(ctx, keys)
	for _, key := range keys {
		if name, ok := a.names.Get(key.Subscription); ok {
			a.mesh.Announce(mesh.Hint{
				Tenant: tenant, Queue: name.Queue, Group: name.Group, Partition: key.Partition, News: news, Offset: committed,
			})
		}
	}
}

// Changed says that a group's cursors were moved, that a group or a queue was deleted, paused or resumed, or that nobody
// knows what has happened to it. An empty group means every group of the queue.
func (a *Announcer) Changed(tenant uuid.UUID, queue, group string) {
	a.index.Changed(tenant, queue, group)
	a.mesh.Announce(mesh.Hint{Tenant: tenant, Queue: queue, Group: group})
}

// FailedOver says that another server has taken over: what was remembered of the one before may be lost there. Other
// processes find out by themselves. Leases stay registered, since a cursor is looked up by its lease: one that is lost is
// found by nobody, and for the others the whole table need not be searched. It does not block.
func (a *Announcer) FailedOver() {
	a.names.Purge()
	a.index.FailedOver()
}

// Created says that a queue has come to be: it may belong to a namespace that polls wait for, here or elsewhere.
func (a *Announcer) Created(tenant uuid.UUID, queue string) {
	a.index.Configured(tenant, queue, false)
	a.mesh.AnnounceConfig(tenant, queue, false)
}

// Appended says what an append has committed. It has the form that appendlog.New takes.
func (a *Announcer) Appended(announcements []appendlog.Announcement) {
	hints := appendlog.Hints(announcements)
	a.heard("", hints)
	a.mesh.Announce(hints...)
}

// Listen takes the news of others, and of the index. It is called before the mesh runs.
func (a *Announcer) Listen() {
	a.index.OnQueue(a.Created)
	a.mesh.OnHints(a.heard)
	a.mesh.OnGap(func(gap mesh.Gap) { a.index.Missed(gap.Covers) })
	a.mesh.OnConfig(func(_ string, c mesh.Config) { a.index.Configured(c.Tenant, c.Queue, c.Deleted) })
}

// heard passes news on to the rings.
func (a *Announcer) heard(peer string, hints []mesh.Hint) {
	for i := range hints {
		h := &hints[i]
		switch {
		case h.Partition == 0:
			a.index.Changed(h.Tenant, h.Queue, h.Group)
		case h.Group == "":
			a.index.Wake(h.Tenant, h.Queue, h.Partition, h.Offset)
		default:
			said(a.index.Peer(peer, ready.Key{Tenant: h.Tenant, Queue: h.Queue, Group: h.Group}, h.Partition), h)
		}
	}
}

// said passes on what a peer says of one cursor.
func said(peer ready.Peer, h *mesh.Hint) {
	switch h.News {
	case mesh.Drained:
		peer.Drained(h.Offset)
	case mesh.Leased:
		peer.Leased(h.Offset, h.Lease)
	case mesh.Consumed:
		peer.Consumed(h.Offset)
	case mesh.Declined:
		peer.Declined(h.Offset)
	default:
		peer.Freed(h.Offset)
	}
}

// Took tells other processes what this one has taken. It has the form that ready.Options wants.
func Took(m *mesh.Mesh) func(ready.Delivery) {
	return func(d ready.Delivery) {
		if !others(m) {
			return
		}
		hint := mesh.Hint{Tenant: d.Tenant, Queue: d.Queue, Group: d.Group, Partition: d.Partition, News: mesh.Leased, Offset: d.First, Lease: d.Lease}
		if d.Lease == 0 {
			hint.News, hint.Offset = mesh.Consumed, d.Last
		}
		m.Announce(hint)
	}
}

// Declined tells other processes that they need not hold back. It has the form that ready.Options wants.
func Declined(m *mesh.Mesh) func(ready.Key, int64, int64) {
	return func(key ready.Key, partition, offset int64) {
		m.Announce(mesh.Hint{Tenant: key.Tenant, Queue: key.Queue, Group: key.Group, Partition: partition, News: mesh.Declined, Offset: offset})
	}
}

// others says whether another process has rings.
func others(m *mesh.Mesh) bool { return m.Alive(string(route.Deliver)) > 0 }

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
