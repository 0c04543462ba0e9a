package segments

import (
	"sync"
	"time"

	"github.com/hashicorp/golang-lru/v2/simplelru"

	"queen.internal/pkg/segment"
	"queen.internal/pkg/store/log"
)

// name names a segment for ever. A base alone does not: after a failover to a timeline that had lost the segment, another one
// may have been written there.
type name struct{ partition, base, tag int64 }

// Segment is a stored segment, decoded. It is shared, so nothing of it may be changed.
type Segment struct {
	Base      int64
	CreatedAt time.Time
	RawBytes  int
	Messages  []segment.Message // element i has the offset Base+i
}

// messageBytes is about what a decoded message takes beside its frame: its struct, and a transaction id of its own.
const messageBytes = 128

func (s *Segment) cost() int64 { return int64(s.RawBytes + messageBytes*len(s.Messages)) }

// decode makes a Segment of a stored one. The error wraps segment.ErrCorrupt.
func decode(stored *log.Segment) (*Segment, error) {
	messages, err := stored.Messages()
	if err != nil {
		return nil, err
	}
	return &Segment{Base: stored.Base, CreatedAt: stored.CreatedAt, RawBytes: stored.RawBytes, Messages: messages}, nil
}

// maxEntries bounds the entries of a cache whatever they cost; nobody reaches it.
const maxEntries = 1 << 30

// cache keeps the segments that were asked for last, up to a number of bytes.
type cache struct {
	limit int64

	mu    sync.Mutex
	kept  *simplelru.LRU[name, *Segment]
	bytes int64
}

// newCache returns a cache of limit bytes, nil for none: a nil cache keeps nothing.
func newCache(limit int64) *cache {
	if limit <= 0 {
		return nil
	}
	c := &cache{limit: limit}
	kept, err := simplelru.NewLRU(maxEntries, func(_ name, s *Segment) { c.bytes -= s.cost() })
	if err != nil {
		panic(err) // a constant, positive size
	}
	c.kept = kept
	return c
}

func (c *cache) get(n name) *Segment {
	if c == nil {
		return nil
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	s, _ := c.kept.Get(n)
	return s
}

// add keeps a segment, and lets go of those that were not asked for longest.
func (c *cache) add(n name, s *Segment) {
	if c == nil || s.cost() > c.limit {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.kept.Contains(n) {
		return
	}
	c.kept.Add(n, s)
	c.bytes += s.cost()
	for c.bytes > c.limit {
		c.kept.RemoveOldest()
	}
}

// size is how many segments are kept, and their bytes.
func (c *cache) size() (segments int, bytes int64) {
	if c == nil {
		return 0, 0
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.kept.Len(), c.bytes
}
