package group

import (
	"context"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"queen.internal/pkg/pg"
)

const changeSubscriptionSQL = `SELECT queue_name FROM queen.change_subscription($1, $2, $3)`

// ChangeSubscription notes from when on a group is said to read, on each queue where it is registered, and returns these
// queues. No position moves. Errors have a kind.
func (s *Store) ChangeSubscription(ctx context.Context, tenant uuid.UUID, groupName string, from time.Time) ([]string, error) {
	rows, err := s.pool.Query(ctx, changeSubscriptionSQL, optionalUUID(&tenant), groupName, from)
	if err != nil {
		return nil, pg.Wrap("change a subscription", err)
	}
	queues, err := pgx.CollectRows(rows, pgx.RowTo[string])
	return queues, pg.Wrap("change a subscription", err)
}

// Ended is an identity of a group on a queue that exists no longer.
type Ended struct {
	Subscription int64
	Queue        string
}

const deleteGroupSQL = `SELECT subscription_id, queue_name FROM queen.delete_group($1, $2, $3, $4)`

// Delete ends a group's identity on a queue, or on all of them when queueName is nil, in one transaction. With keep, each
// registration lives on under a new identity that begins at the start of the log. The cursors of the old ones are left to
// DropCursors. Errors have a kind.
func (s *Store) Delete(ctx context.Context, tenant uuid.UUID, groupName string, queueName *string, keep bool) ([]Ended, error) {
	rows, err := s.pool.Query(ctx, deleteGroupSQL, optionalUUID(&tenant), groupName, queueName, keep)
	if err != nil {
		return nil, pg.Wrap("delete a group", err)
	}
	ended, err := pgx.CollectRows(rows, pgx.RowToStructByPos[Ended])
	return ended, pg.Wrap("delete a group", err)
}

const dropCursorsSQL = `SELECT last_partition_id, dropped FROM queen.drop_cursors($1, $2, $3)`

// DropCursors removes the next limit cursors of an identity that has ended, in one transaction, and says how many those
// were. after is the last partition of the step before, 0 for the first; more is false when none was left. Errors have a
// kind.
func (s *Store) DropCursors(ctx context.Context, subscription, after int64, limit int) (last int64, dropped int, more bool, err error) {
	var end *int64
	err = s.pool.QueryRow(ctx, dropCursorsSQL, subscription, after, limit).Scan(&end, &dropped)
	if err != nil || end == nil {
		return after, 0, false, pg.Wrap("drop cursors", err)
	}
	return *end, dropped, true, nil
}
