// Package task calls the procedures by which processes agree on who works what when. It is their only caller besides the
// procedures that do such work, which check the fence themselves; what each does is written in sql/broker/procedures. It
// keeps no state: who asks when, and what the work is, is the maintainer's business.
package task

import (
	"context"
	"errors"
	"time"

	"github.com/jackc/pgx/v5"

	"queen.internal/pkg/pg"
)

// ErrReplaced says that another holder has taken the task. Nothing was changed.
var ErrReplaced = errors.New("the task has another holder")

// Store calls the procedures on a pool, one borrowed connection a call. It is safe for concurrent use.
type Store struct{ pool *pg.Pool }

// New returns a Store on pool, which the caller closes.
func New(pool *pg.Pool) *Store { return &Store{pool: pool} }

// Hold is one holding of a task. Whoever changes something for the task gives it to the procedure that does.
type Hold struct {
	Task   string
	Fence  int64
	Period time.Time // the time the work was due at, by the database's clock
}

// Terms are the times of a task. Each must be a millisecond or more.
type Terms struct {
	Period time.Duration // from one due time to the next
	Lease  time.Duration // how long others keep off a holder that is silent
}

const claimSQL = `SELECT coalesce(fence, 0), coalesce(period, now()), coalesce(wait_ms, -1) FROM queen.claim_task($1, $2, $3, $4)`

// disabledWait is how long nobody need ask for a task that was switched off by hand.
const disabledWait = time.Minute

// Claim takes a task for holder, a name for people, when its time has come and nobody holds it. Otherwise taken is false,
// and wait is how long that stays so unless its holder gives it back. Errors have a kind; with one the task may have been
// taken, and is free again after its lease.
func (s *Store) Claim(ctx context.Context, name, holder string, t Terms) (hold Hold, taken bool, wait time.Duration, err error) {
	var waitMillis int64
	hold.Task = name
	err = s.pool.QueryRow(ctx, claimSQL, name, holder, t.Period.Milliseconds(), t.Lease.Milliseconds()).Scan(&hold.Fence, &hold.Period, &waitMillis)
	if err != nil {
		return Hold{}, false, 0, pg.Wrap("claim task "+name, err)
	}
	if hold.Fence > 0 {
		return hold, true, 0, nil
	}
	if waitMillis < 0 {
		return Hold{}, false, disabledWait, nil
	}
	return Hold{}, false, time.Duration(waitMillis) * time.Millisecond, nil
}

const renewSQL = `SELECT queen.renew_task($1, $2, $3)`

// Renew lets the lease count from now. The error is ErrReplaced, or has a kind.
func (s *Store) Renew(ctx context.Context, h Hold, lease time.Duration) error {
	return still("renew task "+h.Task, s.pool.QueryRow(ctx, renewSQL, h.Task, h.Fence, lease.Milliseconds()))
}

const finishSQL = `SELECT queen.finish_task($1, $2, $3, $4)`

// Finish gives a task back whose period is worked. The error is ErrReplaced, or has a kind.
func (s *Store) Finish(ctx context.Context, h Hold, t Terms) error {
	return still("finish task "+h.Task, s.pool.QueryRow(ctx, finishSQL, h.Task, h.Fence, t.Period.Milliseconds(), nil))
}

// GiveUp gives a task back whose work did not come to its end: it is due again after retry, to everybody. The error is
// ErrReplaced, or has a kind.
func (s *Store) GiveUp(ctx context.Context, h Hold, t Terms, retry time.Duration) error {
	return still("give up task "+h.Task, s.pool.QueryRow(ctx, finishSQL, h.Task, h.Fence, t.Period.Milliseconds(), retry.Milliseconds()))
}

// still reads whether the caller still held the task.
func still(doing string, row pgx.Row) error {
	var held bool
	if err := row.Scan(&held); err != nil {
		return pg.Wrap(doing, err)
	}
	if !held {
		return ErrReplaced
	}
	return nil
}
