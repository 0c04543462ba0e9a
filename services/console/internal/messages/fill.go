package messages

import (
	"context"

	"queen.internal/pkg/segment"
	"queen.internal/pkg/store/inspect"
	"queen.internal/pkg/store/log"
	"queen.internal/pkg/wire"
)

const (
	// segmentsAtOnce is how many segments one statement reads, at most about 1 MiB each.
	segmentsAtOnce = 8
	// maxReadBytes bounds what is read for one page, before compression, and maxPageBytes its payloads. A message beyond
	// them is listed without its payload.
	maxReadBytes = 64 << 20
	maxPageBytes = 16 << 20
)

// segmentKey names a segment of the page.
type segmentKey struct{ partition, base int64 }

// filling is the state of one fill.
type filling struct {
	*Reader
	segments   map[segmentKey][]segment.Message // nil: gone, or beyond the bounds
	read, page int
}

// fill reads what stands in the items.
func (r *Reader) fill(ctx context.Context, written []inspect.Written, items []item) ([]wire.ListedMessage, error) {
	places := make(map[int64]*inspect.Written, len(written))
	for i := range written {
		places[written[i].ID] = &written[i]
	}
	hashes, err := r.Inspect.Hashes(ctx, addressesOf(items))
	if err != nil {
		return nil, err
	}
	f := filling{Reader: r, segments: make(map[segmentKey][]segment.Message)}
	listed := make([]wire.ListedMessage, len(items))
	for i := range items {
		it, at := &items[i], places[items[i].Partition]
		messages, err := f.messages(ctx, items[i:])
		if err != nil {
			return nil, err
		}
		m := wire.ListedMessage{
			Hash: hashes[i], Namespace: at.Namespace, Task: at.Task, Priority: at.Priority, QueueStatus: it.standing.queueStatus,
			ConsumedBy: it.standing.consumedBy, NamedGroups: it.standing.namedGroups, Base: it.Base, Offset: it.Offset,
		}
		if place := int(it.Offset - it.Base); place < len(messages) {
			m.StoredMessage = f.content(&stored{messages[place], it.Offset, it.createdAt})
		} else {
			m.Gone, m.CreatedAt = true, it.createdAt
		}
		m.PartitionID, m.Partition, m.Queue = at.UID, at.Name, at.Queue
		m.Status, m.LeaseExpires = it.standing.status, it.standing.leaseExpires
		listed[i] = m
	}
	return listed, nil
}

// content is a message with its payload, as long as the page has room.
func (f *filling) content(m *stored) wire.StoredMessage {
	shown := f.show(m)
	if f.page += len(shown.Payload); f.page > maxPageBytes && f.page > len(shown.Payload) {
		shown.Payload, shown.Sealed = nil, false
	}
	return shown
}

// messages is the segment of the first item. When it was not read yet, those of the items behind it are read with it.
func (f *filling) messages(ctx context.Context, items []item) ([]segment.Message, error) {
	first := segmentKey{items[0].Partition, items[0].Base}
	if messages, known := f.segments[first]; known || f.read >= maxReadBytes {
		return messages, nil
	}
	var keys []segmentKey
	var spans []log.Span
	for _, it := range items {
		key := segmentKey{it.Partition, it.Base}
		if _, known := f.segments[key]; known {
			continue
		}
		f.segments[key] = nil
		keys, spans = append(keys, key), append(spans, log.Span{Partition: key.partition, First: key.base, Last: key.base})
		if len(keys) == segmentsAtOnce {
			break
		}
	}
	found, err := f.Log.Read(ctx, spans)
	if err != nil {
		return nil, err
	}
	for i, key := range keys {
		if len(found[i]) == 0 || found[i][0].Base != key.base {
			continue
		}
		if f.segments[key], err = decoded(&found[i][0]); err != nil {
			return nil, err
		}
		f.read += found[i][0].RawBytes
	}
	return f.segments[first], nil
}
