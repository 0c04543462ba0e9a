package retention

import (
	"context"
	"errors"
	"time"

	"github.com/jackc/pgx/v5"

	"queen.internal/pkg/pg"
	"queen.internal/pkg/store/task"
)

// Store calls the procedures on a pool, one borrowed connection a call. It is safe for concurrent use.
type Store struct{ pool *pg.Pool }

// New returns a Store on pool, which the caller closes.
func New(pool *pg.Pool) *Store { return &Store{pool: pool} }

// replaced is the error of a step: a procedure answers with no row when the task has another holder.
func replaced(doing string, err error) error {
	if errors.Is(err, pgx.ErrNoRows) {
		return task.ErrReplaced
	}
	return pg.Wrap(doing, err)
}

const removeTransactionsSQL = `SELECT removed FROM queen.remove_transactions($1, $2, $3, $4)`

// RemoveTransactions removes up to limit transactions that are older than age, and says how many. The error is
// task.ErrReplaced, or has a kind.
func (s *Store) RemoveTransactions(ctx context.Context, h task.Hold, age time.Duration, limit int) (removed int, err error) {
	err = s.pool.QueryRow(ctx, removeTransactionsSQL, h.Task, h.Fence, int64(age.Seconds()), limit).Scan(&removed)
	return removed, replaced("remove transactions", err)
}

// The removals that take an age and a bound and tell a number.
const (
	expireDeadLettersSQL   = `SELECT removed FROM queen.expire_dead_letters($1, $2, $3, $4)`
	removeHistorySQL       = `SELECT removed FROM queen.remove_history($1, $2, $3, $4)`
	forgetDeletedQueuesSQL = `SELECT removed FROM queen.forget_deleted_queues($1, $2, $3, $4)`
)

// ExpireDeadLetters removes up to limit dead letters that were filed longer than age ago. Its answer is as that of
// RemoveTransactions.
func (s *Store) ExpireDeadLetters(ctx context.Context, h task.Hold, age time.Duration, limit int) (removed int, err error) {
	err = s.pool.QueryRow(ctx, expireDeadLettersSQL, h.Task, h.Fence, int64(age.Seconds()), limit).Scan(&removed)
	return removed, replaced("expire dead letters", err)
}

// RemoveHistory removes up to limit rows of the history of retention that are older than age. Its answer is as that of
// RemoveTransactions.
func (s *Store) RemoveHistory(ctx context.Context, h task.Hold, age time.Duration, limit int) (removed int, err error) {
	err = s.pool.QueryRow(ctx, removeHistorySQL, h.Task, h.Fence, int64(age.Seconds()), limit).Scan(&removed)
	return removed, replaced("remove history", err)
}

// ForgetDeletedQueues removes up to limit marks of queues that were deleted longer than age ago and have nothing left. Its
// answer is as that of RemoveTransactions.
func (s *Store) ForgetDeletedQueues(ctx context.Context, h task.Hold, age time.Duration, limit int) (removed int, err error) {
	err = s.pool.QueryRow(ctx, forgetDeletedQueuesSQL, h.Task, h.Fence, int64(age.Seconds()), limit).Scan(&removed)
	return removed, replaced("forget deleted queues", err)
}

const removeIdleSQL = `SELECT removed, ended FROM queen.remove_idle_partitions($1, $2, $3, $4)`

// RemoveIdlePartitions looks at the next limit partitions of all, and removes those that hold nothing and were not written
// for age. ended says that the next call begins anew. The error is task.ErrReplaced, or has a kind.
func (s *Store) RemoveIdlePartitions(ctx context.Context, h task.Hold, age time.Duration, limit int) (removed int, ended bool, err error) {
	err = s.pool.QueryRow(ctx, removeIdleSQL, h.Task, h.Fence, int64(age.Seconds()), limit).Scan(&removed, &ended)
	return removed, ended, replaced("remove idle partitions", err)
}

const removeOrphansSQL = `SELECT removed, coalesce(next_after, -1) FROM queen.remove_orphan_cursors($1, $2, $3, $4)`

// RemoveOrphanCursors looks at the next limit identities that have cursors, and removes cursors of those that have ended. next
// is where the next call goes on, below 0 at the end. The error is task.ErrReplaced, or has a kind.
func (s *Store) RemoveOrphanCursors(ctx context.Context, h task.Hold, after int64, limit int) (removed int, next int64, err error) {
	err = s.pool.QueryRow(ctx, removeOrphansSQL, h.Task, h.Fence, after, limit).Scan(&removed, &next)
	return removed, next, replaced("remove cursors", err)
}

const doomedSQL = `SELECT coalesce(array_agg(q), '{}') FROM queen.doomed_queues($1) q`

// Doomed gives up to limit deleted queues that still have something. Errors have a kind.
func (s *Store) Doomed(ctx context.Context, limit int) (queues []int64, err error) {
	err = s.pool.QueryRow(ctx, doomedSQL, limit).Scan(&queues)
	return queues, replaced("find deleted queues", err)
}

const reapSQL = `SELECT removed, ended FROM queen.reap_queue($1, $2, $3, $4, $5)`

// reapedAtOnce bounds the partitions that one step locks.
const reapedAtOnce = 100

// Reap removes up to limit rows of each table that a deleted queue has left. ended says that there is nothing left; when it
// is false and nothing was removed, somebody holds what is left. The error is task.ErrReplaced, or has a kind.
func (s *Store) Reap(ctx context.Context, h task.Hold, queue int64, limit int) (removed int, ended bool, err error) {
	err = s.pool.QueryRow(ctx, reapSQL, h.Task, h.Fence, queue, reapedAtOnce, limit).Scan(&removed, &ended)
	return removed, ended, replaced("reap a queue", err)
}
