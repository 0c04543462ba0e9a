package messages

import (
	"context"
	"math"
	"time"

	"github.com/google/uuid"

	"queen.internal/pkg/queue"
	"queen.internal/pkg/segment"
	"queen.internal/pkg/store/deadletter"
	"queen.internal/pkg/store/inspect"
	"queen.internal/pkg/store/log"
	"queen.internal/pkg/wire"
)

const (
	// hashRows is how many hash rows one statement looks at: at most 16 MiB of hashes.
	hashRows = 1000
	// oldSegments bounds the segments that are looked through whose hashes are gone, a page of them at a time.
	oldSegments      = 5000
	oldSegmentsPage  = 200
	oldSegmentsBytes = 8 << 20
)

// stored is a message where it lies.
type stored struct {
	segment.Message
	offset    int64
	createdAt time.Time
}

// Find looks a message up by its address. Of several with the transaction id it is the one that became a dead letter
// last, else the newest. A dead letter is found by its snapshot when the message itself has gone. Errors have a kind.
func (r *Reader) Find(ctx context.Context, tenant, partition uuid.UUID, transactionID string) (*wire.MessageDetail, bool, error) {
	home, found, err := r.Inspect.Partition(ctx, tenant, partition)
	if err != nil || !found {
		return nil, false, err
	}
	letter, dead, err := r.DeadLetters.Newest(ctx, tenant, partition, transactionID)
	if err != nil {
		return nil, false, err
	}
	var m *stored
	if dead {
		m, err = r.buried(ctx, home.ID, &letter)
	} else {
		m, err = r.search(ctx, home.ID, transactionID)
	}
	if err != nil || m == nil {
		return nil, false, err
	}
	options, found, err := r.Queues.Options(ctx, home.QueueID)
	if err != nil || !found {
		return nil, false, err // deleted meanwhile
	}
	positions, err := r.Inspect.Positions(ctx, []int64{home.ID})
	if err != nil {
		return nil, false, err
	}
	detail := &wire.MessageDetail{StoredMessage: r.show(m), Options: options, DeadLetter: dead, Mode: modeOf(positions)}
	detail.PartitionID, detail.Partition, detail.Queue = partition, home.Name, home.Queue
	s := judge(positions, m.offset, dead)
	detail.Status, detail.LeaseExpires = s.status, s.leaseExpires
	detail.Groups = groupsOf(positions, m.offset)
	if dead {
		detail.Error, detail.RetryCount = letter.Error, letter.RetryCount
	}
	return detail, true, nil
}

// show is a message without what is known beside it.
func (r *Reader) show(m *stored) wire.StoredMessage {
	data, sealed := r.opened(m.Payload)
	return wire.StoredMessage{
		ID: m.ID, TransactionID: m.TransactionID, Payload: data, Sealed: sealed, TraceID: m.TraceID, ProducerSub: m.ProducerSub,
		CreatedAt: m.createdAt,
	}
}

func groupsOf(positions []inspect.Position, offset int64) []wire.MessageGroup {
	groups := make([]wire.MessageGroup, len(positions))
	for i := range positions {
		p := &positions[i]
		groups[i] = wire.MessageGroup{Name: p.Group, Consumed: p.Passed(offset)}
		if p.Leased(offset) {
			groups[i].LeaseExpires = p.LeaseExpires
		}
	}
	return groups
}

// buried is the message of a dead letter, from the log as long as it is there.
func (r *Reader) buried(ctx context.Context, partition int64, l *deadletter.Found) (*stored, error) {
	m, err := r.at(ctx, partition, l.MessageOffset)
	if err != nil || m != nil && m.TransactionID == l.TransactionID {
		return m, err
	}
	return &stored{
		Message: segment.Message{ID: l.MessageID, TransactionID: l.TransactionID, Payload: l.Payload},
		offset:  l.MessageOffset, createdAt: l.CreatedAt,
	}, nil
}

// search looks through the hashes of the partition, and then through the newest segments that have none any more.
func (r *Reader) search(ctx context.Context, partition int64, transactionID string) (*stored, error) {
	hash := queue.TransactionHash(transactionID)
	for before := int64(math.MaxInt64); before > 0; {
		offset, next, err := r.Inspect.Transaction(ctx, partition, hash, before, hashRows)
		if err != nil {
			return nil, err
		}
		if offset >= 0 {
			m, err := r.at(ctx, partition, offset)
			if err != nil || m == nil || m.TransactionID != transactionID {
				return nil, err // removed by retention; what is older has gone as well
			}
			return m, nil
		}
		before = next
	}
	for before, left := int64(math.MaxInt64), oldSegments; left > 0; {
		segments, err := r.Inspect.Unhashed(ctx, partition, before, min(left, oldSegmentsPage), oldSegmentsBytes)
		if err != nil || len(segments) == 0 {
			return nil, err
		}
		for i := range segments {
			if m, err := newest(&segments[i], transactionID); err != nil || m != nil {
				return m, err
			}
		}
		left -= len(segments)
		before = segments[len(segments)-1].Base
	}
	return nil, nil
}

func newest(g *log.Segment, transactionID string) (*stored, error) {
	messages, err := decoded(g)
	if err != nil {
		return nil, err
	}
	for i := len(messages) - 1; i >= 0; i-- {
		if messages[i].TransactionID == transactionID {
			return &stored{messages[i], g.Base + int64(i), g.CreatedAt}, nil
		}
	}
	return nil, nil
}

// at reads the message at an offset; nil when it has gone.
func (r *Reader) at(ctx context.Context, partition, offset int64) (*stored, error) {
	found, err := r.Log.Read(ctx, []log.Span{{Partition: partition, First: offset, Last: offset}})
	if err != nil || len(found[0]) == 0 {
		return nil, err
	}
	g := &found[0][0]
	messages, err := decoded(g)
	if err != nil {
		return nil, err
	}
	return &stored{messages[offset-g.Base], offset, g.CreatedAt}, nil
}

func decoded(g *log.Segment) ([]segment.Message, error) {
	messages, err := g.Messages()
	if err != nil {
		return nil, &queue.Error{Kind: queue.KindInternal, Message: "frame decode failed", Err: err}
	}
	return messages, nil
}
