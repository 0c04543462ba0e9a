package httpapi

import (
	"errors"

	"github.com/google/uuid"

	"queen.internal/pkg/appendlog"
	"queen.internal/pkg/queue"
	"queen.internal/pkg/segment"
	"queen.internal/pkg/wire"
	"queen.internal/services/ingest/internal/outage"
	"queen.internal/services/ingest/internal/sealing"
)

// plan is how one request is stored: its items by partition, repeated keys left out.
type plan struct {
	items  []wire.PushItem
	places []place // by item
	groups []appendlog.Group
}

// place is the message that answers for an item. A follower repeats a key of the request: the item that brought it first
// is stored, or not, for both.
type place struct {
	group, message int
	follower       bool
}

// messageKey is what deduplication inside a request compares.
type messageKey struct {
	group         int
	transactionID string
}

// newPlan groups items by queue and partition, in request order, and gives each its message id. An item without a
// transaction id gets the message id's text. producer, who pushes as far as a verified token says, is noted in all of
// them; what the items themselves say about that never counts.
func newPlan(tenant uuid.UUID, producer string, items []wire.PushItem) *plan {
	p := &plan{items: items, places: make([]place, len(items))}
	p.group(tenant)
	var seen map[messageKey]int
	if len(items) > 1 {
		seen = make(map[messageKey]int, len(items))
	}
	for i := range items {
		item, at := &items[i], &p.places[i]
		g := &p.groups[at.group]
		key := messageKey{at.group, item.TransactionID}
		if item.TransactionID != "" {
			if first, ok := seen[key]; ok {
				at.message, at.follower = first, true
				continue
			}
		}
		at.message = len(g.Messages)
		m := segment.Message{ID: queue.NewID(), TransactionID: item.TransactionID, ProducerSub: producer, Payload: item.Payload}
		if m.TransactionID == "" {
			m.TransactionID = m.ID.String() // new, so no other item can have it
		} else if seen != nil {
			seen[key] = at.message
		}
		g.Messages = append(g.Messages, m)
	}
	return p
}

// group gives every item its group, and every group room for its items in one shared array.
func (p *plan) group(tenant uuid.UUID) {
	var (
		index  map[appendlog.Key]int
		counts []int
		last   appendlog.Key // items of one partition mostly stand together
		at     int
	)
	for i := range p.items {
		key := appendlog.Key{Tenant: tenant, Queue: p.items[i].Queue, Partition: p.items[i].Partition}
		if i == 0 || key != last {
			known := false
			if at, known = index[key]; !known {
				if index == nil {
					index = make(map[appendlog.Key]int)
				}
				at = len(p.groups)
				index[key] = at
				p.groups = append(p.groups, appendlog.Group{Key: key})
				counts = append(counts, 0)
			}
			last = key
		}
		p.places[i].group = at
		counts[at]++
	}
	room := make([]segment.Message, len(p.items))
	for i, n := range counts {
		p.groups[i].Messages = room[:0:n]
		room = room[n:]
	}
}

// results gives every item its answer. The error says that no group was stored; it is the one a client can do most with.
// When that would be to configure queue or server, or to make room on a disk, the items say so instead.
func (p *plan) results(outcomes []appendlog.Result) ([]wire.PushResult, error) {
	stored, errs := 0, make([]error, len(outcomes))
	for i := range outcomes {
		if errs[i] = outcomes[i].Err; !errors.Is(errs[i], outage.ErrMaintenance) { // that is nobody's fault
			errs[i] = explained("take the push", errs[i])
		}
		if errs[i] == nil {
			stored++
		}
	}
	if stored == 0 {
		if err := worst(errs); !errors.Is(err, sealing.ErrNoKey) && !errors.Is(err, outage.ErrNotSpooled) {
			return nil, err
		}
	}
	results := make([]wire.PushResult, len(p.items))
	for i := range p.items {
		at := p.places[i]
		message := &p.groups[at.group].Messages[at.message]
		r := wire.PushResult{MessageID: message.ID, TransactionID: message.TransactionID, Queue: p.items[i].Queue}
		if err := errs[at.group]; err != nil {
			r.Status, r.Error = wire.Failed, clientText(err)
		} else {
			outcome := outcomes[at.group].Outcomes[at.message]
			r.MessageID, r.Status = outcome.MessageID, wire.Queued
			switch {
			case outcome.Buffered: // a follower is as little in the log as its leader
				r.Status = wire.Buffered
			case outcome.Duplicate || at.follower:
				r.Status = wire.Duplicate
			}
		}
		results[i] = r
	}
	return results, nil
}
