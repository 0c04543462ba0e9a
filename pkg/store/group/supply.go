package group

import (
	"context"
	"strings"
	"time"

	"github.com/google/uuid"

	"queen.internal/pkg/queue"
	"queen.internal/pkg/segment"
	"queen.internal/pkg/store/log"
)

// openGroup is a group of an ack that is not decided yet, with what the procedure asked for.
type openGroup struct {
	*AckGroup
	place int // in the caller's slice

	offsets                []*int64 // per item, read from the leased segments; nil until asked for
	spanCommitted, spanEnd int64
	dead                   *snapshot // nil until asked for
}

// snapshot is the message that a group must dead-letter.
type snapshot struct {
	offset    int64
	createdAt time.Time
	message   segment.Message
	reason    string
}

// supply reads from the log what the procedure asked for. lost means that the message to dead-letter is no longer there.
func (s *Store) supply(ctx context.Context, g *openGroup, a *answer) (lost bool, err error) {
	if a.Outcome == snapshotNeeded {
		return s.supplySnapshot(ctx, g, a)
	}
	return false, s.supplyOffsets(ctx, g, a)
}

// supplyOffsets resolves the group's hashes against the leased span, so that an ack within a live lease never depends on
// the hash rows.
func (s *Store) supplyOffsets(ctx context.Context, g *openGroup, a *answer) error {
	found, err := s.log.Read(ctx, []log.Span{{Partition: a.PartitionID, First: a.needed, Last: a.spanEnd}})
	if err != nil {
		return err
	}
	stands := make(map[uuid.UUID]int64)
	for i := range found[0] {
		seg := &found[0][i]
		msgs, err := seg.Messages()
		if err != nil {
			return err
		}
		for j := range msgs {
			offset := seg.Base + int64(j)
			hash := queue.TransactionHash(msgs[j].TransactionID)
			// The lowest occurrence past the cursor is meant; one at or below it only says that it was completed.
			if known, ok := stands[hash]; offset >= a.needed && offset <= a.spanEnd && (!ok || known <= a.Committed) {
				stands[hash] = offset
			}
		}
	}
	g.offsets, g.spanCommitted, g.spanEnd = make([]*int64, len(g.Items)), a.Committed, a.spanEnd
	for i := range g.Items {
		if g.Items[i].Hash == nil {
			continue
		}
		if offset, ok := stands[*g.Items[i].Hash]; ok {
			g.offsets[i] = &offset
		}
	}
	return nil
}

func (s *Store) supplySnapshot(ctx context.Context, g *openGroup, a *answer) (lost bool, err error) {
	found, err := s.log.Read(ctx, []log.Span{{Partition: a.PartitionID, First: a.needed, Last: a.needed}})
	if err != nil {
		return false, err
	}
	if len(found[0]) == 0 {
		return true, nil
	}
	seg := &found[0][0]
	m, err := messageAt(seg, a.needed)
	if err != nil {
		return false, err
	}
	g.dead = &snapshot{offset: a.needed, createdAt: seg.CreatedAt, message: m, reason: g.reasonFor(queue.TransactionHash(m.TransactionID))}
	return false, nil
}

// messageAt cuts one message out of the segment that holds it.
func messageAt(seg *log.Segment, offset int64) (segment.Message, error) {
	msgs, err := seg.Messages()
	if err != nil {
		return segment.Message{}, err
	}
	return msgs[offset-seg.Base], nil
}

// stored is a payload as the dead letters keep it, where NULL stands for nothing.
func stored(payload []byte) []byte {
	if payload == nil {
		return []byte{}
	}
	return payload
}

// reasonFor is what the dead letter says: the reason given with that message, else the first one given. PostgreSQL's
// text cannot hold a NUL.
func (g *AckGroup) reasonFor(hash uuid.UUID) string {
	return strings.ReplaceAll(g.reason(hash), "\x00", "\uFFFD")
}

func (g *AckGroup) reason(hash uuid.UUID) string {
	first := "Retries exhausted"
	for i := len(g.Items) - 1; i >= 0; i-- {
		item := &g.Items[i]
		if item.Signal == Completed || item.Reason == "" {
			continue
		}
		if item.Hash != nil && *item.Hash == hash {
			return item.Reason
		}
		first = item.Reason
	}
	return first
}
