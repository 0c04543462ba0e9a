package lease

import (
	"slices"
	"sync"
	"time"

	"github.com/google/uuid"

	"queen.internal/pkg/store/group"
)

// Span is what a lease holds of one cursor: the messages First.. in their order, by the hashes of their transaction ids.
type Span struct {
	Cursor    group.LeaseKey
	Partition uuid.UUID // its wire id
	First     int64
	Hashes    []uuid.UUID
}

// Registry remembers which cursors a lease holds, and what of them.
type Registry struct {
	limit int

	mu      sync.Mutex
	leases  map[uuid.UUID]*held
	oldest  *held // list by age, for eviction
	newest  *held
	cursors int // over all leases
	hashes  int // over all leases
}

// hashesPerCursor is for how many messages a cursor of the registry's limit there is room on average, at 16 bytes each.
const hashesPerCursor = 5

// held is one lease.
type held struct {
	id           uuid.UUID
	tenant       uuid.UUID
	group        string
	keys         []group.LeaseKey
	spans        []Span
	expires      time.Time // own time
	older, newer *held
}

// NewRegistry returns a registry of at most limit cursors.
func NewRegistry(limit int) *Registry {
	return &Registry{limit: limit, leases: make(map[uuid.UUID]*held)}
}

// Put registers all the cursors that a pop of a consumer group leased, which last until expires by our own clock, and their
// spans as far as they are known. The registry keeps both.
func (r *Registry) Put(tenant, lease uuid.UUID, consumers string, keys []group.LeaseKey, spans []Span, expires time.Time) {
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
	h := &held{id: lease, tenant: tenant, group: consumers, keys: keys, expires: expires, older: r.newest}
	if n := count(spans); r.hashes+n <= hashesPerCursor*r.limit {
		h.spans = spans
		r.hashes += n
	}
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

// Span returns what a lease of a group holds of the partition with this wire id. The caller must not change it.
func (r *Registry) Span(tenant, lease uuid.UUID, consumers string, partition uuid.UUID) (Span, bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if h := r.leases[lease]; h != nil && h.tenant == tenant && h.group == consumers {
		for i := range h.spans {
			if h.spans[i].Partition == partition {
				return h.spans[i], true
			}
		}
	}
	return Span{}, false
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
	if len(h.keys) == 1 && h.keys[0] == key {
		r.remove(h)
		return
	}
	kept := make([]group.LeaseKey, 0, len(h.keys)) // a new list: a renewal may be reading the old one
	for _, k := range h.keys {
		if k != key {
			kept = append(kept, k)
		}
	}
	r.cursors -= len(h.keys) - len(kept)
	h.keys = kept
	r.hashes -= count(h.spans)
	h.spans = slices.DeleteFunc(h.spans, func(s Span) bool { return s.Cursor == key })
	r.hashes += count(h.spans)
}

// count is how many messages are in spans.
func count(spans []Span) (n int) {
	for i := range spans {
		n += len(spans[i].Hashes)
	}
	return n
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
	r.hashes -= count(h.spans)
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
