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

// The procedure's own codes for what Claim turns into Took with Alone, into Alone and into Paused, and for what Finish does.
const (
	tookAlone Verdict = 8
	waits     Verdict = 9
	stopped   Verdict = 10
	unborn    Verdict = 11
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
	Clock         Bounds
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
	Segments      []SegmentName // that hold a taken span, in their order
}

// SegmentName is how a segment of a known partition is named for ever: after a failover that lost it, another may have its
// base, none its tag.
type SegmentName struct{ Base, Tag int64 }

// ClaimResult is every verdict, by ascending partition, and the database clock the procedure read.
type ClaimResult struct {
	Claims []Claim
	Clock  time.Time
	Err    error // why heads stay Exhausted; the other verdicts hold
}

const claimSQL = `SELECT partition_id, verdict, coalesce(first_offset, 0), coalesce(last_offset, 0), coalesce(attempt, 0),
	until, partition_uid, coalesce(partition_name, ''), clock, segment_bases, segment_tags
FROM queen.claim($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, true, true, true, $12, $13)`

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
	return s.finish(ctx, &req, result)
}

// finish files the heads that a claim found exhausted as dead letters, and claims what is behind them.
func (s *Store) finish(ctx context.Context, req *ClaimRequest, result ClaimResult) (ClaimResult, error) {
	for round := 1; ; round++ {
		due := with(result.Claims, Exhausted)
		if len(due) == 0 || round == claimRounds {
			return result, nil
		}
		if err := s.deadLetter(ctx, req, due); err != nil {
			result.Err = err
			return result, nil
		}
		// Whoever decided them, they are not what they were: not tried.
		tried := take(&result, Exhausted)
		if len(with(result.Claims, Took)) > 0 {
			return result, nil
		}
		again := *req
		again.Partitions = tried
		more, err := s.claimOnce(ctx, &again)
		if err != nil {
			if len(result.Claims) == 0 {
				return ClaimResult{}, pg.Wrap("claim", err)
			}
			return result, nil // what was not tried is tried again
		}
		result.merge(more)
	}
}

// merge adds what a later claim of the same pop found.
func (r *ClaimResult) merge(more ClaimResult) {
	r.Claims, r.Clock = append(r.Claims, more.Claims...), more.Clock
	slices.SortFunc(r.Claims, func(a, b Claim) int { return cmp.Compare(a.PartitionID, b.PartitionID) })
}

// take removes the claims with a verdict and returns their partitions: whatever they were, they are not tried.
func take(r *ClaimResult, verdict Verdict) (partitions []int64) {
	r.Claims = slices.DeleteFunc(r.Claims, func(c Claim) bool {
		if c.Verdict == verdict {
			partitions = append(partitions, c.PartitionID)
		}
		return c.Verdict == verdict
	})
	return partitions
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
		req.Batch, optionalInt(req.MaxPartitions), req.MaxBytes, req.AutoAck, optionalTime(req.Clock.Cap), req.AtLeastOne, optionalTime(req.Clock.Floor), req.Clock.Settled)
	if err != nil {
		return ClaimResult{}, err
	}
	var result ClaimResult
	var row claimRow
	_, err = pgx.ForEachRow(rows, row.targets(), func() error {
		result.add(&row)
		return nil
	})
	return result, err
}

// claimRow is one row of the procedure, read again and again.
type claimRow struct {
	claim       Claim
	until       *time.Time
	uid         *uuid.UUID
	clock       *time.Time
	bases, tags []int64
}

func (r *claimRow) targets() []any {
	c := &r.claim
	return []any{&c.PartitionID, &c.Verdict, &c.First, &c.Last, &c.Attempt, &r.until, &r.uid, &c.PartitionName, &r.clock, &r.bases, &r.tags}
}

// add adds the claim that row says.
func (r *ClaimResult) add(row *claimRow) {
	c := row.claim
	if row.until != nil {
		c.Until = *row.until
	}
	if row.uid != nil {
		c.PartitionUUID = *row.uid
	}
	for i := range row.bases {
		c.Segments = append(c.Segments, SegmentName{Base: row.bases[i], Tag: row.tags[i]})
	}
	switch c.Verdict {
	case tookAlone:
		c.Verdict, c.Alone = Took, true
	case waits:
		c.Verdict, c.First = Alone, 0
	case stopped:
		c.Verdict = Paused
	}
	r.Claims, r.Clock = append(r.Claims, c), *row.clock
}
