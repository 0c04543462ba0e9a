package appendlog

import (
	"context"

	"github.com/google/uuid"

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
		for _, offset := range verdicts[p.partition].Originals {
			spans = append(spans, log.Span{Partition: p.partition, First: offset, Last: offset})
		}
	}
	ids, err := f.originals(ctx, spans)
	if err != nil {
		// Nothing of these groups was written, so failing them whole is safe to retry.
		f.fail(groups, err)
		return
	}
	for _, p := range groups {
		v := verdicts[p.partition]
		for i, position := range v.Positions {
			place := p.places[position-1]
			f.results[p.group].Outcomes[place] = Outcome{Duplicate: true, MessageID: ids[i]}
		}
		ids = ids[len(v.Positions):]
		p.without(v.Positions)
		p.prepare()
	}
}

// originals reads the message ids at the given offsets; one that retention removed is all zero.
func (f *flush) originals(ctx context.Context, spans []log.Span) ([]uuid.UUID, error) {
	ctx, cancel := context.WithTimeout(ctx, appendDeadline)
	defer cancel()
	found, err := f.log.store.Read(ctx, spans)
	if err != nil {
		return nil, err
	}
	ids := make([]uuid.UUID, len(spans))
	decoded := make(map[[2]int64][]uuid.UUID)
	for i, segments := range found {
		for j := range segments {
			seg := &segments[j]
			at := [2]int64{spans[i].Partition, seg.Base}
			if decoded[at] == nil {
				msgs, err := seg.Messages()
				if err != nil {
					return nil, err
				}
				for k := range msgs {
					decoded[at] = append(decoded[at], msgs[k].ID)
				}
			}
			ids[i] = decoded[at][spans[i].First-seg.Base]
		}
	}
	return ids, nil
}
