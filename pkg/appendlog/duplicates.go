package appendlog

import (
	"cmp"
	"context"
	"slices"

	"github.com/google/uuid"

	"queen.internal/pkg/segment"
	"queen.internal/pkg/store/log"
)

// repeat gives the duplicates of each group the ids of their originals and leaves the group with the messages that are
// new; they go with the next call, under a new tag.
func (f *flush) repeat(ctx context.Context, groups []*pending, verdicts map[int64]*log.Placed) {
	if len(groups) == 0 {
		return
	}
	var spans []log.Span
	for _, p := range groups {
		for _, offset := range verdicts[p.partition.ID].Originals {
			spans = append(spans, log.Span{Partition: p.partition.ID, First: offset, Last: offset})
		}
	}
	ids, err := f.log.originals(ctx, spans)
	if err != nil {
		// Nothing of these groups was written, so failing them whole is safe to retry.
		f.fail(groups, err)
		return
	}
	for _, p := range groups {
		v := verdicts[p.partition.ID]
		for i, position := range v.Positions {
			place := p.places[position-1]
			f.results[p.group].Outcomes[place] = Outcome{Duplicate: true, MessageID: ids[i]}
		}
		ids = ids[len(v.Positions):]
		p.without(v.Positions)
		p.prepare()
	}
}

// originals reads the message ids at the given offsets; one that retention removed is all zero. Many of the offsets stand
// in one segment, which is read once: it is as large as a thousand offsets are small.
func (l *Log) originals(ctx context.Context, spans []log.Span) ([]uuid.UUID, error) {
	ctx, cancel := context.WithTimeout(ctx, appendDeadline)
	defer cancel()
	ids, left := make([]uuid.UUID, len(spans)), make([]int, len(spans))
	for i := range left {
		left[i] = i
	}
	slices.SortFunc(left, func(a, b int) int {
		return cmp.Or(cmp.Compare(spans[a].Partition, spans[b].Partition), cmp.Compare(spans[a].First, spans[b].First))
	})
	for len(left) > 0 {
		heads := headsOf(spans, left)
		found, err := l.store.Read(ctx, heads)
		if err != nil {
			return nil, err
		}
		var rest []int
		var seg *log.Segment
		var msgs []segment.Message
		for _, i := range left {
			isHead := len(heads) > 0 && spans[i] == heads[0]
			if isHead {
				seg, msgs = nil, nil
				if len(found[0]) > 0 {
					seg = &found[0][0]
					if msgs, err = seg.Messages(); err != nil {
						return nil, err
					}
				}
				heads, found = heads[1:], found[1:]
			}
			switch {
			case seg != nil && spans[i].First <= seg.End:
				ids[i] = msgs[spans[i].First-seg.Base].ID
			case !isHead: // the head's segment ends before it
				rest = append(rest, i)
			}
		}
		left = rest
	}
	return ids, nil
}

// headsOf picks, from the sorted offsets that are left, one of each run that a single segment could hold.
func headsOf(spans []log.Span, left []int) []log.Span {
	var heads []log.Span
	for _, i := range left {
		n := len(heads)
		if n == 0 || heads[n-1].Partition != spans[i].Partition || spans[i].First >= heads[n-1].First+segment.MaxMessages {
			heads = append(heads, spans[i])
		}
	}
	return heads
}
