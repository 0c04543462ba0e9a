package group

import (
	"cmp"
	"context"
	"slices"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"queen.internal/pkg/pg"
)

// Verdict is what a claim found at one candidate.
type Verdict int16

// The verdicts of a claim. Candidates that were not tried are absent from the answer.
const (
	Took      Verdict = iota + 1 // leased (or, with AutoAck, consumed) the span First..Last
	Empty                        // nothing past the cursor
	Leased                       // another lease is live; Until says until when
	Busy                         // another transaction holds the row now
	Deferred                     // delayed processing or a window buffer hides the head; Until says until when
	Gone                         // the partition, the queue or the subscription no longer exists
	Exhausted                    // the head is due for the dead letters and could not be filed now; see ClaimResult.Err
	Alone                        // the head must be delivered alone, and this pop has others already
	Paused                       // deliveries of the queue, or to the group, are stopped
)

// The procedure's own codes for what Claim turns into Took with Alone, into Alone and into Paused.
const (
	tookAlone Verdict = 8
	waits     Verdict = 9
	stopped   Verdict = 10
)

// ClaimRequest is one pop's wish. LeaseSeconds 0 takes the queue's lease time.
type ClaimRequest struct {
	Subscription  Ref
	Partitions    []int64 // candidates, tried in ascending order
	Lease         uuid.UUID
	LeaseSeconds  int
	Batch         int  // message budget of the call, at least 1
	MaxPartitions int  // 0: no cap
	MaxBytes      int  // payload budget before compression
	AtLeastOne    bool // the pop has no message yet: give the first whatever its size
	AutoAck       bool
	ClockCap      time.Time // latest time the caller believes the database can show; zero: none
}

// Claim is the verdict on one candidate.
type Claim struct {
	PartitionID   int64
	Verdict       Verdict
	First, Last   int64 // offsets, both inclusive, of a taken span
	Attempt       int   // 1 on fresh work
	Alone         bool  // the queue's delivery limit wants that nothing is added to the pop
	Until         time.Time
	PartitionUUID uuid.UUID
	PartitionName string
}

// ClaimResult is every verdict, by ascending partition, and the database clock the procedure read.
type ClaimResult struct {
	Claims []Claim
	Clock  time.Time
	Err    error // why heads stay Exhausted; the other verdicts hold
}

const claimSQL = `SELECT partition_id, verdict, coalesce(first_offset, 0), coalesce(last_offset, 0), coalesce(attempt, 0),
	until, partition_uid, coalesce(partition_name, ''), clock
FROM queen.claim($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, true, true)`

// claimRounds bounds the calls of one Claim: others may make more heads due meanwhile.
const claimRounds = 4

// Claim leases spans for one pop, in one transaction of one server call. Where heads have used up the queue's delivery
// limit it files them as dead letters, which takes two calls more, and claims what is behind them if it has nothing else.
// When an answer is lost, whatever was leased comes back by expiry. Errors have a kind; nothing is leased then, unless the
// answer was lost.
func (s *Store) Claim(ctx context.Context, req ClaimRequest) (ClaimResult, error) {
	result, err := s.claimOnce(ctx, &req)
	if err != nil {
		return ClaimResult{}, pg.Wrap("claim", err)
	}
	for round := 1; ; round++ {
		due := with(result.Claims, Exhausted)
		if len(due) == 0 || round == claimRounds {
			return result, nil
		}
		if err := s.deadLetter(ctx, &req, due); err != nil {
			result.Err = err
			return result, nil
		}
		// Whoever decided them, they are not what they were: not tried.
		result.Claims = slices.DeleteFunc(result.Claims, func(c Claim) bool { return c.Verdict == Exhausted })
		if len(with(result.Claims, Took)) > 0 {
			return result, nil
		}
		again := req
		again.Partitions = make([]int64, len(due))
		for i := range due {
			again.Partitions[i] = due[i].PartitionID
		}
		more, err := s.claimOnce(ctx, &again)
		if err != nil {
			if len(result.Claims) == 0 {
				return ClaimResult{}, pg.Wrap("claim", err)
			}
			return result, nil // what was not tried is tried again
		}
		result.Claims, result.Clock = append(result.Claims, more.Claims...), more.Clock
		slices.SortFunc(result.Claims, func(a, b Claim) int { return cmp.Compare(a.PartitionID, b.PartitionID) })
	}
}

func with(claims []Claim, verdict Verdict) []Claim {
	var found []Claim
	for i := range claims {
		if claims[i].Verdict == verdict {
			found = append(found, claims[i])
		}
	}
	return found
}

func (s *Store) claimOnce(ctx context.Context, req *ClaimRequest) (ClaimResult, error) {
	rows, err := s.pool.Query(ctx, claimSQL, req.Subscription.ID, optionalUUID(&req.Subscription.UID), req.Partitions, optionalUUID(&req.Lease), optionalInt(req.LeaseSeconds),
		req.Batch, optionalInt(req.MaxPartitions), req.MaxBytes, req.AutoAck, optionalTime(req.ClockCap), req.AtLeastOne)
	if err != nil {
		return ClaimResult{}, err
	}
	var result ClaimResult
	result.Claims, err = pgx.CollectRows(rows, func(row pgx.CollectableRow) (Claim, error) {
		var c Claim
		var until *time.Time
		var id *uuid.UUID
		err := row.Scan(&c.PartitionID, &c.Verdict, &c.First, &c.Last, &c.Attempt, &until, &id, &c.PartitionName, &result.Clock)
		if until != nil {
			c.Until = *until
		}
		if id != nil {
			c.PartitionUUID = *id
		}
		switch c.Verdict {
		case tookAlone:
			c.Verdict, c.Alone = Took, true
		case waits:
			c.Verdict, c.First = Alone, 0
		case stopped:
			c.Verdict = Paused
		}
		return c, err
	})
	return result, err
}
