package group

import (
	"context"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"queen.internal/pkg/store/log"
)

// LeaseOnRecord is the lease of an ack in a bundle that does not say which. It is checked like any other.
var LeaseOnRecord = uuid.Nil

// Bundle is acks and appends that are committed together or not at all. It may be sent several times, and must not be
// copied after that: it remembers what Supply has read for it.
type Bundle struct {
	ID          uuid.UUID // one that was committed is not carried out again
	Tenant      uuid.UUID
	Fingerprint []byte // of the request; kept with the outcome
	Clock       Bounds
	Runs        []log.Run
	MessageIDs  []uuid.UUID // of the runs' messages, in the order of the request; kept with the outcome
	Acks        []BundleAck // no two of one group share partition and lease
	Accepted    []uuid.UUID // what LeaseOnRecord may stand for; nil: any

	open []*openGroup
}

// BundleAck is one group of acks. Places are those of its items in the request.
type BundleAck struct {
	AckGroup
	Group  string
	Places []int32
}

// BundleState is what became of a bundle.
type BundleState int16

// The states of a bundle.
const (
	Committed      BundleState = iota + 1
	FoundCommitted             // by an earlier call with its id; this one did nothing
	Undone                     // Placed and Acks say why
)

// BundleRecord is what is kept of a committed bundle.
type BundleRecord struct {
	Fingerprint []byte
	MessageIDs  []uuid.UUID
	// The acks by the places of their items.
	AckPlaces   []int32
	AckOutcomes []ItemOutcome
	AckDead     []bool
	// What was appended to, and up to where.
	Partitions, LastOffsets []int64
	// The cursors whose lease ended.
	FreedSubscriptions, FreedPartitions []int64
}

// BundleResult is the answer to one call.
type BundleResult struct {
	State  BundleState
	Record BundleRecord // unless Undone
	Placed []log.Placed // a partition that is absent, unless an ack was refused, no longer exists
	Acks   []AckResult  // in the order of the bundle's

	needs []answer
}

const transactSQL = `SELECT part, outcome, coalesce(place, 0), coalesce(partition_id, 0), coalesce(base_offset, 0), created_at,
	duplicate_positions, duplicate_offsets, item_outcomes, coalesce(lease_released, false), coalesce(dead_lettered, false),
	coalesce(subscription_id, 0), coalesce(committed_offset, 0), coalesce(span_end, 0), coalesce(needed_offset, 0),
	fingerprint, message_ids, ack_places, ack_outcomes, ack_dead, partitions, last_offsets, freed_subscriptions, freed_partitions, previous_tag
FROM queen.transact($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16, $17, $18, $19, $20, $21, $22, $23, $24, $25, $26,
	$27, $28, $29, $30, $31, $32, $33, $34, $35, $36, $37, $38)`

// Transact makes one call. The error is the driver's, not yet of a kind; what log.Unknown says of it holds. Calling again
// with the same id is always safe.
func (s *Store) Transact(ctx context.Context, b *Bundle) (BundleResult, error) {
	if b.open == nil {
		for i := range b.Acks {
			b.open = append(b.open, &openGroup{AckGroup: &b.Acks[i].AckGroup, place: i})
		}
	}
	c, a, places := log.NewColumns(b.Runs), newAckParams(len(b.open)), []int32{}
	for i, g := range b.open {
		a.add(g)
		a.groups = append(a.groups, b.Acks[i].Group)
		places = append(places, b.Acks[i].Places...)
	}
	var accepted uuids
	if b.Accepted != nil {
		accepted = uuidArray(b.Accepted)
	}
	conn, err := s.log.Acquire(ctx)
	if err != nil {
		return BundleResult{}, err
	}
	defer conn.Release()
	rows, err := conn.Query(ctx, transactSQL, optionalUUID(&b.ID), optionalUUID(&b.Tenant), b.Fingerprint, uuidArray(b.MessageIDs), places, optionalTime(b.Clock.Cap),
		c.Partitions, c.UIDs, c.Tags, c.Counts, c.RawBytes, c.Codecs, c.Payloads, c.Hashes, c.Sealed,
		c.VouchFirsts, c.VouchSince, c.VouchBases, c.VouchLasts, c.VouchTags,
		a.groups, a.partitions, a.leases, a.counts, a.hashes, a.signals, a.offsets, a.spanCommitted, a.spanEnds,
		a.deadOffsets, a.deadIDs, a.deadCreated, a.deadTransactions, a.deadPayloads, a.deadReasons, accepted, optionalTime(b.Clock.Floor), b.Clock.Settled)
	if err != nil {
		return BundleResult{}, err
	}
	found, err := pgx.CollectRows(rows, scanBundle)
	if err != nil {
		return BundleResult{}, err
	}
	return newBundleResult(found, len(b.Acks)), nil
}
