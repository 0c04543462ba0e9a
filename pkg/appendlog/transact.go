package appendlog

import (
	"context"
	"fmt"

	"github.com/google/uuid"

	"queen.internal/pkg/pg"
	"queen.internal/pkg/queue"
	"queen.internal/pkg/store/group"
	"queen.internal/pkg/store/log"
)

// maxRounds bounds the calls of one transaction that are answered: some that ask for offsets and snapshots of acks, some
// that meet a queue which is deleted and created again.
const maxRounds = 12

// Transaction is acks and messages that are committed together or not at all.
type Transaction struct {
	ID          uuid.UUID // the same one is carried out once, however often it comes
	Tenant      uuid.UUID
	Fingerprint []byte      // of what was asked for, kept with the outcome
	MessageIDs  []uuid.UUID // of all messages, in the order of the request, kept with the outcome
	Groups      []Group     // distinct keys, none empty
	Acks        []group.BundleAck
	Accepted    []uuid.UUID         // as in group.Bundle
	Clock       func() group.Bounds // of each call
}

// Transacted is what became of a transaction. It was committed when there is a record, by this call or, Repeated, by an
// earlier one with the same id, whose record it is then: its messages have the ids that it had. Otherwise nothing of it
// happened, except that queues and partitions may have been created, and one of the other fields says why.
type Transacted struct {
	Record   *group.BundleRecord
	Repeated bool

	Acks       []group.AckResult // as in the transaction; nil: they were no reason
	Duplicates []Duplicate
	MustSeal   []int // the groups whose queue takes encrypted payloads only, none of which is sealed
}

// Duplicate is a message whose transaction id stands in its partition. The id of an original that can no longer be read is
// all zero.
type Duplicate struct {
	Group, Message int
	Original       uuid.UUID
}

// Transact carries out t. acks is where the acks are decided, on a pool of the same database. Errors have a kind; with one
// of kind Unknown the transaction may have been committed, and the same call again tells. With any other one it was not.
func (l *Log) Transact(ctx context.Context, acks *group.Store, t *Transaction) (Transacted, error) {
	b := newBundle(l, acks, t)
	defer func() { l.tell(b.created) }()
	for range maxRounds {
		if err := b.locate(ctx); err != nil {
			return Transacted{}, err
		}
		result, err := b.send(ctx)
		if err != nil {
			return Transacted{}, err
		}
		switch result.State {
		case group.Committed, group.FoundCommitted:
			b.committed(ctx, &result)
			return Transacted{Record: &result.Record, Repeated: result.State == group.FoundCommitted}, nil
		case group.Undone:
			if outcome, done, err := b.undone(ctx, &result); done || err != nil {
				return outcome, err
			}
		default:
			return Transacted{}, fmt.Errorf("transact: state %d is not known to this version", result.State)
		}
	}
	return Transacted{}, queue.Unavailable("what the transaction refers to changes all the time", pg.RetryAfter,
		fmt.Errorf("transact: not decided after %d calls", maxRounds))
}

// undone finds out why nothing happened. It is not done when the bundle, with what it has learnt, should be sent again.
func (b *bundle) undone(ctx context.Context, result *group.BundleResult) (outcome Transacted, done bool, err error) {
	if result.Refused() {
		supplied, err := b.supply(ctx, result)
		return Transacted{Acks: result.Acks}, !supplied, err
	}
	verdicts := make(map[int64]*log.Placed, len(result.Placed))
	for i := range result.Placed {
		verdicts[result.Placed[i].Partition] = &result.Placed[i]
	}
	var repeated, gone []*pending
	for _, p := range b.open {
		v := verdicts[p.partition.ID]
		switch {
		case v == nil, v.Verdict == log.Gone:
			gone = append(gone, p)
		case v.Verdict == log.Duplicates:
			repeated = append(repeated, p)
		case v.Verdict == log.MustSeal:
			outcome.MustSeal = append(outcome.MustSeal, p.group)
		case v.Verdict != log.Appended:
			return Transacted{}, true, fmt.Errorf("transact: verdict %d is not known to this version", v.Verdict)
		}
	}
	switch {
	case len(repeated) > 0:
		outcome.Duplicates, err = b.duplicates(ctx, repeated, verdicts)
		return Transacted{Duplicates: outcome.Duplicates}, true, err
	case len(outcome.MustSeal) > 0:
		return outcome, true, nil
	case len(gone) == 0:
		return Transacted{}, true, fmt.Errorf("transact: undone without a reason")
	}
	for _, p := range gone {
		b.log.ids.Remove(p.key)
		p.partition = log.Partition{}
	}
	return Transacted{}, false, nil
}

func (b *bundle) duplicates(ctx context.Context, repeated []*pending, verdicts map[int64]*log.Placed) ([]Duplicate, error) {
	var found []Duplicate
	var spans []log.Span
	for _, p := range repeated {
		v := verdicts[p.partition.ID]
		for i, position := range v.Positions {
			found = append(found, Duplicate{Group: p.group, Message: int(position) - 1})
			spans = append(spans, log.Span{Partition: p.partition.ID, First: v.Originals[i], Last: v.Originals[i]})
		}
	}
	ids, err := b.log.originals(ctx, spans)
	if err != nil {
		return nil, err
	}
	for i := range found {
		found[i].Original = ids[i]
	}
	return found, nil
}
