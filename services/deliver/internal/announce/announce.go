// Package announce tells whoever waits for it that work has come up. Whoever commits an append, or frees or moves a
// cursor, calls it right after the commit, with the tenant, the queue and the group: that is all it takes to be found. Who
// learns of it are the polls and rings of this process. Nothing here decides anything, and nothing here can fail: news
// that is lost is found by a search.
//
// The package starts no goroutine and keeps no state of its own. An Announcer is shared by all requests.
package announce

import (
	"github.com/google/uuid"

	"queen.internal/pkg/appendlog"
	"queen.internal/pkg/store/group"
	"queen.internal/services/deliver/internal/ready"
)

// Announcer is where news goes.
type Announcer struct{ index *ready.Index }

// New returns an Announcer that tells index.
func New(index *ready.Index) *Announcer { return &Announcer{index: index} }

// Freed says that leases of a group have ended before their time: by an ack, a nack or a release.
func (a *Announcer) Freed(tenant uuid.UUID, keys ...group.LeaseKey) {
	for _, key := range keys {
		a.index.Freed(key.Subscription, key.Partition)
	}
}

// Changed says that a group's cursors were moved, that a group or a queue was deleted, paused or resumed. An empty group
// means every group of the queue.
func (a *Announcer) Changed(tenant uuid.UUID, queue, group string) {
	a.index.Changed(tenant, queue, group)
}

// Appended says what an append has committed. It has the form that appendlog.New takes.
func (a *Announcer) Appended(announcements []appendlog.Announcement) {
	for i := range announcements {
		n := &announcements[i]
		a.index.Wake(n.Key.Tenant, n.Key.Queue, n.Partition)
	}
}
