package group

import (
	"time"

	"github.com/google/uuid"
)

// ackParams is the arrays of one call: one element per group, and one per item of all groups one after the other.
type ackParams struct {
	groups                  []string // only for transact
	partitions, leases      uuids
	counts                  []int32
	hashes                  uuids
	signals                 []Signal
	offsets                 []*int64
	spanCommitted, spanEnds []*int64
	deadOffsets             []*int64
	deadIDs                 uuids
	deadCreated             []*time.Time
	deadTransactions        []*string
	deadPayloads            [][]byte
	deadReasons             []*string
}

// newAckParams returns params with room for n groups. No array is nil, which would be NULL.
func newAckParams(n int) *ackParams {
	return &ackParams{
		groups: make([]string, 0, n), partitions: make(uuids, 0, n), leases: make(uuids, 0, n), counts: make([]int32, 0, n),
		hashes: make(uuids, 0, n), signals: make([]Signal, 0, n), offsets: make([]*int64, 0, n),
		spanCommitted: make([]*int64, 0, n), spanEnds: make([]*int64, 0, n),
		deadOffsets: make([]*int64, 0, n), deadIDs: make(uuids, 0, n), deadCreated: make([]*time.Time, 0, n),
		deadTransactions: make([]*string, 0, n), deadPayloads: make([][]byte, 0, n), deadReasons: make([]*string, 0, n),
	}
}

func (p *ackParams) add(g *openGroup) {
	p.partitions = append(p.partitions, optionalUUID(&g.Partition))
	p.leases = append(p.leases, optionalUUID(g.Lease))
	p.counts = append(p.counts, int32(len(g.Items)))
	for i := range g.Items {
		p.hashes = append(p.hashes, optionalUUID(g.Items[i].Hash))
		p.signals = append(p.signals, g.Items[i].Signal)
	}
	if g.offsets != nil {
		p.offsets = append(p.offsets, g.offsets...)
		p.spanCommitted, p.spanEnds = append(p.spanCommitted, &g.spanCommitted), append(p.spanEnds, &g.spanEnd)
	} else {
		p.offsets = append(p.offsets, make([]*int64, len(g.Items))...)
		p.spanCommitted, p.spanEnds = append(p.spanCommitted, nil), append(p.spanEnds, nil)
	}
	p.addSnapshot(g.dead)
}

func (p *ackParams) addSnapshot(dead *snapshot) {
	var offset *int64
	var id *uuid.UUID
	var created *time.Time
	var transaction, reason *string
	var payload []byte
	if dead != nil {
		offset, id, created = &dead.offset, &dead.message.ID, &dead.createdAt
		transaction, reason, payload = &dead.message.TransactionID, &dead.reason, stored(dead.message.Payload)
	}
	p.deadOffsets = append(p.deadOffsets, offset)
	p.deadIDs = append(p.deadIDs, optionalUUID(id))
	p.deadCreated = append(p.deadCreated, created)
	p.deadTransactions = append(p.deadTransactions, transaction)
	p.deadPayloads = append(p.deadPayloads, payload)
	p.deadReasons = append(p.deadReasons, reason)
}
