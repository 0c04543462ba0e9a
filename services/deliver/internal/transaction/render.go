package transaction

import (
	"fmt"

	"queen.internal/pkg/appendlog"
	"queen.internal/pkg/store/group"
	"queen.internal/pkg/wire"
	"queen.internal/services/deliver/internal/ack"
)

// results says what became of each operation of a transaction that was committed.
func (p *plan) results(record *group.BundleRecord) []wire.OperationResult {
	results := make([]wire.OperationResult, len(p.operations))
	for i := range p.operations {
		o := &p.operations[i]
		if o.IsAck {
			results[i] = wire.OperationResult{IsAck: true, TransactionID: o.Ack.TransactionID}
			continue
		}
		id := record.MessageIDs[p.messages[i]] // of a repetition, the first attempt's
		results[i] = wire.OperationResult{TransactionID: o.Push.TransactionID, MessageID: id, Queue: o.Push.Queue, Duplicate: p.follows[i]}
		if o.Push.TransactionID == "" {
			results[i].TransactionID = id.String()
		}
	}
	for i, a := range p.acked(record) {
		results[record.AckPlaces[i]].Error = a.Error
		results[record.AckPlaces[i]].DeadLettered = a.DeadLettered
	}
	return results
}

// acked is what became of the acks, in the order of the record. When one message of a partition and group became a dead
// letter, all acks there say so.
func (p *plan) acked(record *group.BundleRecord) []wire.AckResult {
	dead := make(map[cursorKey]bool)
	for i, place := range record.AckPlaces {
		if record.AckDead[i] {
			dead[p.cursors[place]] = true
		}
	}
	acks := make([]wire.AckResult, len(record.AckPlaces))
	for i, outcome := range record.AckOutcomes {
		acks[i] = wire.AckResult{
			Error: ack.ItemError(outcome), Noop: outcome == group.Noop, DeadLettered: dead[p.cursors[record.AckPlaces[i]]],
		}
	}
	return acks
}

// refused is the first ack that could not be carried out.
func (p *plan) refused(acks []group.AckResult) *wire.TransactionFailure {
	failure := rejected(-1, ack.GroupError(group.NoConsumer))
	first := len(p.operations)
	for i := range acks {
		for j, place := range p.tx.Acks[i].Places {
			why := ack.GroupError(acks[i].Outcome)
			unknown := false
			if acks[i].Outcome == group.Decided && acks[i].Items != nil {
				unknown = acks[i].Items[j] == group.Unresolvable
				if acks[i].Items[j] == group.StaleLease {
					why = ack.StaleLease
				}
			}
			if int(place) >= first || why == "" && !unknown {
				continue
			}
			first = int(place)
			failure = rejected(first, why)
			if unknown {
				failure.Error = "QTXN ack references unknown transactionId" + rolledBack
			}
		}
	}
	return failure
}

func (p *plan) duplicates(found []appendlog.Duplicate) *wire.TransactionFailure {
	failure := &wire.TransactionFailure{Reason: wire.ReasonDuplicate}
	for i, d := range found {
		g := &p.tx.Groups[d.Group]
		duplicate := wire.TransactionDuplicate{
			Index: p.owners[d.Group][d.Message], TransactionID: g.Messages[d.Message].TransactionID, MessageID: d.Original,
		}
		failure.Duplicates = append(failure.Duplicates, duplicate)
		if i == 0 || duplicate.Index < failure.Index {
			failure.Index = duplicate.Index
			failure.Error = fmt.Sprintf("QDUP duplicate transactionId %q in queue %q, partition %q", duplicate.TransactionID, g.Key.Queue, g.Key.Partition) +
				rolledBack
		}
	}
	return failure
}

func (p *plan) noKey(g int) *wire.TransactionFailure {
	return &wire.TransactionFailure{
		Error: fmt.Sprintf("QTXN queue %q has encryption on and this server has no key (QUEEN_ENCRYPTION_KEY)", p.tx.Groups[g].Key.Queue) + rolledBack,
		Index: p.owners[g][0], Reason: wire.ReasonNoKey,
	}
}
