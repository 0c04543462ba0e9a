// Package log calls the procedures that provision partitions and that append to and read from the log of segments. It
// is their only caller; what an append means is written in sql/broker/procedures/append.sql and in pkg/appendlog. It
// decides nothing, keeps no state and retries nothing but a lost race to create a partition.
package log

import (
	"context"
	"fmt"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"

	"queen.internal/pkg/pg"
	"queen.internal/pkg/queue"
)

// Store calls the procedures on a pool, one borrowed connection a call. It is safe for concurrent use.
type Store struct{ pool *pg.Pool }

// New returns a Store on pool, which the caller closes.
func New(pool *pg.Pool) *Store { return &Store{pool: pool} }

// Key names a partition as clients do.
type Key struct {
	Tenant           uuid.UUID
	Queue, Partition string
}

// ensureAttempts bounds the repeats of a provisioning that lost a race. Each repeat means that another call created the
// partition or deleted its queue in the same instant.
const ensureAttempts = 10

const ensureSQL = `SELECT place, partition_id, partition_uid, queue_created FROM queen.ensure_partitions($1, $2, $3)`

// Partition names a partition for ever: after a failover that lost it, its ID may be issued again, its UID may not.
type Partition struct {
	ID  int64
	UID uuid.UUID
}

// Ensure is Provision for whoever tells nobody.
func (s *Store) Ensure(ctx context.Context, keys []Key) ([]Partition, error) {
	found, _, err := s.Provision(ctx, keys)
	return found, err
}

// Provision gives the partition of each key, creating queues and partitions that do not exist, and says which queues it has
// created, perhaps more than once; also together with an error. Errors have a kind.
func (s *Store) Provision(ctx context.Context, keys []Key) (found []Partition, created []Queue, err error) {
	tenants, queues, partitions := make(uuids, len(keys)), make([]string, len(keys)), make([]string, len(keys))
	for i, key := range keys {
		tenants[i], queues[i], partitions[i] = wireUUID(key.Tenant), key.Queue, key.Partition
	}
	found = make([]Partition, len(keys))
	for range ensureAttempts {
		made, count, err := s.ensureOnce(ctx, keys, []any{tenants, queues, partitions}, found)
		created = append(created, made...)
		if err != nil {
			return nil, created, pg.Wrap("ensure partitions", err)
		}
		if count == len(keys) {
			return found, created, nil
		}
	}
	return nil, created, queue.Unavailable("the queue is being deleted and created at the same time", pg.RetryAfter,
		fmt.Errorf("ensure %d partitions: lost the race %d times", len(keys), ensureAttempts))
}

// ensureOnce asks once, and counts the answers that it puts in their places.
func (s *Store) ensureOnce(ctx context.Context, keys []Key, arguments []any, found []Partition) (created []Queue, count int, err error) {
	conn, err := s.Acquire(ctx)
	if err != nil {
		return nil, 0, err
	}
	defer conn.Release()
	rows, err := conn.Query(ctx, ensureSQL, arguments...)
	if err != nil {
		return nil, 0, err
	}
	var place int
	var p Partition
	var isNew bool
	_, err = pgx.ForEachRow(rows, []any{&place, &p.ID, &p.UID, &isNew}, func() error {
		found[place-1] = p
		count++
		if isNew {
			created = append(created, Queue{Tenant: keys[place-1].Tenant, Name: keys[place-1].Queue})
		}
		return nil
	})
	return created, count, err
}

// uuids is a uuid[] parameter in the form the driver encodes without reflection.
type uuids = pgtype.FlatArray[pgtype.UUID]

func wireUUID(id uuid.UUID) pgtype.UUID { return pgtype.UUID{Bytes: id, Valid: true} }
