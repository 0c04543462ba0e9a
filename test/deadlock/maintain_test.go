package deadlock_test

import (
	"errors"
	"fmt"
	"time"

	"queen.internal/pkg/store/retention"
	"queen.internal/pkg/store/task"
)

// maintain takes a task, perhaps one whose holder is at work, and makes steps of it.
func (w worker) maintain() error {
	terms := task.Terms{Period: time.Millisecond, Lease: []time.Duration{time.Millisecond, time.Hour}[w.IntN(2)]}
	hold, taken, _, err := w.tasks.Claim(w.Context(), fmt.Sprint("task ", w.IntN(2)), "m", terms)
	if err != nil || !taken {
		return err
	}
	for range 1 + w.IntN(4) {
		if err = w.maintenance(hold); err != nil {
			break
		}
	}
	if err == nil {
		err = w.tasks.Renew(w.Context(), hold, terms.Lease)
	}
	if err == nil && w.oneIn(2) {
		err = w.tasks.Finish(w.Context(), hold, terms)
	} else if err == nil {
		err = w.tasks.GiveUp(w.Context(), hold, terms, 0)
	}
	if errors.Is(err, task.ErrReplaced) {
		return nil
	}
	return err
}

// maintenance is one step. Nearly everything is too young for it; what is not is cut, deleted and reaped under everybody.
func (w worker) maintenance(hold task.Hold) (err error) {
	var queues []int64
	if w.oneIn(2) {
		queues, _, err = w.trim.Stale(w.Context(), 0, 100)
	} else {
		queues, err = w.trim.Doomed(w.Context(), 10)
	}
	if err != nil || len(queues) == 0 {
		queues = []int64{int64(1 + w.IntN(4))}
	}
	q := queues[w.IntN(len(queues))]
	switch w.IntN(10) {
	case 0, 1:
		_, err = w.trim.Cut(w.Context(), hold, q, retention.Position{}, 1+w.IntN(4))
	case 2:
		_, err = w.trim.RemoveSegments(w.Context(), hold, q, 1+w.IntN(10))
	case 3:
		_, _, _, err = w.trim.RemoveHashes(w.Context(), hold, q, retention.Position{}, 3, 1+w.IntN(10))
	case 4:
		_, _, err = w.trim.Reap(w.Context(), hold, q, 1+w.IntN(10))
	case 5:
		_, _, err = w.trim.RemoveIdlePartitions(w.Context(), hold, time.Millisecond, 4)
	case 6:
		_, _, err = w.trim.RemoveOrphanCursors(w.Context(), hold, 0, 3)
	case 7:
		_, err = w.trim.ExpireDeadLetters(w.Context(), hold, time.Second, 3)
	case 8:
		_, err = w.trim.RemoveTransactions(w.Context(), hold, time.Minute, 10)
	default:
		if _, err = w.trim.RemoveHistory(w.Context(), hold, time.Minute, 10); err == nil {
			_, err = w.trim.ForgetDeletedQueues(w.Context(), hold, time.Minute, 10)
		}
	}
	return err
}

// age gives a queue rules that count in seconds, and lets the minute pass that a deleted one rests.
func (w worker) age() error {
	sql := `UPDATE queen.queues SET retention_enabled = true, retention_seconds = 1, completed_retention_seconds = 1
		WHERE id = (SELECT id FROM queen.queues WHERE name = $1 AND deleted_at IS NULL LIMIT 1 FOR NO KEY UPDATE SKIP LOCKED)`
	if w.oneIn(2) {
		sql = `UPDATE queen.queues SET deleted_at = deleted_at - interval '2 min'
			WHERE id = (SELECT id FROM queen.queues WHERE name = $1 AND reaped_at IS NULL AND deleted_at IS NOT NULL
				ORDER BY deleted_at DESC LIMIT 1 FOR NO KEY UPDATE SKIP LOCKED)`
	}
	_, err := w.pool.Exec(w.Context(), sql, w.queueName())
	return err
}
