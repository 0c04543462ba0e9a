package transaction

import (
	"github.com/google/uuid"

	"queen.internal/pkg/appendlog"
	"queen.internal/pkg/queue"
	"queen.internal/pkg/segment"
	"queen.internal/pkg/store/group"
	"queen.internal/pkg/wire"
	"queen.internal/services/deliver/internal/ack"
)

// plan is how one request is carried out.
type plan struct {
	operations []wire.Operation
	tx         appendlog.Transaction
	named      []uuid.UUID // every lease of the request
	failure    *wire.TransactionFailure

	cursors  []cursorKey // by operation: what an ack is about
	messages []int       // by operation: its message among tx.MessageIDs
	follows  []bool      // by operation: an earlier one brought the message
	owners   [][]int     // by group and message: the operation that brought it
}

func newPlan(tenant, id uuid.UUID, producer string, req *wire.Transaction) *plan {
	n := len(req.Operations)
	p := &plan{operations: req.Operations, messages: make([]int, n), follows: make([]bool, n)}
	p.tx.ID, p.tx.Tenant, p.tx.MessageIDs = id, tenant, []uuid.UUID{}
	p.push(tenant, producer)
	p.ack(req.RequiredLeases)
	return p
}

// messageKey is what deduplication inside a request compares.
type messageKey struct {
	group         int
	transactionID string
}

// push groups the messages by partition, in request order, and gives each its id. A message without a transaction id gets
// its own id's text as one.
func (p *plan) push(tenant uuid.UUID, producer string) {
	groups := make(map[appendlog.Key]int)
	seen := make(map[messageKey]int)
	for i := range p.operations {
		o := &p.operations[i]
		if o.IsAck {
			continue
		}
		key := appendlog.Key{Tenant: tenant, Queue: o.Push.Queue, Partition: o.Push.Partition}
		at, known := groups[key]
		if !known {
			at = len(p.tx.Groups)
			groups[key] = at
			p.tx.Groups = append(p.tx.Groups, appendlog.Group{Key: key})
			p.owners = append(p.owners, nil)
		}
		if first, ok := seen[messageKey{at, o.Push.TransactionID}]; ok && o.Push.TransactionID != "" {
			p.messages[i], p.follows[i] = first, true
			continue
		}
		m := segment.Message{
			ID: queue.NewID(), TransactionID: o.Push.TransactionID, TraceID: o.TraceID, ProducerSub: producer, Payload: o.Push.Payload,
		}
		if m.TransactionID == "" {
			m.TransactionID = m.ID.String() // new, so no other one can have it
		}
		p.messages[i] = len(p.tx.MessageIDs)
		seen[messageKey{at, m.TransactionID}] = p.messages[i]
		p.tx.MessageIDs = append(p.tx.MessageIDs, m.ID)
		g := &p.tx.Groups[at]
		g.Messages = append(g.Messages, m)
		p.owners[at] = append(p.owners[at], i)
	}
}

// cursorKey is a partition and a group, as clients name them.
type cursorKey struct {
	partition uuid.UUID
	group     string
}

type ackKey struct {
	cursorKey
	lease uuid.UUID // LeaseOnRecord for that one and, as no other lease can be, for none
}

// ack sorts the acks into the groups that are decided as one.
func (p *plan) ack(required []string) {
	cursors, leases := make([]cursorKey, len(p.operations)), make([]uuid.UUID, len(p.operations))
	p.cursors = cursors
	byCursor := make(map[cursorKey]uuid.UUID) // the first lease that an operation names
	for i := range p.operations {
		if !p.operations[i].IsAck || !p.address(i, &cursors[i], &leases[i]) {
			continue
		}
		if _, named := byCursor[cursors[i]]; !named && leases[i] != uuid.Nil {
			byCursor[cursors[i]] = leases[i]
		}
	}
	p.accept(required, leases)
	index := make(map[ackKey]int)
	for i := range p.operations {
		o := &p.operations[i]
		if !o.IsAck {
			continue
		}
		key := ackKey{cursors[i], leases[i]}
		if key.lease == uuid.Nil {
			key.lease = byCursor[cursors[i]]
		}
		at, known := index[key]
		if !known {
			at = len(p.tx.Acks)
			index[key] = at
			a := group.BundleAck{AckGroup: group.AckGroup{Partition: key.partition}, Group: o.Group}
			if key.lease != group.LeaseOnRecord || len(p.named) > 0 || p.tx.Accepted != nil {
				a.Lease = &key.lease
			}
			p.tx.Acks = append(p.tx.Acks, a)
		}
		a := &p.tx.Acks[at]
		a.Items = append(a.Items, ack.Item(&o.Ack))
		a.Places = append(a.Places, int32(i))
	}
}

// address reads what an ack is about. What cannot be a partition or a lease ends the transaction.
func (p *plan) address(i int, cursor *cursorKey, lease *uuid.UUID) bool {
	o := &p.operations[i]
	var err error
	cursor.group = o.Group
	if cursor.partition, err = uuid.Parse(o.Ack.PartitionID); err != nil {
		p.reject(i, ack.NoPartition(o.Ack.PartitionID))
		return false
	}
	if o.Ack.LeaseID == "" {
		return true
	}
	if *lease, err = uuid.Parse(o.Ack.LeaseID); err != nil || *lease == uuid.Nil {
		p.reject(i, ack.StaleLease) // nobody was ever given it
		return false
	}
	return true
}

func (p *plan) reject(operation int, why string) {
	if p.failure == nil {
		p.failure = rejected(operation, why)
	}
}

// accept collects the leases that the request names. When it requires some, the others on record do not count.
func (p *plan) accept(required []string, given []uuid.UUID) {
	for _, lease := range given {
		if lease != uuid.Nil {
			p.named = append(p.named, lease)
		}
	}
	for _, text := range required {
		if lease, err := uuid.Parse(text); err == nil && lease != uuid.Nil {
			p.named = append(p.named, lease)
		}
	}
	if len(required) > 0 {
		p.tx.Accepted = append([]uuid.UUID{}, p.named...)
	}
}
