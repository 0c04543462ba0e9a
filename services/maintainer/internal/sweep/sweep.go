// Package sweep removes what no rule of a queue speaks of and nobody needs any more. Each removal is a row of steps, each a
// short transaction under the fence of the task.
//
// Concurrency: a sweep runs on the goroutine of its task and shares nothing.
package sweep

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"queen.internal/pkg/store/retention"
	"queen.internal/pkg/store/task"
	"queen.internal/services/maintainer/internal/claim"
)

const (
	// doomedAtOnce bounds the deleted queues that one period looks at.
	doomedAtOnce = 100
	// fruitful is how many pages of idle partitions one period looks at, as long as it finds any.
	fruitful = 100
)

// Sweeper removes in steps of at most Batch rows.
type Sweeper struct {
	Store *retention.Store
	Batch int
}

// work is that of a task.
type work = func(context.Context, *claim.Lease) ([]slog.Attr, error)

// told is what there is to say of a number of things removed.
func told(what string, n int) []slog.Attr {
	if n == 0 {
		return nil
	}
	return []slog.Attr{slog.Int(what, n)}
}

// Aged repeats a step that removes what is older than age until it finds less than a batch.
func (s *Sweeper) Aged(what string, age time.Duration, step func(context.Context, task.Hold, time.Duration, int) (int, error)) work {
	return func(ctx context.Context, l *claim.Lease) ([]slog.Attr, error) {
		for total := 0; ; {
			n, err := step(ctx, l.Hold, age, s.Batch)
			total += n
			if err != nil || n < s.Batch {
				return told(what, total), err
			}
			if err := l.Keep(ctx); err != nil {
				return told(what, total), err
			}
		}
	}
}

// IdlePartitions looks at the next partitions of all, and goes on while it finds some to remove.
func (s *Sweeper) IdlePartitions(age time.Duration) work {
	return func(ctx context.Context, l *claim.Lease) ([]slog.Attr, error) {
		total := 0
		for range fruitful {
			n, ended, err := s.Store.RemoveIdlePartitions(ctx, l.Hold, age, s.Batch)
			total += n
			if err == nil {
				err = l.Keep(ctx)
			}
			if err != nil || ended || n == 0 {
				return told("partitions_deleted", total), err
			}
		}
		return told("partitions_deleted", total), nil
	}
}

// OrphanCursors removes the cursors of groups that were deleted.
func (s *Sweeper) OrphanCursors(ctx context.Context, l *claim.Lease) ([]slog.Attr, error) {
	total := 0
	for after := int64(0); after >= 0; {
		n, next, err := s.Store.RemoveOrphanCursors(ctx, l.Hold, after, s.Batch)
		total += n
		if err == nil {
			err = l.Keep(ctx)
		}
		if err != nil || n == 0 && next == after {
			return told("cursors_deleted", total), err
		}
		after = next
	}
	return told("cursors_deleted", total), nil
}

// DeletedQueues removes what deleted queues have left, one queue after the other. One that cannot go on, because somebody
// holds what is left, waits for the next period; a failure does not keep the others from being worked.
func (s *Sweeper) DeletedQueues(ctx context.Context, l *claim.Lease) ([]slog.Attr, error) {
	queues, err := s.Store.Doomed(ctx, doomedAtOnce)
	total, reaped := 0, 0
	var failed error
	for _, queue := range queues {
		for {
			n, ended, stepped := s.Store.Reap(ctx, l.Hold, queue, s.Batch)
			total += n
			if stepped == nil {
				stepped = l.Keep(ctx)
			}
			if errors.Is(stepped, task.ErrReplaced) || ctx.Err() != nil {
				return told("rows_deleted", total), stepped
			}
			failed = errors.Join(failed, stepped)
			if ended {
				reaped++
			}
			if ended || stepped != nil || n == 0 {
				break
			}
		}
	}
	attrs := told("rows_deleted", total)
	if reaped > 0 {
		attrs = append(attrs, slog.Int("queues_reaped", reaped))
	}
	return attrs, errors.Join(err, failed)
}
