package outage

import (
	"cmp"
	"slices"
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
//
// Partitions take turns record by record, those with the fewest first: they are done soon, and then their pushes go to the
// database again, however much there is of others. A record with a tag goes alone, since looking for that takes time, and
// in turn with what has none.
func (g *Guard) pick(src *source, now time.Time) *batch {
	queues := lineUp(src.window)
	g.mu.Lock()
	defer g.mu.Unlock()
	var due []*line
	for _, l := range queues {
		if l.left = src.pending[l.key]; g.due(src, l.key, now) {
			due = append(due, l)
		}
	}
	slices.SortStableFunc(due, func(a, b *line) int { return cmp.Compare(a.left, b.left) })
	b := &batch{}
	if src.tagged = !src.tagged; src.tagged {
		b.alone(due)
	}
	if len(b.shares) == 0 {
		g.share(b, due)
	}
	if len(b.shares) == 0 {
		b.alone(due)
	}
	for _, s := range b.shares {
		if g.last(src, s) {
			s.held = g.partitions.Hold(s.key)
		}
	}
	return b
}

// line is the records of a partition in the window, in their order.
type line struct {
	key     appendlog.Key
	entries []*entry
	left    int // records of it in the spool
}

// lineUp sorts a window by partition.
func lineUp(window []*entry) (lines []*line) {
	byKey := map[appendlog.Key]*line{}
	for _, e := range window {
		l := byKey[e.rec.Key]
		if l == nil {
			l = &line{key: e.rec.Key}
			byKey[e.rec.Key], lines = l, append(lines, l)
		}
		l.entries = append(l.entries, e)
	}
	return lines
}

// alone makes a batch of the first record with a tag.
func (b *batch) alone(lines []*line) {
	for _, l := range lines {
		if e := l.entries[0]; e.rec.Attempted {
			b.add(&share{key: l.key}, e)
			return
		}
	}
}

// share fills a batch with records that have no tag, one of each line in turn. The caller holds the mutex.
func (g *Guard) share(b *batch, lines []*line) {
	shares := make([]*share, 0, batchKeys)
	var open []*line
	for _, l := range lines {
		if len(open) < batchKeys && !l.entries[0].rec.Attempted {
			open, shares = append(open, l), append(shares, &share{key: l.key})
		}
	}
	for more := true; more; {
		more = false
		for i, l := range open {
			s := shares[i]
			n := len(s.entries)
			if n == len(l.entries) || n > 0 && (g.single(l.key) || !s.fits(l.entries[n])) {
				continue
			}
			e := l.entries[n]
			if len(b.shares) > 0 && (b.messages+len(e.rec.Messages) > g.o.BatchMessages || b.bytes+e.size > batchBytes) {
				return
			}
			b.add(s, e)
			more = true
		}
	}
}

// add gives a share one more record.
func (b *batch) add(s *share, e *entry) {
	if len(s.entries) == 0 {
		b.shares = append(b.shares, s)
	}
	s.entries = append(s.entries, e)
	b.messages += len(e.rec.Messages)
	b.bytes += e.size
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
