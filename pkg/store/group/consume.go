package group

import (
	"context"
	"errors"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"queen.internal/pkg/pg"
)

// Completion is a lease that an ack ends by completing all of its span, First to Last, on one cursor.
type Completion struct {
	Tenant      uuid.UUID
	Cursor      LeaseKey
	Partition   uuid.UUID
	Lease       uuid.UUID
	First, Last int64
}

// CompletionOutcome is what became of a completion.
type CompletionOutcome int8

// What becomes of a completion.
const (
	Undecided  CompletionOutcome = iota // nothing was changed: Ack decides it
	Finished                            // the lease has ended, and nothing is left in the partition for the group
	LeftBehind                          // the lease has ended, and there is more in the partition
)

// Consumed is the answer to one call, in the order of what it was asked.
type Consumed struct {
	Completions []CompletionOutcome
	Claims      []ClaimResult
}

const consumeSQL = `SELECT part, place, coalesce(partition_id, 0), verdict, coalesce(first_offset, 0), coalesce(last_offset, 0), coalesce(attempt, 0),
	until, partition_uid, coalesce(partition_name, ''), clock, segment_bases, segment_tags
FROM queen.consume($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16, $17, $18, $19, $20, $21)`

// Consume ends leases and makes claims in one transaction of one server call, which waits for no lock. All claims have
// clock in place of their own, and their answers are finished by Finish. The error is the driver's, not yet of a kind.
func (s *Store) Consume(ctx context.Context, clock Bounds, completions []Completion, claims []*ClaimRequest) (Consumed, error) {
	d, c := newCompletionParams(completions), newClaimParams(claims)
	rows, err := s.pool.Query(ctx, consumeSQL, optionalTime(clock.Cap), d.tenants, d.subscriptions, d.partitions, d.uids, d.leases, d.firsts, d.lasts,
		c.subscriptions, c.uids, c.leases, c.seconds, c.batches, c.partitions, c.bytes, c.autoAcks, c.atLeastOne, c.counts, c.candidates,
		optionalTime(clock.Floor), clock.Settled)
	if err != nil {
		return Consumed{}, err
	}
	out := Consumed{Completions: make([]CompletionOutcome, len(completions)), Claims: make([]ClaimResult, len(claims))}
	var part int16
	var place int
	var row claimRow
	_, err = pgx.ForEachRow(rows, append([]any{&part, &place}, row.targets()...), func() error {
		if part == 0 {
			out.Completions[place-1] = Finished + CompletionOutcome(row.claim.Verdict)
		} else {
			out.Claims[place-1].add(&row)
		}
		return nil
	})
	return out, err
}

// Refused says that the server undid a call of Consume for something that is wrong with a part of it, or that stood in its
// way, so that its parts may be tried one by one.
func Refused(err error) bool {
	var state *pgconn.PgError
	return errors.As(err, &state) && !pg.CommitUnknown(err) && !pg.SchemaMissing(err)
}

// CallError gives an error of Consume, or of waiting for it, its kind; call says what was being done.
func CallError(call string, err error) error { return pg.Wrap(call, err) }

// Finish does what a claim in Consume leaves to be done apart: it makes the first row of cursors that have none, and files
// dead letters. It answers as Claim does.
func (s *Store) Finish(ctx context.Context, req *ClaimRequest, result ClaimResult) (ClaimResult, error) {
	if unborn := take(&result, unborn); len(unborn) > 0 && len(with(result.Claims, Took)) == 0 {
		again := *req
		again.Partitions = unborn
		more, err := s.claimOnce(ctx, &again)
		if err != nil {
			return ClaimResult{}, pg.Wrap("claim", err)
		}
		result.merge(more)
	}
	return s.finish(ctx, req, result)
}

// completionParams is the arrays of a call: one element per completion. None is nil, which would be NULL.
type completionParams struct {
	tenants, uids, leases                    uuids
	subscriptions, partitions, firsts, lasts []int64
}

func newCompletionParams(completions []Completion) completionParams {
	n := len(completions)
	p := completionParams{
		tenants: make(uuids, n), uids: make(uuids, n), leases: make(uuids, n), subscriptions: make([]int64, n), partitions: make([]int64, n),
		firsts: make([]int64, n), lasts: make([]int64, n),
	}
	for i := range completions {
		c := &completions[i]
		p.tenants[i], p.uids[i], p.leases[i] = optionalUUID(&c.Tenant), optionalUUID(&c.Partition), optionalUUID(&c.Lease)
		p.subscriptions[i], p.partitions[i], p.firsts[i], p.lasts[i] = c.Cursor.Subscription, c.Cursor.Partition, c.First, c.Last
	}
	return p
}

// claimParams is the arrays of a call: one element per claim, and one per candidate of all claims one after the other.
type claimParams struct {
	subscriptions        []int64
	uids, leases         uuids
	seconds              []*int
	batches              []int
	partitions           []*int
	bytes                []int
	autoAcks, atLeastOne []bool
	counts               []int
	candidates           []int64
}

func newClaimParams(claims []*ClaimRequest) claimParams {
	n := len(claims)
	p := claimParams{
		subscriptions: make([]int64, n), uids: make(uuids, n), leases: make(uuids, n), seconds: make([]*int, n), batches: make([]int, n),
		partitions: make([]*int, n), bytes: make([]int, n), autoAcks: make([]bool, n), atLeastOne: make([]bool, n), counts: make([]int, n),
		candidates: []int64{},
	}
	for i, c := range claims {
		p.subscriptions[i], p.uids[i], p.leases[i] = c.Subscription.ID, optionalUUID(&c.Subscription.UID), optionalUUID(&c.Lease)
		p.seconds[i], p.batches[i], p.partitions[i], p.bytes[i] = optionalInt(c.LeaseSeconds), c.Batch, optionalInt(c.MaxPartitions), c.MaxBytes
		p.autoAcks[i], p.atLeastOne[i], p.counts[i] = c.AutoAck, c.AtLeastOne, len(c.Partitions)
		p.candidates = append(p.candidates, c.Partitions...)
	}
	return p
}
