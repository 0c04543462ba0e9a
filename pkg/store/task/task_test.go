package task_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"queen.internal/pkg/pg"
	"queen.internal/pkg/pgtest"
	"queen.internal/pkg/store/task"
	"queen.internal/pkg/testkit"
)

func TestMain(m *testing.M) { pgtest.Main(m, pgtest.CheckLeaks) }

const name = "chore"

// terms are longer than any test, so that nothing runs out by itself.
var terms = task.Terms{Period: time.Hour, Lease: time.Hour}

type bench struct {
	*testing.T
	db    pgtest.Database
	store *task.Store
}

func setup(t *testing.T) *bench {
	db := pgtest.New(t)
	return &bench{t, db, task.New(db.Pool)}
}

func (b *bench) take() task.Hold {
	b.Helper()
	hold, taken, _, err := b.store.Claim(b.Context(), name, "m", terms)
	if err != nil || !taken {
		b.Fatalf("taken %v, %v", taken, err)
	}
	return hold
}

// refused asks in vain and gives the time to wait.
func (b *bench) refused() time.Duration {
	b.Helper()
	_, taken, wait, err := b.store.Claim(b.Context(), name, "m", terms)
	if err != nil || taken {
		b.Fatalf("taken %v, %v", taken, err)
	}
	return wait
}

// set changes the task's row as time, or an operator, would.
func (b *bench) set(what string) {
	b.Helper()
	if _, err := b.db.Pool.Exec(b.Context(), `UPDATE queen.tasks SET `+what+` WHERE name = $1`, name); err != nil {
		b.Fatal(err)
	}
}

// holds asks as a step does.
func (b *bench) holds(q interface {
	QueryRow(context.Context, string, ...any) pgx.Row
}, h task.Hold,
) (held bool) {
	b.Helper()
	if err := q.QueryRow(b.Context(), `SELECT queen.holds_task($1, $2)`, h.Task, h.Fence).Scan(&held); err != nil {
		b.Fatal(err)
	}
	return held
}

func TestATaskIsDueOnceAPeriod(t *testing.T) {
	t.Parallel()
	b := setup(t)
	first := b.take()
	if wait := b.refused(); wait <= 0 || wait > terms.Lease {
		t.Errorf("waits %v for a lease of %v", wait, terms.Lease)
	}
	if err := b.store.Finish(t.Context(), first, terms); err != nil {
		t.Fatal(err)
	}
	if wait := b.refused(); wait <= 0 || wait > terms.Period {
		t.Errorf("waits %v for a period of %v", wait, terms.Period)
	}
	if err := b.store.Renew(t.Context(), first, terms.Lease); err != nil {
		t.Errorf("who gave it back and was not replaced: %v", err) // harmless: nobody has come since
	}
	b.set(`lease_expires_at = NULL, due_at = due_at - interval '1 h'`)
	second := b.take()
	if second.Fence <= first.Fence {
		t.Errorf("fence %d after %d", second.Fence, first.Fence)
	}
}

func TestPeriodsAreAGridAndMissedOnesAreNotMadeUpFor(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.take()
	b.set(`lease_expires_at = NULL, due_at = clock_timestamp() - interval '150 min'`)
	late := b.take()
	if err := b.store.Finish(t.Context(), late, terms); err != nil {
		t.Fatal(err)
	}
	next := b.take() // the period that is running
	if got := next.Period.Sub(late.Period); got != 2*time.Hour {
		t.Errorf("the next period begins %v after one that is 2.5 periods old", got)
	}
	if err := b.store.Finish(t.Context(), next, terms); err != nil {
		t.Fatal(err)
	}
	b.refused()
}

func TestAnUnfinishedPeriodIsDueAgain(t *testing.T) {
	t.Parallel()
	b := setup(t)
	hold := b.take()
	if err := b.store.GiveUp(t.Context(), hold, terms, time.Hour); err != nil {
		t.Fatal(err)
	}
	b.refused() // it rests
	if err := b.store.GiveUp(t.Context(), hold, terms, 0); err != nil {
		t.Fatal(err)
	}
	if again := b.take(); !again.Period.Equal(hold.Period) {
		t.Errorf("period %v, then %v", hold.Period, again.Period)
	}
}

func TestWhoWasReplacedIsTold(t *testing.T) {
	t.Parallel()
	b := setup(t)
	old := b.take()
	b.set(`lease_expires_at = clock_timestamp()`)
	if !b.holds(b.db.Pool, old) {
		t.Error("a lease that ran out matters although nobody came")
	}
	b.take()
	if b.holds(b.db.Pool, old) {
		t.Error("a step of the old holder goes through")
	}
	for doing, err := range map[string]error{
		"renew": b.store.Renew(t.Context(), old, time.Hour), "finish": b.store.Finish(t.Context(), old, terms),
		"give up": b.store.GiveUp(t.Context(), old, terms, 0),
	} {
		if !errors.Is(err, task.ErrReplaced) {
			t.Errorf("%s: %v", doing, err)
		}
	}
	b.refused() // and none of it has touched the new holder's lease
}

func TestAClockThatFellBackStopsNothing(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.take()
	b.set(`lease_expires_at = clock_timestamp() + interval '1 year', due_at = clock_timestamp() + interval '1 year'`)
	b.take()
}

func TestATaskCanBeSwitchedOff(t *testing.T) {
	t.Parallel()
	b := setup(t)
	hold := b.take()
	b.set(`enabled = false, lease_expires_at = NULL`)
	b.refused()
	b.set(`enabled = true`)
	if next := b.take(); !next.Period.Equal(hold.Period) {
		t.Error("another period")
	}
}

// The two orders in which a step and a claim can meet.
func TestAStepAndAClaimMeet(t *testing.T) {
	t.Parallel()

	t.Run("the step is under way", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		old := b.take()
		b.set(`lease_expires_at = clock_timestamp()`)
		step, err := b.db.Pool.Begin(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if !b.holds(step, old) {
			t.Fatal("not held")
		}
		b.refused() // at once, without waiting for the step
		if err := step.Commit(t.Context()); err != nil {
			t.Fatal(err)
		}
		b.take()
	})

	t.Run("the claim is under way", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		old := b.take()
		b.set(`lease_expires_at = clock_timestamp()`)
		claim, err := b.db.Pool.Begin(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if _, err := claim.Exec(t.Context(), `SELECT queen.claim_task($1, 'n', 1000, 1000)`, name); err != nil {
			t.Fatal(err)
		}
		other, err := pg.Open(t.Context(), b.db.Config, pg.Options{Name: "step", Size: 1})
		if err != nil {
			t.Fatal(err)
		}
		defer other.Close()
		held := make(chan bool, 1)
		go func() { held <- b.holds(other, old) }()
		testkit.AwaitBlocked(t, b.db.Pool, "step")
		if err := claim.Commit(t.Context()); err != nil {
			t.Fatal(err)
		}
		if <-held {
			t.Error("the step of a holder that was replaced while it waited goes through")
		}
	})
}

func TestOfManyOneIsGivenTheTask(t *testing.T) {
	t.Parallel()
	b := setup(t)
	const askers = 12
	taken := make(chan bool, askers)
	for range askers {
		go func() {
			_, ok, _, err := b.store.Claim(context.WithoutCancel(t.Context()), name, "m", terms)
			taken <- ok && err == nil
		}()
	}
	n := 0
	for range askers {
		if <-taken {
			n++
		}
	}
	if n != 1 {
		t.Errorf("%d were given the task", n)
	}
}
