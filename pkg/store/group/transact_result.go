package group

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5"

	"queen.internal/pkg/store/log"
)

// The parts of what transact answers.
const (
	bundlePart = iota
	appendPart
	ackPart
)

// bundleRow is one row of the procedure.
type bundleRow struct {
	part, outcome int16
	partition     int64
	placed        log.Placed
	ack           answer
	record        BundleRecord
}

func scanBundle(row pgx.CollectableRow) (bundleRow, error) {
	var r bundleRow
	var created *time.Time
	a, p, k := &r.ack, &r.placed, &r.record
	err := row.Scan(&r.part, &r.outcome, &a.place, &r.partition, &p.Base, &created, &p.Positions, &p.Originals, &a.Items,
		&a.LeaseReleased, &a.DeadLettered, &a.SubscriptionID, &a.Committed, &a.spanEnd, &a.needed,
		&k.Fingerprint, &k.MessageIDs, &k.AckPlaces, &k.AckOutcomes, &k.AckDead, &k.Partitions, &k.LastOffsets,
		&k.FreedSubscriptions, &k.FreedPartitions, &p.Previous)
	if created != nil {
		p.CreatedAt = *created
	}
	return r, err
}

func newBundleResult(rows []bundleRow, acks int) BundleResult {
	result := BundleResult{Acks: make([]AckResult, acks)}
	for i := range rows {
		r := &rows[i]
		switch r.part {
		case bundlePart:
			result.State = BundleState(r.outcome)
			result.Record = r.record
		case appendPart:
			r.placed.Partition, r.placed.Verdict = r.partition, log.Verdict(r.outcome)
			result.Placed = append(result.Placed, r.placed)
		case ackPart:
			r.ack.PartitionID, r.ack.Outcome = r.partition, GroupOutcome(r.outcome)
			result.Acks[r.ack.place-1] = r.ack.AckResult
			if r.ack.Outcome == offsetsNeeded || r.ack.Outcome == snapshotNeeded {
				result.needs = append(result.needs, r.ack)
			}
		}
	}
	return result
}

// Refused says that an ack of an undone bundle is why; the append was not tried then.
func (r *BundleResult) Refused() bool {
	for i := range r.Acks {
		if r.Acks[i].refuses() {
			return true
		}
	}
	return false
}

// refuses says that a bundle cannot go with this decision.
func (r *AckResult) refuses() bool {
	if r.Outcome != Decided {
		return true
	}
	for _, outcome := range r.Items {
		if outcome == Unresolvable || outcome == StaleLease {
			return true
		}
	}
	return false
}

// Supply reads from the log what the acks of an undone bundle asked for, so that the bundle can be sent again; supplied is
// false when they asked for nothing. A dead letter that can no longer be read is noted in r, as DeadLetterLost, and is not
// asked for again. Errors have a kind.
func (s *Store) Supply(ctx context.Context, b *Bundle, r *BundleResult) (supplied bool, err error) {
	for i := range r.needs {
		a := &r.needs[i]
		lost, err := s.supply(ctx, b.open[a.place-1], a)
		if err != nil {
			return false, err
		}
		if lost {
			for j := range r.needs { // they are not to blame
				r.Acks[r.needs[j].place-1] = AckResult{}
			}
			r.Acks[a.place-1].Outcome = DeadLetterLost
			return false, nil
		}
		supplied = true
	}
	return supplied, nil
}
