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
