// Package sweep removes what no rule of a queue speaks of and nobody needs any more. Each removal is a row of steps, each a
// short transaction under the fence of the task.
//
// Concurrency: a sweep runs on the goroutine of its task and shares nothing.
package sweep

import (
	"context"
	"log/slog"
	"time"

	"queen.internal/pkg/store/retention"
	"queen.internal/services/maintainer/internal/claim"
)

// transactionAge is how long a transaction is remembered, so that a request which comes again is recognised.
const transactionAge = 24 * time.Hour

// Sweeper removes in steps of at most Batch rows.
type Sweeper struct {
	Store *retention.Store
	Batch int
}

// Transactions removes those that are forgotten.
func (s *Sweeper) Transactions(ctx context.Context, l *claim.Lease) ([]slog.Attr, error) {
	return s.drain(ctx, l, "transactions_deleted", func() (int, error) {
		return s.Store.RemoveTransactions(ctx, l.Hold, transactionAge, s.Batch)
	})
}

// drain repeats a step until it finds less than a batch.
func (s *Sweeper) drain(ctx context.Context, l *claim.Lease, what string, step func() (int, error)) ([]slog.Attr, error) {
	total := 0
	told := func() []slog.Attr {
		if total == 0 {
			return nil
		}
		return []slog.Attr{slog.Int(what, total)}
	}
	for {
		n, err := step()
		total += n
		if err != nil || n < s.Batch {
			return told(), err
		}
		if err := l.Keep(ctx); err != nil {
			return told(), err
		}
	}
}
