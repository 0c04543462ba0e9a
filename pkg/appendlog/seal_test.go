package appendlog_test

import (
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"

	"queen.internal/pkg/appendlog"
	"queen.internal/pkg/pg"
	"queen.internal/pkg/pgtest"
	"queen.internal/pkg/queue"
	"queen.internal/pkg/segment"
	"queen.internal/pkg/store/log"
)

// sealed is a group whose payloads count as encrypted. What they hold does not matter here.
func sealed(partition string, transactions ...string) appendlog.Group {
	g := group(partition, transactions...)
	g.Sealed = true
	return g
}

func encryption(t *testing.T, pool *pg.Pool, on bool) {
	t.Helper()
	exec(t, pool, `UPDATE queen.queues SET encryption_enabled = $1 WHERE name = $2`, on, group("").Key.Queue)
}

func refuses(t *testing.T, l *appendlog.Log, g appendlog.Group) {
	t.Helper()
	if got := l.Append(t.Context(), []appendlog.Group{g})[0]; !errors.Is(got.Err, appendlog.ErrMustSeal) || queue.KindOf(got.Err) != queue.KindInvalid {
		t.Errorf("%+v, want a refusal", got)
	}
}

func TestAppendTakesOnlySealedGroupsForAQueueWithEncryption(t *testing.T) {
	t.Parallel()
	pool := pgtest.DB(t)
	l := appendlog.New(log.New(pool), nil)
	mustAppend(t, l, group("a", "clear"))
	encryption(t, pool, true)

	refuses(t, l, group("a", "x"))
	refuses(t, l, group("new partition", "x"))
	other := group("a", "elsewhere")
	other.Key.Queue = "another queue"
	results := l.Append(t.Context(), []appendlog.Group{group("b", "x"), other, sealed("a", "sealed")})
	if !errors.Is(results[0].Err, appendlog.ErrMustSeal) || results[1].Err != nil || results[2].Err != nil {
		t.Errorf("%+v", results)
	}
	if diff := cmp.Diff([]string{"clear", "sealed"}, stored(t, pool, "a")); diff != "" {
		t.Error(diff)
	}
	if got := append(stored(t, pool, "b"), stored(t, pool, "new partition")...); len(got) != 0 {
		t.Errorf("stored %q", got)
	}
	var remembered int
	if err := pool.QueryRow(t.Context(), `SELECT count(*) FROM queen.dedup`).Scan(&remembered); err != nil {
		t.Fatal(err)
	}
	if remembered != 3 {
		t.Errorf("%d segments are remembered, want 3: what was refused must not count as a duplicate later", remembered)
	}

	encryption(t, pool, false)
	mustAppend(t, l, group("a", "x"), sealed("b", "x")) // a reader tells them apart by their shape
}

func TestAppendRefusesAPlainSegmentAmongSealedOnes(t *testing.T) {
	t.Parallel()
	pool := pgtest.DB(t)
	store := log.New(pool)
	found, err := store.Ensure(t.Context(), []log.Key{group("a").Key})
	if err != nil {
		t.Fatal(err)
	}
	encryption(t, pool, true)
	run := func(transaction string, isSealed bool) log.Run {
		return log.Run{
			Partition: found[0], Tag: 1, Segment: segment.Encode(group("a", transaction).Messages),
			Hashes: []uuid.UUID{queue.TransactionHash(transaction)}, Sealed: isSealed,
		}
	}
	placed, err := store.Append(t.Context(), []log.Run{run("x", true), run("y", false)}, log.AppendOptions{Wait: true})
	if err != nil || len(placed) != 1 || placed[0].Verdict != log.MustSeal {
		t.Errorf("%+v, %v", placed, err)
	}
	if got := stored(t, pool, "a"); len(got) != 0 {
		t.Errorf("stored %q", got)
	}
}

func TestAppendJudgesEncryptionAfterItHasTheLock(t *testing.T) {
	t.Parallel()
	pool := pgtest.DB(t)
	mustAppend(t, appendlog.New(log.New(pool), nil), group("a", "before"))
	tx, err := pool.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := tx.Exec(t.Context(), `SELECT FROM queen.partitions FOR NO KEY UPDATE`); err != nil {
		t.Fatal(err)
	}
	// The call begins while the queue takes plain payloads, and waits for the partition.
	waiting := make(chan appendlog.Result)
	go func() {
		waiting <- appendlog.New(log.New(pool), nil).Append(t.Context(), []appendlog.Group{group("a", "x")})[0]
	}()
	awaitLockWaiter(t, pool)
	encryption(t, pool, true)
	if err := tx.Rollback(t.Context()); err != nil {
		t.Fatal(err)
	}
	if got := <-waiting; !errors.Is(got.Err, appendlog.ErrMustSeal) {
		t.Errorf("%+v", got)
	}
	if diff := cmp.Diff([]string{"before"}, stored(t, pool, "a")); diff != "" {
		t.Error(diff)
	}
}

func TestAppendOfDuplicatesAndNewMessagesIsRefusedWholeAndTakenSealed(t *testing.T) {
	t.Parallel()
	pool := pgtest.DB(t)
	l := appendlog.New(log.New(pool), nil)
	first := mustAppend(t, l, group("a", "x"))[0].Outcomes[0].MessageID
	encryption(t, pool, true)
	refuses(t, l, group("a", "x", "y"))
	got := mustAppend(t, l, sealed("a", "x", "y"))[0].Outcomes
	if !got[0].Duplicate || got[0].MessageID != first || got[1].Duplicate {
		t.Errorf("%+v", got)
	}
	if diff := cmp.Diff([]string{"x", "y"}, stored(t, pool, "a")); diff != "" {
		t.Error(diff)
	}
}

func TestAppendFindsAnAttemptThatCommittedBeforeEncryptionWasSwitchedOn(t *testing.T) {
	t.Parallel()
	pool := pgtest.DB(t)
	store := log.New(pool)
	found, err := store.Ensure(t.Context(), []log.Key{group("a").Key})
	if err != nil {
		t.Fatal(err)
	}
	runs := []log.Run{{Partition: found[0], Tag: 42, Segment: segment.Encode(group("a", "x").Messages), Hashes: []uuid.UUID{queue.TransactionHash("x")}}}
	if _, err := store.Append(t.Context(), runs, log.AppendOptions{Wait: true}); err != nil {
		t.Fatal(err)
	}
	encryption(t, pool, true)
	again, err := store.Append(t.Context(), runs, log.AppendOptions{Wait: true, CheckTags: true})
	if err != nil || again[0].Verdict != log.Found {
		t.Errorf("%+v, %v: the lost answer was a success", again, err)
	}
}

func TestAppendByACallerThatKnowsNothingOfSealingStoresNothing(t *testing.T) {
	t.Parallel()
	pool := pgtest.DB(t)
	mustAppend(t, appendlog.New(log.New(pool), nil), group("a", "before"))
	const call = `SELECT verdict FROM queen.append((SELECT array_agg(id) FROM queen.partitions), (SELECT array_agg(uid) FROM queen.partitions),
		ARRAY[7::bigint], ARRAY[1], ARRAY[$1::int], ARRAY[$2::smallint], ARRAY[$3::bytea], ARRAY[$4::uuid], true, false)`
	for _, on := range []bool{true, false} {
		encryption(t, pool, on)
		seg := segment.Encode(group("a", "x").Messages)
		var verdict log.Verdict
		err := pool.QueryRow(t.Context(), call, seg.RawBytes, seg.Codec, seg.Blob, [16]byte(queue.TransactionHash("x"))).Scan(&verdict)
		if want := map[bool]log.Verdict{true: log.Gone, false: log.Appended}[on]; err != nil || verdict != want {
			t.Errorf("encryption %v: verdict %d, %v", on, verdict, err)
		}
	}
}

func TestAppendTakesNoUnknownVerdictForASuccess(t *testing.T) {
	t.Parallel()
	pool := pgtest.DB(t)
	exec(t, pool, `DO $do$
		DECLARE
			v_append oid := (SELECT oid FROM pg_proc WHERE proname = 'append' AND pronamespace = 'queen'::regnamespace);
		BEGIN
			EXECUTE format('CREATE OR REPLACE FUNCTION queen.append(%s) RETURNS %s LANGUAGE sql AS %L',
				pg_get_function_arguments(v_append), pg_get_function_result(v_append),
				'SELECT p_partitions[1], 99::smallint, 0::bigint, now(), NULL::integer[], NULL::bigint[], NULL::bigint');
		END $do$`)
	if got := appendlog.New(log.New(pool), nil).Append(t.Context(), []appendlog.Group{group("a", "x")})[0]; queue.KindOf(got.Err) != queue.KindInternal || got.Err == nil {
		t.Errorf("%+v", got)
	}
}

func TestFlagsOfQueues(t *testing.T) {
	t.Parallel()
	pool := pgtest.DB(t)
	store := log.New(pool)
	mustAppend(t, appendlog.New(store, nil), group("a", "x"))
	encryption(t, pool, true)
	exec(t, pool, `INSERT INTO queen.queues (tenant, name, namespace, task, encryption_enabled, deleted_at)
		VALUES ($1, 'deleted', '', '', true, now())`, [16]byte(queue.DefaultTenant))
	name := group("").Key.Queue
	got, err := store.Flags(t.Context(), []log.Queue{
		{Tenant: queue.DefaultTenant, Name: "unknown"},
		{Tenant: queue.DefaultTenant, Name: name},
		{Tenant: uuid.UUID{1}, Name: name},
		{Tenant: queue.DefaultTenant, Name: "deleted"},
	})
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]log.Flags{{}, {Encryption: true}, {}, {}}, got); diff != "" {
		t.Error(diff)
	}
}
