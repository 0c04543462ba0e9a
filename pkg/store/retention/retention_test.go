package retention_test

import (
	"errors"
	"testing"
	"time"

	"queen.internal/pkg/pgtest"
	"queen.internal/pkg/store/retention"
	"queen.internal/pkg/store/task"
)

func TestMain(m *testing.M) { pgtest.Main(m, pgtest.CheckLeaks) }

// bench is one test's database with somebody who holds a task.
type bench struct {
	*testing.T
	db    pgtest.Database
	store *retention.Store
	tasks *task.Store
	hold  task.Hold
}

func setup(t *testing.T) *bench {
	db := pgtest.New(t)
	b := &bench{T: t, db: db, store: retention.New(db.Pool), tasks: task.New(db.Pool)}
	b.hold = b.take()
	return b
}

// take takes the task, from whoever holds it.
func (b *bench) take() task.Hold {
	b.Helper()
	b.exec(`UPDATE queen.tasks SET lease_expires_at = NULL`)
	hold, taken, _, err := b.tasks.Claim(b.Context(), "t", "m", task.Terms{Period: time.Hour, Lease: time.Hour})
	if err != nil || !taken {
		b.Fatalf("taken %v, %v", taken, err)
	}
	return hold
}

func (b *bench) exec(sql string, args ...any) {
	b.Helper()
	if _, err := b.db.Pool.Exec(b.Context(), sql, args...); err != nil {
		b.Fatal(err)
	}
}

// value reads one number.
func (b *bench) value(sql string, args ...any) (n int64) {
	b.Helper()
	if err := b.db.Pool.QueryRow(b.Context(), sql, args...).Scan(&n); err != nil {
		b.Fatal(err)
	}
	return n
}

func TestTransactionsAreRemovedByAgeAndInBatches(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.exec(`INSERT INTO queen.transactions
		SELECT gen_random_uuid(), gen_random_uuid(), clock_timestamp() - age * interval '1 h', '', '{}', '{}', '{}', '{}', '{}', '{}', '{}', '{}'
		FROM unnest(ARRAY[0, 1, 2, 3, 4, 5]) age`)
	old := b.hold
	b.hold = b.take()
	if _, err := b.store.RemoveTransactions(t.Context(), old, 0, 10); !errors.Is(err, task.ErrReplaced) {
		t.Errorf("who was replaced is told %v", err)
	}
	for _, want := range []int{2, 1, 0} {
		if n, err := b.store.RemoveTransactions(t.Context(), b.hold, 150*time.Minute, 2); err != nil || n != want {
			t.Errorf("%d removed, want %d, %v", n, want, err)
		}
	}
	if n := b.value(`SELECT count(*) FROM queen.transactions`); n != 3 {
		t.Errorf("%d are left", n)
	}
}
