package retention

import (
	"context"
	"time"

	"queen.internal/pkg/store/task"
)

// Position is a place in the order in which what is due of one queue is walked. The zero value is before everything.
type Position struct {
	Since     time.Time
	Partition int64
}

// since is what is sent: the zero time lies before all others.
func (p Position) since() time.Time { return p.Since.UTC() }

// Removed counts messages by the rule that they went by.
type Removed struct {
	Aged      int64 // retentionSeconds
	Completed int64 // completedRetentionSeconds
	Evicted   int64 // maxWaitTimeSeconds
	Unread    int64 // of Aged and Evicted: somebody, or everybody, had still to consume them
}

// Add sums up.
func (r *Removed) Add(o Removed) {
	r.Aged += o.Aged
	r.Completed += o.Completed
	r.Evicted += o.Evicted
	r.Unread += o.Unread
}

// Cut is what one step came to.
type Cut struct {
	Removed
	Looked int // partitions of the page, 0 at the end
	Next   Position
	Busy   int // of these, those that were locked
	Cut    int // of these, those whose log begins further on now
}

const cutSQL = `SELECT looked, coalesce(since, 'epoch'), coalesce(after, 0), busy, cut, aged, completed, evicted, unread
FROM queen.cut_logs($1, $2, $3, $4, $5, $6)`

// Cut moves the starts of the logs of up to limit partitions of a queue that are due behind a position. The error is
// task.ErrReplaced, or has a kind.
func (s *Store) Cut(ctx context.Context, h task.Hold, queue int64, after Position, limit int) (c Cut, err error) {
	err = s.pool.QueryRow(ctx, cutSQL, h.Task, h.Fence, queue, after.since(), after.Partition, limit).Scan(
		&c.Looked, &c.Next.Since, &c.Next.Partition, &c.Busy, &c.Cut, &c.Aged, &c.Completed, &c.Evicted, &c.Unread)
	return c, replaced("cut logs", err)
}

const staleSQL = `SELECT queues, coalesce(next_after, -1) FROM queen.stale_queues($1, $2)`

// Stale gives those of the next limit queues where something is due, and where the next page begins, below 0 for nowhere.
// Errors have a kind.
func (s *Store) Stale(ctx context.Context, after int64, limit int) (queues []int64, next int64, err error) {
	err = s.pool.QueryRow(ctx, staleSQL, after, limit).Scan(&queues, &next)
	return queues, next, replaced("find queues", err)
}

const removeSegmentsSQL = `SELECT removed FROM queen.remove_segments($1, $2, $3, $4)`

// RemoveSegments deletes up to limit segments of a queue that its logs do not have any more, and says how many. The error is
// task.ErrReplaced, or has a kind.
func (s *Store) RemoveSegments(ctx context.Context, h task.Hold, queue int64, limit int) (removed int, err error) {
	err = s.pool.QueryRow(ctx, removeSegmentsSQL, h.Task, h.Fence, queue, limit).Scan(&removed)
	return removed, replaced("remove segments", err)
}

const removeHashesSQL = `SELECT looked, coalesce(since, 'epoch'), coalesce(after, 0), removed
FROM queen.remove_hashes($1, $2, $3, $4, $5, $6, $7)`

// RemoveHashes deletes up to limit dedup rows, of up to partitions of a queue that are due behind a position. It says how many
// partitions the page had, 0 at the end, and what lies behind it. The error is task.ErrReplaced, or has a kind.
func (s *Store) RemoveHashes(ctx context.Context, h task.Hold, queue int64, after Position, partitions, limit int) (looked, removed int, next Position, err error) {
	err = s.pool.QueryRow(ctx, removeHashesSQL, h.Task, h.Fence, queue, after.since(), after.Partition, partitions, limit).Scan(
		&looked, &next.Since, &next.Partition, &removed)
	return looked, removed, next, replaced("remove dedup rows", err)
}
