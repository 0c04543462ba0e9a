package group

import (
	"context"
	"errors"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"queen.internal/pkg/pg"
)

// Seek is a seek over all partitions of a queue that existed when it began.
type Seek struct {
	Ref
	newest int64
	to     *time.Time
}

const beginSeekSQL = `SELECT subscription_id, subscription_uid, newest_partition_id FROM queen.begin_seek($1, $2, $3, $4)`

// BeginSeek prepares a group's seek to the first segment committed at or after to, or to the end when to is nil. A group
// that is new to the queue is registered. False means that there is no such queue or that it has no partition. Errors have
// a kind.
func (s *Store) BeginSeek(ctx context.Context, tenant uuid.UUID, queueName, groupName string, to *time.Time) (Seek, bool, error) {
	seek := Seek{to: to}
	err := s.pool.QueryRow(ctx, beginSeekSQL, optionalUUID(&tenant), queueName, groupName, to).Scan(&seek.ID, &seek.UID, &seek.newest)
	if errors.Is(err, pgx.ErrNoRows) {
		return Seek{}, false, nil
	}
	return seek, err == nil, pg.Wrap("begin a seek", err)
}

const seekPageSQL = `SELECT last_partition_id, placed FROM queen.seek_page($1, $2, $3, $4, $5, $6)`

// SeekPage places the cursors of the next limit partitions, in one transaction, and says how many those were. after is the
// last partition of the page before, 0 for the first; more is false when nothing is left to do. Repeating a page is
// harmless. Errors have a kind.
func (s *Store) SeekPage(ctx context.Context, seek Seek, after int64, limit int) (last int64, placed int, more bool, err error) {
	var end *int64
	err = s.pool.QueryRow(ctx, seekPageSQL, seek.ID, optionalUUID(&seek.UID), after, seek.newest, limit, seek.to).Scan(&end, &placed)
	if errors.Is(err, pgx.ErrNoRows) { // group or queue were deleted: there is nothing left that could stand anywhere
		return after, 0, false, nil
	}
	if err != nil || end == nil {
		return after, 0, false, pg.Wrap("seek", err)
	}
	return *end, placed, true, nil
}

const seekPartitionSQL = `SELECT subscription_id, partition_id FROM queen.seek_partition($1, $2, $3, $4, $5)`

// SeekPartition places a group's cursor in one partition, as SeekPage does, and says whose cursor it is. False means that
// queue or partition do not exist. Errors have a kind.
func (s *Store) SeekPartition(ctx context.Context, tenant uuid.UUID, queueName, partition, groupName string, to *time.Time) (LeaseKey, bool, error) {
	var key LeaseKey
	err := s.pool.QueryRow(ctx, seekPartitionSQL, optionalUUID(&tenant), queueName, partition, groupName, to).Scan(&key.Subscription, &key.Partition)
	if errors.Is(err, pgx.ErrNoRows) {
		return LeaseKey{}, false, nil
	}
	return key, err == nil, pg.Wrap("seek in a partition", err)
}
