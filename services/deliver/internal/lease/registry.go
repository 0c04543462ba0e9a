package lease

import (
	"sync"
	"time"

	"github.com/google/uuid"

	"queen.internal/pkg/store/group"
)

// Registry remembers which cursors a lease holds.
type Registry struct {
	limit int

	mu      sync.Mutex
	leases  map[uuid.UUID]*held
	oldest  *held // list by age, for eviction
	newest  *held
	cursors int // over all leases
}

// held is one lease.
type held struct {
	id           uuid.UUID
	tenant       uuid.UUID
	keys         []group.LeaseKey
	expires      time.Time // own time
	older, newer *held
}

// NewRegistry returns a registry of at most limit cursors.
func NewRegistry(limit int) *Registry {
	return &Registry{limit: limit, leases: make(map[uuid.UUID]*held)}
}

// Put registers all the cursors that a pop leased, which last until expires by our own clock. The registry keeps keys.
func (r *Registry) Put(tenant, lease uuid.UUID, keys []group.LeaseKey, expires time.Time) {
	if len(keys) == 0 || len(keys) > r.limit {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if old := r.leases[lease]; old != nil {
		r.remove(old)
	}
	now := time.Now()
	for r.oldest != nil && (r.cursors+len(keys) > r.limit || !r.oldest.expires.After(now)) {
		r.remove(r.oldest)
	}
	h := &held{id: lease, tenant: tenant, keys: keys, expires: expires, older: r.newest}
	r.leases[lease] = h
	if r.newest != nil {
		r.newest.newer = h
	} else {
		r.oldest = h
	}
	r.newest = h
	r.cursors += len(keys)
}

// Keys returns the cursors of a lease, or nil when they must be searched for. The caller must not change them. Another
// tenant's lease is as good as unknown.
func (r *Registry) Keys(tenant, lease uuid.UUID) []group.LeaseKey {
	r.mu.Lock()
	defer r.mu.Unlock()
	if h := r.leases[lease]; h != nil && h.tenant == tenant {
		return h.keys
	}
	return nil
}

// Extended notes that a renewal moved the expiry.
func (r *Registry) Extended(lease uuid.UUID, expires time.Time) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if h := r.leases[lease]; h != nil && expires.After(h.expires) {
		h.expires = expires
	}
}

// Released forgets one cursor of a lease that an ack ended.
func (r *Registry) Released(lease uuid.UUID, key group.LeaseKey) {
	r.mu.Lock()
	defer r.mu.Unlock()
	h := r.leases[lease]
	if h == nil {
		return
	}
	kept := make([]group.LeaseKey, 0, len(h.keys)) // a new list: a renewal may be reading the old one
	for _, k := range h.keys {
		if k != key {
			kept = append(kept, k)
		}
	}
	if len(kept) == 0 {
		r.remove(h)
		return
	}
	r.cursors -= len(h.keys) - len(kept)
	h.keys = kept
}

// Size is how many leases and cursors are registered.
func (r *Registry) Size() (leases, cursors int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.leases), r.cursors
}

func (r *Registry) remove(h *held) {
	delete(r.leases, h.id)
	r.cursors -= len(h.keys)
	if h.older != nil {
		h.older.newer = h.newer
	} else {
		r.oldest = h.newer
	}
	if h.newer != nil {
		h.newer.older = h.older
	} else {
		r.newest = h.older
	}
}
