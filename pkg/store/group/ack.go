package group

import (
	"context"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"queen.internal/pkg/pg"
)

// Signal is what an ack says of one message, ordered by precedence at one offset.
type Signal int16

// The signals of contract/messages.md section 3.2.
const (
	Completed Signal = iota
	Retry
	Failed
	DeadLetter
)

// AckItem is one message of an ack. A nil Hash resolves to nothing.
type AckItem struct {
	Hash   *uuid.UUID
	Signal Signal
	Reason string
}

// AckGroup is the items of one call that share partition and lease; it is decided as one.
type AckGroup struct {
	Partition uuid.UUID
	Lease     *uuid.UUID // nil: lease-less; LeaseOnRecord, in a bundle: the one that the cursor has
	Items     []AckItem
}

// ItemOutcome is what an ack did with one item.
type ItemOutcome int16

// The outcomes of one item.
const (
	Applied          ItemOutcome = iota // took part in the decision
	Noop                                // completed again, below the cursor
	AlreadyCommitted                    // a nack below the cursor
	Unresolvable                        // in no message of the ack window
	StaleLease                          // the lease is not, or no longer, the live one
)

// GroupOutcome is what an ack did with a whole group.
type GroupOutcome int16

// The outcomes of a group. Only Decided carries item outcomes.
const (
	Decided          GroupOutcome = iota
	UnknownPartition              // no such partition of this tenant
	NoConsumer                    // the group has no cursor there
	DeadLetterLost                // the message to dead-letter can no longer be read; nothing changed
)

// AckResult is the decision on one group.
type AckResult struct {
	Outcome        GroupOutcome
	Items          []ItemOutcome
	LeaseReleased  bool
	DeadLettered   bool
	Committed      int64 // the cursor after the decision
	Last           int64 // highest offset of the partition, as of before the decision
	SubscriptionID int64
	PartitionID    int64
}

// The outcomes that ask for another call; Ack makes it.
const (
	offsetsNeeded  GroupOutcome = 3
	snapshotNeeded GroupOutcome = 4
)

// ackRounds bounds the calls of one Ack: a first one, one with offsets, one with a snapshot, and some for a cursor that
// moves in between.
const ackRounds = 8

const ackSQL = `SELECT place, outcome, item_outcomes, lease_released, dead_lettered, coalesce(subscription_id, 0), coalesce(partition_id, 0),
	coalesce(committed_offset, 0), coalesce(span_end, 0), coalesce(needed_offset, 0), coalesce(last_offset, -1)
FROM queen.ack($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16, $17, NULL, NULL, $18, $19)`

// Ack decides every group of one call, in the order given; no two groups may share partition and lease. All groups that
// need nothing from the log are decided in one transaction; one that must be resolved against its segments, because the
// hash rows are gone, or that dead-letters a message, is decided in a later one, in which the dead letter is filed too.
// Errors have a kind; then nothing is known of the groups, and repeating the call is safe.
func (s *Store) Ack(ctx context.Context, tenant uuid.UUID, groupName string, clock Bounds, groups []AckGroup) ([]AckResult, error) {
	results := make([]AckResult, len(groups))
	open := make([]*openGroup, len(groups))
	for i := range groups {
		open[i] = &openGroup{AckGroup: &groups[i], place: i}
	}
	for round := 0; len(open) > 0; round++ {
		answers, err := s.ackOnce(ctx, tenant, groupName, clock, open)
		if err != nil {
			return nil, pg.Wrap("ack", err)
		}
		var again []*openGroup
		for i := range answers {
			a := &answers[i]
			g := open[a.place-1]
			if a.Outcome == offsetsNeeded || a.Outcome == snapshotNeeded {
				lost, err := s.supply(ctx, g, a)
				if err != nil {
					return nil, err
				}
				if !lost && round < ackRounds {
					again = append(again, g)
					continue
				}
				a.AckResult = AckResult{Outcome: DeadLetterLost, SubscriptionID: a.SubscriptionID, PartitionID: a.PartitionID, Last: a.Last}
			}
			results[g.place] = a.AckResult
		}
		open = again
	}
	return results, nil
}

// answer is one row of the procedure.
type answer struct {
	AckResult
	place           int // 1-based, among the groups of the call
	spanEnd, needed int64
}

func (s *Store) ackOnce(ctx context.Context, tenant uuid.UUID, groupName string, clock Bounds, open []*openGroup) ([]answer, error) {
	p := newAckParams(len(open))
	for _, g := range open {
		p.add(g)
	}
	rows, err := s.pool.Query(ctx, ackSQL, optionalUUID(&tenant), groupName, optionalTime(clock.Cap), p.partitions, p.leases, p.counts,
		p.hashes, p.signals, p.offsets, p.spanCommitted, p.spanEnds,
		p.deadOffsets, p.deadIDs, p.deadCreated, p.deadTransactions, p.deadPayloads, p.deadReasons, optionalTime(clock.Floor), clock.Settled)
	if err != nil {
		return nil, err
	}
	return pgx.CollectRows(rows, func(row pgx.CollectableRow) (answer, error) {
		var a answer
		err := row.Scan(&a.place, &a.Outcome, &a.Items, &a.LeaseReleased, &a.DeadLettered, &a.SubscriptionID, &a.PartitionID,
			&a.Committed, &a.spanEnd, &a.needed, &a.Last)
		return a, err
	})
}
