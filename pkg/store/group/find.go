package group

import (
	"context"
	"math"
	"time"

	"github.com/jackc/pgx/v5"

	"queen.internal/pkg/pg"
)

// writeStep is how exactly the database's index knows when a partition was written.
const writeStep = 15 * time.Second

// Position is how far a walk over a queue's partitions has come. The zero value is the beginning of a walk over all of
// them, WrittenSince of one over those written lately.
type Position struct {
	Slot  time.Time // the step of writing reached; zero in a walk over all
	After int64     // the last partition of the step, or of all
}

// WrittenSince is the beginning of a walk over the partitions written at that time, by the database's clock, or later.
func WrittenSince(t time.Time) Position {
	return Position{Slot: t.Add(-writeStep), After: math.MaxInt64}
}

// Everywhere says whether this is a walk over all partitions.
func (p Position) Everywhere() bool { return p.Slot.IsZero() }

// Before moves a walk over all back to in front of a partition.
func (p Position) Before(partition int64) Position {
	return Position{Slot: p.Slot, After: partition - 1}
}

// Search is what is asked about one group.
type Search struct {
	Subscription Ref
	From         Position
	Since        time.Time // in a walk over partitions written lately: those last written before are passed over
	Known        []int64   // partitions to look at besides
}

// Candidate is a partition in which the group may find work: at Until, by the database's clock, when a lease ends; at once
// where Until is zero.
type Candidate struct {
	Partition int64
	Until     time.Time
}

// Found is the answer to one Search.
type Found struct {
	Gone       bool // the subscription or its queue no longer exists
	Candidates []Candidate
	To         Position // to go on from
	End        bool     // nothing is behind it
	Paused     bool     // deliveries are stopped: nothing was looked for
	Moves      int64    // how often the group's cursors have been moved to where no write and no lease leads
}

// Snapshot is the state of the database in which an answer is true: every transaction below Oldest has ended and is in it,
// every one from Next on got its number after Asked.
type Snapshot struct {
	Clock, Asked time.Time
	Oldest, Next int64
}

const findSQL = `SELECT place, partition_id, until, slot, after, walked, moves, paused, clock, asked, oldest, next
FROM queen.find_candidates($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11)`

// Find looks for work of many groups, in one call; limit bounds the partitions it walks for each. The answers are in the
// order of searches, all true in one snapshot. Errors have a kind.
func (s *Store) Find(ctx context.Context, searches []Search, limit int, clock Bounds) ([]Found, Snapshot, error) {
	p := newFindParams(searches)
	rows, err := s.pool.Query(ctx, findSQL, p.subscriptions, p.uids, p.since, p.slots, p.afters, limit, p.places, p.known, optionalTime(clock.Cap), optionalTime(clock.Floor), clock.Settled)
	if err != nil {
		return nil, Snapshot{}, pg.Wrap("find candidates", err)
	}
	found, snapshot := make([]Found, len(searches)), Snapshot{}
	for i := range found {
		found[i].Gone = true
	}
	var row findRow
	_, err = pgx.ForEachRow(rows, row.targets(), func() error {
		switch {
		case row.place == 0:
			snapshot = Snapshot{Clock: *row.clock, Asked: *row.asked, Oldest: *row.oldest, Next: *row.next}
		case row.partition == nil:
			f := &found[row.place-1]
			f.Gone, f.End, f.Moves, f.Paused, f.To.After = false, *row.walked < int64(limit), *row.moves, *row.paused, *row.after
			if row.slot != nil {
				f.To.Slot = *row.slot
			}
		default:
			f, c := &found[row.place-1], Candidate{Partition: *row.partition}
			if row.until != nil {
				c.Until = *row.until
			}
			f.Candidates = append(f.Candidates, c)
		}
		return nil
	})
	return found, snapshot, pg.Wrap("find candidates", err)
}

// findRow is one row of the answer.
type findRow struct {
	paused                          *bool
	place                           int
	partition, after, walked, moves *int64
	oldest, next                    *int64
	until, slot, clock, asked       *time.Time
}

func (r *findRow) targets() []any {
	return []any{&r.place, &r.partition, &r.until, &r.slot, &r.after, &r.walked, &r.moves, &r.paused, &r.clock, &r.asked, &r.oldest, &r.next}
}

// findParams is the arrays of one call.
type findParams struct {
	subscriptions []int64
	uids          uuids
	since, slots  []*time.Time
	afters        []int64
	places        []int32
	known         []int64
}

func newFindParams(searches []Search) findParams {
	var p findParams
	for i := range searches {
		search := &searches[i]
		p.subscriptions = append(p.subscriptions, search.Subscription.ID)
		p.uids = append(p.uids, optionalUUID(&search.Subscription.UID))
		p.since = append(p.since, optionalTime(search.Since))
		p.slots = append(p.slots, optionalTime(search.From.Slot))
		p.afters = append(p.afters, search.From.After)
		for _, partition := range search.Known {
			p.places, p.known = append(p.places, int32(i+1)), append(p.known, partition)
		}
	}
	return p
}
