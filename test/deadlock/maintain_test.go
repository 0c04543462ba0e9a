package deadlock_test

import (
	"errors"
	"fmt"
	"time"

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

// maintenance is one step.
func (w worker) maintenance(hold task.Hold) error {
	_, err := w.trim.RemoveTransactions(w.Context(), hold, time.Minute, 10)
	return err
}
