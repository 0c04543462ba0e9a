package appendlog_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"queen.internal/pkg/appendlog"
	"queen.internal/pkg/pg"
	"queen.internal/pkg/pgtest"
	"queen.internal/pkg/queue"
	"queen.internal/pkg/store/admin"
	"queen.internal/pkg/store/log"
	"queen.internal/pkg/testkit"
)

// Rule 11: an append reads the queue's row again under the partition's lock. What had been answered when the deletion began
// is in the old queue, and what begins after the deletion was answered in a new one.

func deleted(t *testing.T, pool *pg.Pool) {
	t.Helper()
	existed, err := admin.New(pool).Delete(t.Context(), queue.DefaultTenant, group("").Key.Queue)
	if err != nil || !existed {
		t.Fatalf("deleted %v: %v", existed, err)
	}
}

// counted is how many messages the partitions of live and of deleted queues hold.
func counted(t *testing.T, pool *pg.Pool) (live, dead int) {
	t.Helper()
	if err := pool.QueryRow(t.Context(), `SELECT coalesce(sum(p.last_offset + 1) FILTER (WHERE q.deleted_at IS NULL), 0),
		coalesce(sum(p.last_offset + 1) FILTER (WHERE q.deleted_at IS NOT NULL), 0)
		FROM queen.partitions p JOIN queen.queues q ON q.id = p.queue_id`).Scan(&live, &dead); err != nil {
		t.Fatal(err)
	}
	return live, dead
}

// logs are two append logs, the second of which has sessions called late, and knows partition a.
func logs(t *testing.T) (pool *pg.Pool, first, late *appendlog.Log) {
	t.Helper()
	db := pgtest.New(t)
	first = appendlog.New(log.New(db.Pool), nil)
	late = appendlog.New(log.New(testkit.Pool(t, db.Config, "late", 1)), nil)
	mustAppend(t, late, group("a", "before"))
	return db.Pool, first, late
}

func wantFresh(t *testing.T, result appendlog.Result) {
	t.Helper()
	if result.Err != nil {
		t.Fatal(result.Err)
	}
	for i, outcome := range result.Outcomes {
		if outcome.Duplicate {
			t.Errorf("message %d is a duplicate of one in the deleted queue", i)
		}
	}
}

func TestRule11AnAppendThatHasNotReadTheQueueYetFollowsToTheNextOne(t *testing.T) {
	t.Parallel()
	pool, first, late := logs(t)
	hold := testkit.StopCalls(t, pool, "late", "append")
	mustAppend(t, late, group("a", "mark"))
	release := hold()
	appending := appendLater(t, late, group("a", "before", "x"))
	testkit.AwaitBlocked(t, pool, "late")
	mustAppend(t, first, group("a", "answered"))
	deleted(t, pool)
	release()
	wantFresh(t, <-appending)
	if diff := cmp.Diff([]string{"before", "x"}, stored(t, pool, "a")); diff != "" {
		t.Error(diff)
	}
	if _, dead := counted(t, pool); dead != 3 {
		t.Errorf("the old queue has %d messages", dead)
	}
}

// The same with the append stopped by another one's row lock, under which the queue is deleted.
func TestRule11AnAppendThatWaitsForThePartitionFollowsToTheNextOne(t *testing.T) {
	t.Parallel()
	pool, _, late := logs(t)
	tx, err := pool.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = tx.Rollback(t.Context()) }()
	if _, err := tx.Exec(t.Context(), `SELECT FROM queen.partitions FOR NO KEY UPDATE`); err != nil {
		t.Fatal(err)
	}
	appending := appendLater(t, late, group("a", "x"))
	testkit.AwaitBlocked(t, pool, "late")
	deleted(t, pool)
	if err := tx.Rollback(t.Context()); err != nil {
		t.Fatal(err)
	}
	wantFresh(t, <-appending)
	if live, dead := counted(t, pool); live != 1 || dead != 1 {
		t.Errorf("%d messages in the new queue, %d in the old one", live, dead)
	}
}

// One that has read the queue's row counts as if it had come before the deletion, which does not wait for it.
func TestRule11AnAppendThatHasReadTheQueueEndsInTheOldOne(t *testing.T) {
	t.Parallel()
	pool, first, late := logs(t)
	release := testkit.Brake(t, pool, "late", "BEFORE INSERT", "queen.segments")
	appending := appendLater(t, late, group("a", "x"))
	testkit.AwaitBlocked(t, pool, "late")
	deleted(t, pool)
	mustAppend(t, first, group("a", "after"))
	release()
	wantFresh(t, <-appending)
	if diff := cmp.Diff([]string{"after"}, stored(t, pool, "a")); diff != "" {
		t.Error(diff)
	}
	if live, dead := counted(t, pool); live != 1 || dead != 2 {
		t.Errorf("%d messages in the new queue, %d in the old one", live, dead)
	}
}

// A group of which one message is a duplicate takes two calls. With the deletion between them, the duplicate is none: its
// original is in no queue that anybody can read.
func TestRule11ADuplicateOfADeletedQueueIsStoredInItsSuccessor(t *testing.T) {
	t.Parallel()
	db := pgtest.New(t)
	proxy, through := testkit.Between(t, db.Config)
	l := appendlog.New(log.New(testkit.Pool(t, through, "late", 2)), nil)
	original := mustAppend(t, l, group("a", "x"))[0].Outcomes[0].MessageID
	trap := proxy.Next(testkit.HoldStatement, "queen.read_segments")
	appending := appendLater(t, l, group("a", "x", "y"))
	trap.Await(t)
	deleted(t, db.Pool)
	trap.Release()
	result := <-appending
	wantFresh(t, result)
	if result.Outcomes[0].MessageID == original {
		t.Error("the answer names the message of the deleted queue")
	}
	if diff := cmp.Diff([]string{"x", "y"}, stored(t, db.Pool, "a")); diff != "" {
		t.Error(diff)
	}
}
