package group

import (
	"context"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"queen.internal/pkg/pg"
)

// Extension is the outcome of a renewal.
type Extension struct {
	Renewed int
	Expires time.Time // earliest new expiry; zero when nothing was renewed
}

// LeaseKey names one cursor that a lease holds.
type LeaseKey struct{ Partition, Subscription int64 }

const extendSQL = `SELECT renewed, expires_at FROM queen.extend_lease($1, $2, $3, $4, $5, $6, $7, $8)`

// Extend moves the expiry of the lease's live cursors to seconds from now, never backwards. keys are the cursors the
// lease is known to hold; nil searches them all, which reads every cursor there is. Errors have a kind.
func (s *Store) Extend(ctx context.Context, tenant, lease uuid.UUID, seconds int, clock Bounds, keys []LeaseKey) (Extension, error) {
	subscriptions, partitions := arrays(keys)
	var extension Extension
	var expires *time.Time
	err := s.pool.QueryRow(ctx, extendSQL, optionalUUID(&tenant), optionalUUID(&lease), seconds, optionalTime(clock.Cap), subscriptions, partitions, optionalTime(clock.Floor), clock.Settled).
		Scan(&extension.Renewed, &expires)
	if expires != nil {
		extension.Expires = *expires
	}
	return extension, pg.Wrap("extend lease", err)
}

const releaseSQL = `SELECT subscription_id, partition_id FROM queen.release_lease($1, $2, $3, $4, $5, $6, $7)`

// Release gives back what the lease holds as if it had never been delivered, and returns the cursors it gave back. What
// was acked since, or whose lease has ended, stays as it is. keys as in Extend. Errors have a kind; repeating it is safe.
func (s *Store) Release(ctx context.Context, tenant, lease uuid.UUID, clock Bounds, keys []LeaseKey) ([]LeaseKey, error) {
	subscriptions, partitions := arrays(keys)
	rows, err := s.pool.Query(ctx, releaseSQL, optionalUUID(&tenant), optionalUUID(&lease), optionalTime(clock.Cap), subscriptions, partitions, optionalTime(clock.Floor), clock.Settled)
	if err != nil {
		return nil, pg.Wrap("release lease", err)
	}
	released, err := pgx.CollectRows(rows, leaseKey)
	return released, pg.Wrap("release lease", err)
}

// leaseKey reads a row of a subscription and a partition.
func leaseKey(row pgx.CollectableRow) (LeaseKey, error) {
	var key LeaseKey
	err := row.Scan(&key.Subscription, &key.Partition)
	return key, err
}

// arrays are keys as parameters: NULL for nil.
func arrays(keys []LeaseKey) (subscriptions, partitions []int64) {
	for _, key := range keys {
		subscriptions, partitions = append(subscriptions, key.Subscription), append(partitions, key.Partition)
	}
	return subscriptions, partitions
}
