package appendlog_test

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"queen.internal/pkg/appendlog"
	"queen.internal/pkg/pg"
	"queen.internal/pkg/pgtest"
	"queen.internal/pkg/queue"
	"queen.internal/pkg/segment"
	"queen.internal/pkg/store/log"
)

func TestMain(m *testing.M) { pgtest.Main(m, pgtest.CheckLeaks) }

func group(partition string, transactions ...string) appendlog.Group {
	g := appendlog.Group{Key: appendlog.Key{Tenant: queue.DefaultTenant, Queue: "orders.created.eu", Partition: partition}}
	for _, id := range transactions {
		g.Messages = append(g.Messages, segment.Message{ID: queue.NewID(), TransactionID: id, Payload: fmt.Appendf(nil, "%q", id)})
	}
	return g
}

// stored is every transaction id of the partition, in offset order.
func stored(t *testing.T, pool *pg.Pool, partition string) []string {
	t.Helper()
	store := log.New(pool)
	ids, err := store.Ensure(t.Context(), []log.Key{group(partition).Key})
	if err != nil {
		t.Fatal(err)
	}
	segments, err := store.Read(t.Context(), []log.Span{{Partition: ids[0].ID, First: 0, Last: 1 << 40}})
	if err != nil {
		t.Fatal(err)
	}
	var transactions []string
	next := int64(0)
	for i := range segments[0] {
		seg := &segments[0][i]
		if seg.Base != next {
			t.Fatalf("a segment starts at %d instead of %d", seg.Base, next)
		}
		next = seg.End + 1
		msgs, err := seg.Messages()
		if err != nil {
			t.Fatal(err)
		}
		for j := range msgs {
			transactions = append(transactions, msgs[j].TransactionID)
		}
	}
	return transactions
}

func mustAppend(t *testing.T, l *appendlog.Log, groups ...appendlog.Group) []appendlog.Result {
	t.Helper()
	results := l.Append(t.Context(), groups)
	for i := range results {
		if results[i].Err != nil {
			t.Fatal(results[i].Err)
		}
	}
	return results
}

func TestAppendKeepsTheOrderOfEachPartition(t *testing.T) {
	t.Parallel()
	pool := pgtest.DB(t)
	l := appendlog.New(log.New(pool), nil)
	mustAppend(t, l, group("a", "a1", "a2"), group("b", "b1"))
	mustAppend(t, l, group("b", "b2", "b3"), group("a", "a3"))
	if diff := cmp.Diff([]string{"a1", "a2", "a3"}, stored(t, pool, "a")); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff([]string{"b1", "b2", "b3"}, stored(t, pool, "b")); diff != "" {
		t.Error(diff)
	}
	var namespace, task string
	if err := pool.QueryRow(t.Context(), `SELECT namespace, task FROM queen.queues`).Scan(&namespace, &task); err != nil {
		t.Fatal(err)
	}
	if namespace != "orders" || task != "created" {
		t.Errorf("labels %q and %q", namespace, task)
	}
}

func TestAppendDividesLargeGroupsIntoSegmentsOfOneCommit(t *testing.T) {
	t.Parallel()
	pool := pgtest.DB(t)
	l := appendlog.New(log.New(pool), nil)
	var transactions []string
	for i := range 2500 {
		transactions = append(transactions, fmt.Sprint("t", i))
	}
	mustAppend(t, l, group("a", transactions...))
	if diff := cmp.Diff(transactions, stored(t, pool, "a")); diff != "" {
		t.Error(diff)
	}
	var segments, times int
	if err := pool.QueryRow(t.Context(), `SELECT count(*), count(DISTINCT created_at) FROM queen.segments`).Scan(&segments, &times); err != nil {
		t.Fatal(err)
	}
	if segments != 3 || times != 1 {
		t.Errorf("%d segments with %d times", segments, times)
	}
}

func TestAppendNamesTheOriginalsAndStoresTheRest(t *testing.T) {
	t.Parallel()
	pool := pgtest.DB(t)
	l := appendlog.New(log.New(pool), nil)
	first := mustAppend(t, l, group("a", "x", "y"), group("b", "z"))
	second := mustAppend(t, l, group("a", "new1", "y", "new2", "x", "new3"), group("c", "x"))
	got := second[0].Outcomes
	want := []bool{false, true, false, true, false}
	for i := range want {
		if got[i].Duplicate != want[i] {
			t.Errorf("outcome %d: duplicate %v", i, got[i].Duplicate)
		}
	}
	if got[1].MessageID != first[0].Outcomes[1].MessageID || got[3].MessageID != first[0].Outcomes[0].MessageID {
		t.Errorf("originals %v of %v", got, first[0].Outcomes)
	}
	if second[1].Outcomes[0].Duplicate {
		t.Error("the same transaction id in another partition counts as duplicate")
	}
	if diff := cmp.Diff([]string{"x", "y", "new1", "new2", "new3"}, stored(t, pool, "a")); diff != "" {
		t.Error(diff)
	}
}

func TestAppendForgetsTransactionsOutsideTheWindow(t *testing.T) {
	t.Parallel()
	pool := pgtest.DB(t)
	l := appendlog.New(log.New(pool), nil)
	mustAppend(t, l, group("a", "x"))
	exec(t, pool, `UPDATE queen.dedup SET created_at = created_at - interval '3601 s'`)
	if mustAppend(t, l, group("a", "x"))[0].Outcomes[0].Duplicate {
		t.Error("duplicate of a message outside the window")
	}
	exec(t, pool, `UPDATE queen.queues SET dedup_window_seconds = 0`)
	if mustAppend(t, l, group("a", "x"))[0].Outcomes[0].Duplicate {
		t.Error("duplicate without a window")
	}
}

func TestAppendAnswersAllZeroForAnOriginalThatIsGone(t *testing.T) {
	t.Parallel()
	pool := pgtest.DB(t)
	l := appendlog.New(log.New(pool), nil)
	mustAppend(t, l, group("a", "x"))
	exec(t, pool, `DELETE FROM queen.segments`)
	got := mustAppend(t, l, group("a", "x"))[0].Outcomes[0]
	if diff := cmp.Diff(appendlog.Outcome{Duplicate: true, MessageID: uuid.Nil}, got); diff != "" {
		t.Error(diff)
	}
}

func TestAppendOfOneKeyByManyWritersStoresItOnce(t *testing.T) {
	t.Parallel()
	db := pgtest.New(t)
	// Two logs share nothing, like two processes.
	logs := []*appendlog.Log{appendlog.New(log.New(db.Pool), nil), appendlog.New(log.New(db.Pool), nil)}
	for round := range 20 {
		key := fmt.Sprint("round", round)
		var group8 sync.WaitGroup
		outcomes := make([]appendlog.Outcome, 8)
		for i := range outcomes {
			group8.Go(func() {
				result := logs[i%2].Append(t.Context(), []appendlog.Group{group("a", key)})[0]
				if result.Err != nil {
					t.Error(result.Err)
					return
				}
				outcomes[i] = result.Outcomes[0]
			})
		}
		group8.Wait()
		originals := slices.DeleteFunc(slices.Clone(outcomes), func(o appendlog.Outcome) bool { return o.Duplicate })
		if len(originals) != 1 {
			t.Fatalf("%d originals: %v", len(originals), outcomes)
		}
		for _, o := range outcomes {
			if o.MessageID != originals[0].MessageID {
				t.Fatalf("several ids: %v", outcomes)
			}
		}
	}
	if n := len(stored(t, db.Pool, "a")); n != 20 {
		t.Errorf("%d messages stored", n)
	}
}

func TestAppendByConcurrentWritersLosesNothingAndKeepsEachWritersOrder(t *testing.T) {
	t.Parallel()
	db := pgtest.New(t)
	partitions := []string{"a", "b", "c"}
	var writers sync.WaitGroup
	const count, rounds = 6, 15
	for w := range count {
		l := appendlog.New(log.New(db.Pool), nil)
		writers.Go(func() {
			for round := range rounds {
				var groups []appendlog.Group
				for _, p := range partitions {
					groups = append(groups, group(p, fmt.Sprintf("%d:%03d:1", w, round), fmt.Sprintf("%d:%03d:2", w, round)))
				}
				slices.Reverse(groups[:w%3]) // every order in which locks could be asked for
				for _, r := range l.Append(t.Context(), groups) {
					if r.Err != nil {
						t.Error(r.Err)
					}
				}
			}
		})
	}
	writers.Wait()
	for _, p := range partitions {
		all := stored(t, db.Pool, p)
		if len(all) != count*rounds*2 {
			t.Errorf("partition %s holds %d messages", p, len(all))
		}
		for w := range count {
			var own []string
			for _, id := range all {
				if strings.HasPrefix(id, fmt.Sprint(w, ":")) {
					own = append(own, id)
				}
			}
			if !slices.IsSorted(own) {
				t.Errorf("writer %d out of order in %s: %v", w, p, own)
			}
		}
	}
	var deadlocks int
	if err := db.Pool.QueryRow(t.Context(), `SELECT deadlocks FROM pg_stat_database WHERE datname = current_database()`).Scan(&deadlocks); err != nil {
		t.Fatal(err)
	}
	if deadlocks != 0 {
		t.Errorf("%d deadlocks", deadlocks)
	}
}

func TestAppendJudgesDuplicatesAfterItHasTheLock(t *testing.T) {
	t.Parallel()
	db := pgtest.New(t)
	mustAppend(t, appendlog.New(log.New(db.Pool), nil), group("a", "before"))

	// A writer that holds the partition and has not committed yet; the second one's call begins meanwhile.
	tx, err := db.Pool.BeginTx(t.Context(), pgx.TxOptions{})
	if err != nil {
		t.Fatal(err)
	}
	hash := queue.TransactionHash("x")
	seg := segment.Encode(group("a", "x").Messages)
	if _, err := tx.Exec(t.Context(), `SELECT * FROM queen.append((SELECT array_agg(id) FROM queen.partitions), (SELECT array_agg(uid) FROM queen.partitions), ARRAY[7::bigint],
		ARRAY[1], ARRAY[$1::int], ARRAY[$2::smallint], ARRAY[$3::bytea], ARRAY[$4::uuid], true, false)`,
		seg.RawBytes, seg.Codec, seg.Blob, [16]byte(hash)); err != nil {
		t.Fatal(err)
	}
	second := make(chan appendlog.Result)
	go func() {
		second <- appendlog.New(log.New(db.Pool), nil).Append(t.Context(), []appendlog.Group{group("a", "x")})[0]
	}()
	awaitLockWaiter(t, db.Pool)
	if err := tx.Commit(t.Context()); err != nil {
		t.Fatal(err)
	}
	got := <-second
	if got.Err != nil || !got.Outcomes[0].Duplicate {
		t.Errorf("%+v", got)
	}
}

// awaitLockWaiter returns once a session of the test's database waits for a lock.
func awaitLockWaiter(t *testing.T, pool *pg.Pool) {
	t.Helper()
	for waiting := 0; waiting == 0; {
		// pg_sleep is the server's own pace of looking again.
		err := pool.QueryRow(t.Context(), `SELECT count(*) FROM pg_stat_activity, pg_sleep(0.01)
			WHERE datname = current_database() AND wait_event_type = 'Lock'`).Scan(&waiting)
		if err != nil {
			t.Fatal(err)
		}
	}
}

func TestAppendFollowsAQueueThatIsDeletedAndCreatedAgain(t *testing.T) {
	t.Parallel()
	pool := pgtest.DB(t)
	l := appendlog.New(log.New(pool), nil)
	mustAppend(t, l, group("a", "x"))
	exec(t, pool, `UPDATE queen.queues SET deleted_at = clock_timestamp()`)
	if mustAppend(t, l, group("a", "x"))[0].Outcomes[0].Duplicate {
		t.Error("the new queue remembers the old one's transaction")
	}
	if diff := cmp.Diff([]string{"x"}, stored(t, pool, "a")); diff != "" {
		t.Error(diff)
	}
}

func TestAppendFindsAnEarlierAttemptByItsTag(t *testing.T) {
	t.Parallel()
	pool := pgtest.DB(t)
	store := log.New(pool)
	ids, err := store.Ensure(t.Context(), []log.Key{group("a").Key})
	if err != nil {
		t.Fatal(err)
	}
	exec(t, pool, `UPDATE queen.queues SET dedup_window_seconds = 0`) // the tag alone must do
	runs := []log.Run{{Partition: ids[0], Tag: 42, Segment: segment.Encode(group("a", "x").Messages), Hashes: []uuid.UUID{queue.TransactionHash("x")}}}
	first, err := store.Append(t.Context(), runs, log.AppendOptions{Wait: true})
	if err != nil {
		t.Fatal(err)
	}
	again, err := store.Append(t.Context(), runs, log.AppendOptions{Wait: true, CheckTags: true})
	if err != nil {
		t.Fatal(err)
	}
	if first[0].Verdict != log.Appended || again[0].Verdict != log.Found || again[0].Base != first[0].Base || !again[0].CreatedAt.Equal(first[0].CreatedAt) {
		t.Errorf("%+v, then %+v", first, again)
	}
	if diff := cmp.Diff([]string{"x"}, stored(t, pool, "a")); diff != "" {
		t.Error(diff)
	}
}

func TestAppendAnnouncesWhatItCommitted(t *testing.T) {
	t.Parallel()
	pool := pgtest.DB(t)
	var heard []appendlog.Announcement
	l := appendlog.New(log.New(pool), func(a []appendlog.Announcement) { heard = append(heard, a...) })
	mustAppend(t, l, group("a", "x", "y"))
	mustAppend(t, l, group("a", "x", "z"))
	mustAppend(t, l, group("a", "x", "z"))
	if len(heard) != 2 || heard[0].LastOffset != 1 || heard[1].LastOffset != 2 || heard[1].Key.Partition != "a" {
		t.Errorf("%+v", heard)
	}
}

func TestAppendFailsWithAKindWhileTheDatabaseIsAway(t *testing.T) {
	t.Parallel()
	db := pgtest.New(t)
	config := db.Config
	config.Port = 1 // nothing listens there
	pool, err := pg.Open(t.Context(), config, pg.Options{Name: "test"})
	if err != nil {
		t.Fatal(err)
	}
	defer pool.Close()
	got := appendlog.New(log.New(pool), nil).Append(t.Context(), []appendlog.Group{group("a", "x")})[0]
	if queue.KindOf(got.Err) != queue.KindUnavailable {
		t.Errorf("%v", got.Err)
	}
}

func exec(t *testing.T, pool *pg.Pool, sql string, args ...any) {
	t.Helper()
	if _, err := pool.Exec(t.Context(), sql, args...); err != nil {
		t.Fatal(err)
	}
}
