package batch

import (
	"slices"

	"github.com/google/uuid"

	"queen.internal/pkg/appendlog"
	"queen.internal/pkg/segment"
)

// flush is what one call of the Appender commits.
type flush struct {
	parts  []part
	groups []appendlog.Group // one per part

	entries, messages, bytes int
}

// part is one partition's share of a flush.
type part struct {
	partition *partition
	entries   []*entry

	messages, bytes int
}

// compose makes a flush of ready partitions, one of each tenant in turn. It takes at least one entry, and stops at the
// first that the flush has no room for: its tenant stays in front and is served first next time.
func (s *schedule) compose(limits *Options) *flush {
	f := &flush{}
	for s.anyReady() && len(f.parts) < limits.FlushPartitions {
		t := s.ring.Front().Value.(*tenant)
		p := t.ready.Front().Value.(*partition)
		if first := p.waiting.Front().Value.(*entry); f.entries > 0 && f.bytes+first.bytes > limits.FlushBytes {
			break
		}
		s.ring.MoveToBack(t.place)
		s.unlist(p)
		p.busy = true
		s.busy++
		f.add(s.take(p, limits, limits.FlushBytes-f.bytes))
	}
	return f
}

// take moves entries from the front of p into a part: the first in any case, then as many as fit, share no transaction
// hash with those before, are sealed if those are, and do not insist on going alone.
func (s *schedule) take(p *partition, limits *Options, room int) part {
	t := part{partition: p}
	room = min(room, limits.PartitionBytes)
	var seen map[uuid.UUID]struct{}
	for p.waiting.Len() > 0 {
		e := p.waiting.Front().Value.(*entry)
		if len(t.entries) > 0 {
			if e.alone || t.entries[0].alone || e.sealed != t.entries[0].sealed ||
				t.messages+len(e.messages) > limits.PartitionMessages || t.bytes+e.bytes > room {
				break
			}
			if seen == nil {
				seen = hashSet(t.entries[0].hashes)
			}
			if !addDistinct(seen, e.hashes) {
				break
			}
		}
		p.waiting.Remove(e.place)
		s.leave(e)
		t.entries = append(t.entries, e)
		t.messages += len(e.messages)
		t.bytes += e.bytes
	}
	return t
}

func hashSet(hashes []uuid.UUID) map[uuid.UUID]struct{} {
	set := make(map[uuid.UUID]struct{}, 2*len(hashes))
	addDistinct(set, hashes)
	return set
}

// addDistinct adds hashes to set unless one is in it. When it is false the set is of no more use: it may hold some of
// them.
func addDistinct(set map[uuid.UUID]struct{}, hashes []uuid.UUID) bool {
	for _, h := range hashes {
		if _, ok := set[h]; ok {
			return false
		}
		set[h] = struct{}{}
	}
	return true
}

func (f *flush) add(t part) {
	messages := t.entries[0].messages
	if len(t.entries) > 1 {
		messages = make([]segment.Message, 0, t.messages)
		for _, e := range t.entries {
			messages = append(messages, e.messages...)
		}
	}
	f.parts = append(f.parts, t)
	f.groups = append(f.groups, appendlog.Group{Key: t.partition.key, Messages: messages, Sealed: t.entries[0].sealed})
	f.entries += len(t.entries)
	f.messages += t.messages
	f.bytes += t.bytes
}

// settle gives a part's entries their outcomes and frees the partition. When the store refused several requests
// together, nothing was written, and each is tried again by itself: one bad request must not fail its neighbours.
func (s *schedule) settle(t *part, result appendlog.Result) {
	p := t.partition
	p.busy = false
	s.busy--
	switch {
	case result.Err == nil:
		outcomes := result.Outcomes
		for _, e := range t.entries {
			n := len(e.messages)
			s.answer(e, appendlog.Result{Outcomes: outcomes[:n:n]})
			outcomes = outcomes[n:]
		}
	case len(t.entries) > 1 && refused(result.Err):
		for _, e := range slices.Backward(t.entries) {
			if e.request.gone != nil {
				s.answer(e, appendlog.Result{Err: e.request.gone})
				continue
			}
			e.alone = true
			s.enter(e, p.waiting.PushFront(e))
		}
	default:
		for _, e := range t.entries {
			s.answer(e, result)
		}
	}
	s.list(p)
	s.forget(p)
}
