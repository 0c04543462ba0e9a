package claim

import (
	"context"
	"log/slog"
	"time"

	"queen.internal/pkg/store/task"
)

// Task is some work and when it is to be done.
type Task struct {
	Name  string
	Terms task.Terms
	// Work does it, in steps that each check the hold and take no longer than a part of the lease, and calls Keep between
	// them. It returns what there is to tell, nothing when there was nothing to do, also with an error. It ends early
	// when ctx does. It must stand to be done again.
	Work func(ctx context.Context, l *Lease) ([]slog.Attr, error)
}

// Lease is the right to work a task, for the steps that need to prove it.
type Lease struct {
	task.Hold
	store *task.Store
	terms task.Terms
	asked time.Time // before the statement that the lease counts from was sent
}

// Keep makes the lease count anew when a third of it has passed. Nobody's step may be under way. The error is
// task.ErrReplaced, or has a kind.
func (l *Lease) Keep(ctx context.Context) error {
	now := time.Now()
	if now.Sub(l.asked) < l.terms.Lease/3 {
		return nil
	}
	if err := l.store.Renew(ctx, l.Hold, l.terms.Lease); err != nil {
		return err
	}
	l.asked = now
	return nil
}
