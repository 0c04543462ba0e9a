package mesh

import (
	"sync"

	"github.com/google/uuid"
)

// interest is what this process wants to hear. Asking for more takes a mutex and no round trip: the sender subscribes.
type interest struct {
	mu    sync.Mutex
	refs  [buckets]int
	every int
}

func (i *interest) change(bucket, by int) (changed bool) {
	i.mu.Lock()
	defer i.mu.Unlock()
	before := i.refs[bucket]
	i.refs[bucket] = max(before+by, 0)
	return (before == 0) != (i.refs[bucket] == 0)
}

func (i *interest) wanted() (set bucketSet) {
	i.mu.Lock()
	defer i.mu.Unlock()
	for bucket, refs := range i.refs {
		if refs > 0 || i.every > 0 {
			set.add(bucket)
		}
	}
	return set
}

// Watch listens to hints of a queue until Unwatch; calls count. What was announced before peers know of the new
// listener is lost; they are asked at once what they have announced, so a Gap follows when there was any. Derive a ring
// after Watch, not before.
func (m *Mesh) Watch(tenant uuid.UUID, queue string) {
	if m.interest.change(bucketOf(tenant, queue), 1) {
		m.kick()
	}
}

// Unwatch takes one Watch back.
func (m *Mesh) Unwatch(tenant uuid.UUID, queue string) {
	if m.interest.change(bucketOf(tenant, queue), -1) {
		m.kick()
	}
}

// WatchAll listens to hints of every queue from now on.
func (m *Mesh) WatchAll() {
	m.interest.mu.Lock()
	m.interest.every++
	m.interest.mu.Unlock()
	m.kick()
}
