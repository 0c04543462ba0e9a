package appendlog_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"runtime"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"queen.internal/pkg/appendlog"
	"queen.internal/pkg/pgtest"
	"queen.internal/pkg/queue"
	"queen.internal/pkg/segment"
	"queen.internal/pkg/store/log"
)

// A client repeats a whole request after a lost answer: a thousand duplicates whose originals share one segment, which
// must be read once. Not parallel, because it reads what the whole program allocates.
func TestAppendOfAThousandDuplicatesReadsTheirSegmentOnce(t *testing.T) {
	pool := pgtest.DB(t)
	l := appendlog.New(log.New(pool), nil)
	g := group("a")
	random := rand.NewChaCha8([32]byte{})
	for i := range 1000 {
		payload := make([]byte, 900)
		_, _ = random.Read(payload) // never fails
		g.Messages = append(g.Messages, segment.Message{ID: queue.NewID(), TransactionID: fmt.Sprint("t", i), Payload: payload})
	}
	first := mustAppend(t, l, g)
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	again := mustAppend(t, l, g)
	runtime.ReadMemStats(&after)
	for i, outcome := range again[0].Outcomes {
		if !outcome.Duplicate || outcome.MessageID != first[0].Outcomes[i].MessageID {
			t.Fatalf("message %d: %+v, first %+v", i, outcome, first[0].Outcomes[i])
		}
	}
	if allocated := (after.TotalAlloc - before.TotalAlloc) >> 20; allocated > 100 {
		t.Errorf("%d MiB allocated for a segment of one", allocated)
	}
}

// A caller that gives up while its commit is under way must learn that the outcome is unknown.
func TestAppendCancelledAfterItWasSentIsUnknown(t *testing.T) {
	t.Parallel()
	db := pgtest.New(t)
	l := appendlog.New(log.New(db.Pool), nil)
	mustAppend(t, l, group("a", "before"))
	exec(t, db.Pool, `CREATE FUNCTION slow() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN PERFORM pg_sleep(1); RETURN NULL; END $$`)
	exec(t, db.Pool, `CREATE CONSTRAINT TRIGGER slow AFTER INSERT ON queen.segments DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION slow()`)
	ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
	defer cancel()
	r := l.Append(ctx, []appendlog.Group{group("a", "x")})[0]
	if queue.KindOf(r.Err) != queue.KindUnknown {
		t.Errorf("kind %v: %v", queue.KindOf(r.Err), r.Err)
	}
}

// A queue whose row is locked (a registration of a million partitions) must not fail the other groups of a flush.
func TestProvisioningThatIsBlockedFailsAlone(t *testing.T) {
	t.Parallel()
	db := pgtest.New(t)
	l := appendlog.New(log.New(db.Pool), nil)
	mustAppend(t, l, group("a", "before"))
	tx, err := db.Pool.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = tx.Rollback(context.Background()) }()
	if _, err := tx.Exec(t.Context(), `SELECT FROM queen.queues FOR NO KEY UPDATE`); err != nil {
		t.Fatal(err)
	}
	other := group("x", "1")
	other.Key.Queue = "another"
	r := l.Append(t.Context(), []appendlog.Group{group("a", "known partition"), group("new", "1"), other})
	if r[0].Err != nil || r[2].Err != nil {
		t.Errorf("groups that nothing blocks failed: %v, %v", r[0].Err, r[2].Err)
	}
	if queue.KindOf(r[1].Err) != queue.KindUnavailable {
		t.Errorf("the blocked one: %v", r[1].Err)
	}
}

// A frozen session holds five partitions: one wait is enough to learn it, and what is free goes through.
func TestAppendToManyLockedPartitionsWaitsOnce(t *testing.T) {
	t.Parallel()
	db := pgtest.New(t)
	l := appendlog.New(log.New(db.Pool), nil)
	groups := func(transaction string) (all []appendlog.Group) {
		for i := range 6 {
			all = append(all, group(fmt.Sprint(i), transaction))
		}
		return all
	}
	mustAppend(t, l, groups("a")...)
	tx, err := db.Pool.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = tx.Rollback(context.Background()) }()
	if _, err := tx.Exec(t.Context(), `SELECT FROM queen.partitions WHERE name <> '5' FOR NO KEY UPDATE`); err != nil {
		t.Fatal(err)
	}
	calls := db.Pool.Stat().AcquireCount()
	r := l.Append(t.Context(), groups("b"))
	for i := range r {
		if (r[i].Err != nil) != (i < 5) || i < 5 && queue.KindOf(r[i].Err) != queue.KindUnavailable {
			t.Errorf("partition %d: %v", i, r[i].Err)
		}
	}
	// What is free, nothing is free, the wait, and once more what is free.
	if calls = db.Pool.Stat().AcquireCount() - calls; calls > 4 {
		t.Errorf("%d calls", calls)
	}
}

// After a failover that lost a partition, its number may stand for another one.
func TestAppendNeverTrustsANumberAlone(t *testing.T) {
	t.Parallel()
	pool := pgtest.DB(t)
	l := appendlog.New(log.New(pool), nil)
	mustAppend(t, l, group("a", "x"))
	exec(t, pool, `UPDATE queen.partitions SET uid = gen_random_uuid(), name = 'somebody else''s'`)
	mustAppend(t, l, group("a", "y"))
	for partition, want := range map[string][]string{"a": {"y"}, "somebody else's": {"x"}} {
		if diff := cmp.Diff(want, stored(t, pool, partition)); diff != "" {
			t.Errorf("%s: %s", partition, diff)
		}
	}
}
