package outage

import (
	"time"

	"queen.internal/pkg/appendlog"
	"queen.internal/pkg/segment"
	"queen.internal/services/ingest/internal/spool/record"
)

// batch is what one replay brings: of each partition the records that come next.
type batch struct {
	shares   []*share
	messages int
	bytes    int
}

// share is one partition's part.
type share struct {
	key     appendlog.Key
	entries []*entry
	held    bool // its new pushes wait, for these are the last records
}

// pick chooses from the window of a source. Records of one partition come in their order and go together as far as they
// can; one that has to wait keeps those behind it back, and so does an older source that has records of the partition.
func (g *Guard) pick(src *source, now time.Time) *batch {
	b := &batch{}
	byKey, stopped := map[appendlog.Key]*share{}, map[appendlog.Key]bool{}
	g.mu.Lock()
	defer g.mu.Unlock()
	for _, e := range src.window {
		key := e.rec.Key
		if stopped[key] {
			continue
		}
		s := byKey[key]
		switch {
		case s == nil && (!g.due(src, key, now) || len(b.shares) > 0 && (b.shares[0].attempted() || e.rec.Attempted)):
			// An attempted record goes alone: looking for its tag takes time.
			stopped[key] = true
			continue
		case s != nil && (g.single(key) || !s.fits(e)):
			stopped[key] = true
			continue
		}
		if len(b.shares) > 0 && (b.messages+len(e.rec.Messages) > g.o.BatchMessages || b.bytes+e.size > batchBytes) {
			break
		}
		if s == nil {
			if len(b.shares) == batchKeys {
				stopped[key] = true
				continue
			}
			s = &share{key: key}
			byKey[key], b.shares = s, append(b.shares, s)
		}
		s.entries = append(s.entries, e)
		b.messages += len(e.rec.Messages)
		b.bytes += e.size
	}
	for _, s := range b.shares {
		if g.last(src, s) {
			s.held = g.partitions.Hold(s.key)
		}
	}
	return b
}

// due says whether the partition's records in src may be tried now. The caller holds the mutex.
func (g *Guard) due(src *source, key appendlog.Key, now time.Time) bool {
	if t := g.drain.troubled[key]; t != nil && t.until.After(now) {
		return false
	}
	for _, older := range g.sources {
		if older == src {
			return true
		}
		if older.pending[key] > 0 {
			return false
		}
	}
	return true
}

func (g *Guard) single(key appendlog.Key) bool {
	t := g.drain.troubled[key]
	return t != nil && t.single
}

// last says whether nothing of the partition is left when this share is done. The caller holds the mutex.
func (g *Guard) last(src *source, s *share) bool {
	for _, other := range g.sources {
		want := 0
		if other == src {
			want = len(s.entries)
		}
		if other.pending[s.key] != want {
			return false
		}
	}
	return true
}

func (s *share) attempted() bool { return s.entries[0].rec.Attempted }

// fits says whether a record can go in the same append as those before it.
func (s *share) fits(e *entry) bool {
	first := s.entries[0].rec
	return !first.Attempted && !e.rec.Attempted && first.Sealed == e.rec.Sealed
}

// groups are the shares as the append log takes them.
func (b *batch) groups() []appendlog.Spooled {
	groups := make([]appendlog.Spooled, len(b.shares))
	for i, s := range b.shares {
		first := s.entries[0]
		group := appendlog.Spooled{
			Group: appendlog.Group{Key: s.key, Sealed: first.rec.Sealed},
			First: int64(first.item.Sequence), Last: int64(s.entries[len(s.entries)-1].item.Sequence), Age: age(first.rec),
			Tag: first.rec.Tag, Attempted: first.rec.Attempted,
		}
		group.Messages = messagesOf(s.entries)
		groups[i] = group
	}
	return groups
}

func messagesOf(entries []*entry) []segment.Message {
	if len(entries) == 1 {
		return entries[0].rec.Messages
	}
	var all []segment.Message
	for _, e := range entries {
		all = append(all, e.rec.Messages...)
	}
	return all
}

// seal encrypts the payloads of a record that was spooled before its queue was known to want that.
func (g *Guard) seal(r *record.Record) {
	for i := range r.Messages {
		r.Messages[i].Payload = g.o.Keys.Seal(r.Messages[i].Payload)
	}
	r.Sealed = true
}
