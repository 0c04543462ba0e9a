package group

import (
	"context"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"queen.internal/pkg/pg"
)

// LiveLease is what one lease holds of one partition.
type LiveLease struct {
	Lease                   uuid.UUID
	Queue, Partition, Group string
	PartitionID             uuid.UUID
	First, Last             int64 // offsets that are still to be acked
	Attempt                 int
	Expires                 time.Time
}

// LeaseWalk is how far a walk over leases has come. The zero value is its beginning.
type LeaseWalk struct{ subscription, partition int64 }

const listLeasesSQL = `SELECT lease_id, queue_name, partition_name, partition_uid, group_name, first_offset, last_offset, attempt, expires_at,
	subscription_id, partition_id, coalesce(more, false)
FROM queen.list_leases($1, $2, $3, $4, $5, $6, $7, $8, $9)`

// Leases is the live leases among the next cursors of a tenant's groups, at most limit of them, and where to go on; more
// is false at the end of the walk. An empty queueName or groupName means any. Errors have a kind.
func (s *Store) Leases(ctx context.Context, tenant uuid.UUID, queueName, groupName string, from LeaseWalk, limit int, clock Bounds) (
	leases []LiveLease, to LeaseWalk, more bool, err error,
) {
	rows, err := s.pool.Query(ctx, listLeasesSQL, optionalUUID(&tenant), optionalText(queueName), optionalText(groupName),
		from.subscription, from.partition, limit, optionalTime(clock.Cap), optionalTime(clock.Floor), clock.Settled)
	if err != nil {
		return nil, from, false, pg.Wrap("list leases", err)
	}
	var lease *uuid.UUID // NULL in the last row, as are the next
	var l struct {
		queue, partition, group *string
		partitionID             *uuid.UUID
		first, last             *int64
		attempt                 *int
		expires                 *time.Time
	}
	_, err = pgx.ForEachRow(rows, []any{
		&lease, &l.queue, &l.partition, &l.partitionID, &l.group, &l.first, &l.last, &l.attempt, &l.expires,
		&to.subscription, &to.partition, &more,
	}, func() error {
		if lease != nil {
			leases = append(leases, LiveLease{
				Lease: *lease, Queue: *l.queue, Partition: *l.partition, Group: *l.group, PartitionID: *l.partitionID,
				First: *l.first, Last: *l.last, Attempt: *l.attempt, Expires: *l.expires,
			})
		}
		return nil
	})
	return leases, to, more, pg.Wrap("list leases", err)
}

const expireSQL = `SELECT subscription_id, partition_id FROM queen.expire_lease($1, $2, $3, $4, $5, $6, $7)`

// Expire ends a lease as if it had run out now and returns the cursors that came free. The delivery counts, other than
// with Release. keys as in Extend. Errors have a kind; repeating it is safe.
func (s *Store) Expire(ctx context.Context, tenant, lease uuid.UUID, clock Bounds, keys []LeaseKey) ([]LeaseKey, error) {
	subscriptions, partitions := arrays(keys)
	rows, err := s.pool.Query(ctx, expireSQL, optionalUUID(&tenant), optionalUUID(&lease), optionalTime(clock.Cap), subscriptions, partitions, optionalTime(clock.Floor), clock.Settled)
	if err != nil {
		return nil, pg.Wrap("expire lease", err)
	}
	freed, err := pgx.CollectRows(rows, leaseKey)
	return freed, pg.Wrap("expire lease", err)
}
