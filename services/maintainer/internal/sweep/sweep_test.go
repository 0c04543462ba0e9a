package sweep

import (
	"context"
	"log/slog"
	"testing"
	"time"

	"queen.internal/pkg/pgtest"
	"queen.internal/pkg/store/retention"
	"queen.internal/pkg/store/task"
	"queen.internal/services/maintainer/internal/claim"
)

func TestMain(m *testing.M) { pgtest.Main(m, pgtest.CheckLeaks) }

// works does the work of one period and gives what it told.
func works(t *testing.T, db pgtest.Database, name string, w work) (told string) {
	t.Helper()
	worker := claim.Worker{Store: task.New(db.Pool), Holder: "m", Logger: slog.New(slog.DiscardHandler), Tasks: []claim.Task{
		{Name: name, Terms: task.Terms{Period: time.Millisecond, Lease: time.Hour}, Work: w},
	}}
	if err := worker.Once(t.Context(), func(_ string, o claim.Outcome, _ error) {
		for _, a := range o.Told {
			told += a.String() + " "
		}
	}); err != nil {
		t.Fatal(err)
	}
	return told
}

func exec(t *testing.T, db pgtest.Database, sql string, args ...any) {
	t.Helper()
	if _, err := db.Pool.Exec(t.Context(), sql, args...); err != nil {
		t.Fatal(err)
	}
}

// Each work goes on over many steps until nothing is left, and has nothing to tell then.
func TestWorks(t *testing.T) {
	t.Parallel()
	db := pgtest.New(t)
	s := Sweeper{Store: retention.New(db.Pool), Batch: 3}
	exec(t, db, `INSERT INTO queen.queues (tenant, name, namespace, task) SELECT gen_random_uuid(), 'q' || g, '', '' FROM generate_series(1, 2) g`)
	exec(t, db, `INSERT INTO queen.partitions (queue_id, name, created_at) SELECT q.id, g, now() - interval '2 h' FROM queen.queues q, generate_series(1, 10) g`)
	exec(t, db, `INSERT INTO queen.cursors (subscription_id, partition_id, committed) SELECT s, p.id, -1 FROM queen.partitions p, generate_series(100, 101) s`)
	exec(t, db, `INSERT INTO queen.transactions
		SELECT gen_random_uuid(), gen_random_uuid(), now() - interval '2 h', '', '{}', '{}', '{}', '{}', '{}', '{}', '{}', '{}' FROM generate_series(1, 10)`)
	exec(t, db, `UPDATE queen.queues SET deleted_at = now() - interval '2 h' WHERE name = 'q2'`)
	for _, c := range []struct {
		name string
		work func(context.Context, *claim.Lease) ([]slog.Attr, error)
		want string
	}{
		{"transactions", s.Aged("transactions_deleted", time.Hour, s.Store.RemoveTransactions), "transactions_deleted=10 "},
		{"cursors", s.OrphanCursors, "cursors_deleted=40 "},
		{"queues", s.DeletedQueues, "rows_deleted=10 queues_reaped=1 "},
		{"marks", s.Aged("queues_forgotten", time.Hour, s.Store.ForgetDeletedQueues), "queues_forgotten=1 "},
		{"partitions", s.IdlePartitions(time.Hour), "partitions_deleted=10 "},
	} {
		for _, want := range []string{c.want, ""} {
			if told := works(t, db, c.name, c.work); told != want {
				t.Errorf("%s tells %q, want %q", c.name, told, want)
			}
		}
	}
}
