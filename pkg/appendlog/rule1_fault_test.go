package appendlog_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"queen.internal/pkg/appendlog"
	"queen.internal/pkg/pg"
	"queen.internal/pkg/pgtest"
	"queen.internal/pkg/store/log"
	"queen.internal/pkg/testkit"
)

// Rule 1: offsets, duplicates and times are decided under the partition's row lock, by statements after the one that
// takes it.

// appendLater runs Append and gives its first result.
func appendLater(t *testing.T, l *appendlog.Log, groups ...appendlog.Group) <-chan appendlog.Result {
	done := make(chan appendlog.Result, 1)
	go func() { done <- l.Append(t.Context(), groups)[0] }()
	return done
}

func inWindow(t *testing.T, pool *pg.Pool, seconds int) {
	t.Helper()
	exec(t, pool, `UPDATE queen.queues SET dedup_window_seconds = $1`, seconds)
}

// wantSoundLog checks what holds of every log: offsets without a gap, and times in their order.
func wantSoundLog(t *testing.T, pool *pg.Pool) {
	t.Helper()
	var gaps, early, ahead int
	if err := pool.QueryRow(t.Context(), `SELECT
		(SELECT count(*) FROM (SELECT base_offset, lag(end_offset, 1, -1::bigint) OVER w AS before FROM queen.segments
			WINDOW w AS (PARTITION BY partition_id ORDER BY base_offset)) s WHERE base_offset <> before + 1),
		(SELECT count(*) FROM (SELECT created_at, lag(created_at) OVER w AS before FROM queen.segments
			WINDOW w AS (PARTITION BY partition_id ORDER BY base_offset)) s WHERE created_at < before),
		(SELECT count(*) FROM queen.partitions p WHERE last_offset <> coalesce((SELECT max(end_offset) FROM queen.segments s WHERE s.partition_id = p.id), -1))`).
		Scan(&gaps, &early, &ahead); err != nil {
		t.Fatal(err)
	}
	if gaps != 0 || early != 0 || ahead != 0 {
		t.Errorf("%d gaps, %d segments older than the one before, %d wrong allocators", gaps, early, ahead)
	}
}

// A process whose call began before another's, and was stopped before its first statement, sees what the other one has
// committed meanwhile: nothing in it goes by the snapshot of the call itself.
func TestRule1ACallBegunEarlySeesWhatWasCommittedBeforeItsLock(t *testing.T) {
	t.Parallel()
	for _, window := range []int{3600, 0} {
		t.Run(fmt.Sprint("Window", window), func(t *testing.T) {
			t.Parallel()
			db := pgtest.New(t)
			first := appendlog.New(log.New(testkit.Pool(t, db.Config, "first", 1)), nil)
			late := appendlog.New(log.New(testkit.Pool(t, db.Config, "late", 1)), nil)
			mustAppend(t, first, group("a", "before"))
			mustAppend(t, late, group("b", "warm")) // its statement is prepared, partition b is known
			inWindow(t, db.Pool, window)
			hold := testkit.StopCalls(t, db.Pool, "late", "append")
			mustAppend(t, late, group("a", "mark")) // knows a, and has planned the stand-in

			release := hold()
			second := appendLater(t, late, group("a", "x", "y"))
			testkit.AwaitBlocked(t, db.Pool, "late")
			original := mustAppend(t, first, group("a", "x", "z"))[0].Outcomes[0]
			release()
			got := <-second
			if got.Err != nil {
				t.Fatal(got.Err)
			}
			want := []string{"before", "mark", "x", "z", "y"}
			if window == 0 {
				want = []string{"before", "mark", "x", "z", "x", "y"}
			} else if diff := cmp.Diff(appendlog.Outcome{Duplicate: true, MessageID: original.MessageID}, got.Outcomes[0]); diff != "" {
				t.Error(diff)
			}
			if diff := cmp.Diff(want, stored(t, db.Pool, "a")); diff != "" {
				t.Error(diff)
			}
			wantSoundLog(t, db.Pool)
		})
	}
}

// The same with the second process stopped by the first one's row lock: the first has written and not committed. What the
// second read before it got the lock would be stale: offsets taken there fail "Fresh", duplicates looked for there fail
// "Duplicates".
func TestRule1AWriterThatWaitedForTheLockSeesWhatItsHolderCommitted(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct{ push, stored []string }{
		"Fresh":      {[]string{"v", "w"}, []string{"before", "mark", "x", "z", "v", "w"}},
		"Duplicates": {[]string{"x", "y"}, []string{"before", "mark", "x", "z", "y"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			db := pgtest.New(t)
			first := appendlog.New(log.New(testkit.Pool(t, db.Config, "first", 1)), nil)
			second := appendlog.New(log.New(testkit.Pool(t, db.Config, "second", 1)), nil)
			mustAppend(t, first, group("a", "before"))
			mustAppend(t, second, group("a", "mark"))
			release := testkit.Brake(t, db.Pool, "first", "BEFORE INSERT", "queen.dedup")
			holder := appendLater(t, first, group("a", "x", "z"))
			testkit.AwaitBlocked(t, db.Pool, "first")
			waiter := appendLater(t, second, group("a", test.push...))
			testkit.AwaitBlocked(t, db.Pool, "second")
			release()
			original, got := <-holder, <-waiter
			if original.Err != nil || got.Err != nil {
				t.Fatal(original.Err, got.Err)
			}
			if name == "Duplicates" {
				want := appendlog.Outcome{Duplicate: true, MessageID: original.Outcomes[0].MessageID}
				if diff := cmp.Diff(want, got.Outcomes[0]); diff != "" {
					t.Error(diff)
				}
			}
			if diff := cmp.Diff(test.stored, stored(t, db.Pool, "a")); diff != "" {
				t.Error(diff)
			}
			wantSoundLog(t, db.Pool)
		})
	}
}

// A writer that rolled back leaves nothing: who waited for it gets its offsets, and its transaction is none.
func TestRule1AWriterThatWaitedForALockSeesNothingOfWhatItsHolderRolledBack(t *testing.T) {
	t.Parallel()
	db := pgtest.New(t)
	first := appendlog.New(log.New(testkit.Pool(t, db.Config, "first", 1)), nil)
	second := appendlog.New(log.New(testkit.Pool(t, db.Config, "second", 1)), nil)
	mustAppend(t, first, group("a", "before"))
	mustAppend(t, second, group("a", "mark"))
	testkit.Brake(t, db.Pool, "first", "BEFORE INSERT", "queen.dedup")
	holder := appendLater(t, first, group("a", "x"))
	testkit.AwaitBlocked(t, db.Pool, "first")
	waiter := appendLater(t, second, group("a", "x"))
	testkit.AwaitBlocked(t, db.Pool, "second")
	exec(t, db.Pool, `SELECT pg_cancel_backend(pid) FROM pg_stat_activity WHERE datname = current_database() AND application_name = 'first'`)
	got := <-waiter
	if got.Err != nil || got.Outcomes[0].Duplicate {
		t.Errorf("%+v", got)
	}
	exec(t, db.Pool, `DROP TRIGGER `+brakeOf(t, db.Pool)+` ON queen.dedup`) // the holder's repetition finds the road free
	if again := <-holder; again.Err != nil || !again.Outcomes[0].Duplicate || again.Outcomes[0].MessageID != got.Outcomes[0].MessageID {
		t.Errorf("%+v, the waiter's %+v", again, got)
	}
	if diff := cmp.Diff([]string{"before", "mark", "x"}, stored(t, db.Pool, "a")); diff != "" {
		t.Error(diff)
	}
	wantSoundLog(t, db.Pool)
}

func brakeOf(t *testing.T, pool *pg.Pool) (trigger string) {
	t.Helper()
	if err := pool.QueryRow(t.Context(), `SELECT tgname FROM pg_trigger WHERE tgrelid = 'queen.dedup'::regclass AND NOT tgisinternal`).Scan(&trigger); err != nil {
		t.Fatal(err)
	}
	return trigger
}

// Commit order is offset order is time order, whatever the clock does.
func TestRule1TimesKeepTheOrderOfOffsetsThoughTheClockStepsBack(t *testing.T) {
	t.Parallel()
	d := testkit.NewClockDatabase(t)
	l := appendlog.New(log.New(d.Pool), nil)
	mustAppend(t, l, group("a", "1"))
	d.Step(t, -time.Hour)
	mustAppend(t, l, group("a", "2"), group("b", "1"))
	if r := mustAppend(t, l, group("a", "1", "3")); !r[0].Outcomes[0].Duplicate {
		t.Errorf("what was stored before the step is forgotten: %+v", r[0].Outcomes)
	}
	d.Step(t, 2*time.Hour)
	mustAppend(t, l, group("a", "4"))
	if diff := cmp.Diff([]string{"1", "2", "3", "4"}, stored(t, d.Pool, "a")); diff != "" {
		t.Error(diff)
	}
	wantSoundLog(t, d.Pool)
}

// The queue is deleted, and another one made under its name, after the call has begun: the append re-reads the queue
// under the lock.
func TestRule11ACallBegunEarlyDoesNotAppendToAQueueDeletedMeanwhile(t *testing.T) {
	t.Parallel()
	db := pgtest.New(t)
	first := appendlog.New(log.New(testkit.Pool(t, db.Config, "first", 1)), nil)
	late := appendlog.New(log.New(testkit.Pool(t, db.Config, "late", 1)), nil)
	mustAppend(t, late, group("a", "old"))
	hold := testkit.StopCalls(t, db.Pool, "late", "append")
	release := hold()
	second := appendLater(t, late, group("a", "old"))
	testkit.AwaitBlocked(t, db.Pool, "late")
	exec(t, db.Pool, `UPDATE queen.queues SET deleted_at = clock_timestamp()`)
	mustAppend(t, first, group("a", "new"))
	release()
	if r := <-second; r.Err != nil || r.Outcomes[0].Duplicate {
		t.Errorf("%+v", r)
	}
	if diff := cmp.Diff([]string{"new", "old"}, stored(t, db.Pool, "a")); diff != "" {
		t.Error(diff)
	}
}

// Rule 3: a duplicate writes nothing.
func TestRule3AnAppendOfDuplicatesAloneWritesNoRow(t *testing.T) {
	t.Parallel()
	pool := pgtest.DB(t)
	l := appendlog.New(log.New(pool), nil)
	mustAppend(t, l, group("a", "x", "y"), group("b", "x"))
	rows := func() (all string) {
		if err := pool.QueryRow(t.Context(), `SELECT concat_ws(' ',
			(SELECT array_agg((ctid, xmin, last_offset, last_tag) ORDER BY id) FROM queen.partitions),
			(SELECT array_agg((ctid, xmin) ORDER BY ctid) FROM queen.segments), (SELECT array_agg((ctid, xmin) ORDER BY ctid) FROM queen.dedup))`).
			Scan(&all); err != nil {
			t.Fatal(err)
		}
		return all
	}
	before := rows()
	for _, r := range mustAppend(t, appendlog.New(log.New(pool), nil), group("a", "y", "x"), group("b", "x")) {
		for _, outcome := range r.Outcomes {
			if !outcome.Duplicate {
				t.Errorf("%+v", outcome)
			}
		}
	}
	if diff := cmp.Diff(before, rows()); diff != "" {
		t.Error(diff)
	}
}
