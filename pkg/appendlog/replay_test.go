package appendlog_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"

	"queen.internal/pkg/appendlog"
	"queen.internal/pkg/pg"
	"queen.internal/pkg/pgtest"
	"queen.internal/pkg/queue"
	"queen.internal/pkg/segment"
	"queen.internal/pkg/store/deadletter"
	"queen.internal/pkg/store/log"
	"queen.internal/pkg/testkit"
)

// fileLetters makes dead letters of partition a; the queue and the partition are created when they are missing.
func fileLetters(t *testing.T, pool *pg.Pool, n int) []uuid.UUID {
	t.Helper()
	found, err := log.New(pool).Ensure(t.Context(), []log.Key{group("a").Key})
	if err != nil {
		t.Fatal(err)
	}
	ids := make([]uuid.UUID, n)
	for i := range ids {
		ids[i] = uuid.New()
		exec(t, pool, `INSERT INTO queen.dlq SELECT $1, queue_id, id, $3::bigint, clock_timestamp(), clock_timestamp(), 0, gen_random_uuid(), 'g', $3::bigint::text, 'why', '1'
			FROM queen.partitions WHERE id = $2`, [16]byte(ids[i]), found[0].ID, i)
	}
	return ids
}

// replayOf is the replay of a letter to a partition.
func replayOf(letter uuid.UUID, partition string) *appendlog.Replay {
	return &appendlog.Replay{
		Tenant: queue.DefaultTenant, Letter: letter, Key: group(partition).Key,
		Message: segment.Message{ID: queue.NewID(), TransactionID: "dlq:" + letter.String(), Payload: []byte(`1`)},
	}
}

func letters(t *testing.T, pool *pg.Pool) (n int) {
	t.Helper()
	if err := pool.QueryRow(t.Context(), `SELECT count(*) FROM queen.dlq`).Scan(&n); err != nil {
		t.Fatal(err)
	}
	return n
}

const replayCall = "queen.replay_dead_letter("

func TestReplayMovesADeadLetterToTheEnd(t *testing.T) {
	t.Parallel()
	pool := pgtest.DB(t)
	var heard []appendlog.Announcement
	l := appendlog.New(log.New(pool), func(all []appendlog.Announcement) { heard = append(heard, all...) })
	ids := fileLetters(t, pool, 2)
	mustAppend(t, l, group("a", "x", "y"))
	heard = nil
	outcome, offset, err := l.Replay(t.Context(), replayOf(ids[0], "a"))
	if err != nil || outcome != appendlog.Moved || offset != 2 {
		t.Errorf("outcome %d at %d, %v", outcome, offset, err)
	}
	if diff := cmp.Diff([]string{"x", "y", "dlq:" + ids[0].String()}, stored(t, pool, "a")); diff != "" {
		t.Error(diff)
	}
	if len(heard) != 1 || heard[0].LastOffset != 2 || heard[0].Key != group("a").Key {
		t.Errorf("announced %+v", heard)
	}
	if n := letters(t, pool); n != 1 {
		t.Errorf("%d dead letters are left", n)
	}
	outcome, _, err = l.Replay(t.Context(), replayOf(ids[0], "a"))
	if err != nil || outcome != appendlog.NoSuchDeadLetter {
		t.Errorf("once more: outcome %d, %v", outcome, err)
	}
	elsewhere := replayOf(ids[1], "new")
	elsewhere.Key.Queue = "another"
	if outcome, offset, err = l.Replay(t.Context(), elsewhere); err != nil || outcome != appendlog.Moved || offset != 0 {
		t.Errorf("to a queue that was not there: outcome %d at %d, %v", outcome, offset, err)
	}
	mustAppend(t, l, group("a", "z")) // what is remembered of the partition fits to it
	wantSoundLog(t, pool)
}

func TestReplayChangesNothingWhereItCannotMove(t *testing.T) {
	t.Parallel()
	pool := pgtest.DB(t)
	l := appendlog.New(log.New(pool), func([]appendlog.Announcement) { t.Error("announced") })
	ids := fileLetters(t, pool, 2)
	quiet := appendlog.New(log.New(pool), nil)
	mustAppend(t, quiet, group("a", "dlq:"+ids[0].String()))

	foreign := replayOf(ids[1], "a")
	foreign.Tenant = uuid.Max
	for name, test := range map[string]struct {
		replay *appendlog.Replay
		want   appendlog.ReplayOutcome
	}{
		"its transaction id is there":     {replayOf(ids[0], "a"), appendlog.AlreadyInLog},
		"another tenant's":                {foreign, appendlog.NoSuchDeadLetter},
		"a dead letter that is not there": {replayOf(uuid.New(), "a"), appendlog.NoSuchDeadLetter},
	} {
		if outcome, _, err := l.Replay(t.Context(), test.replay); err != nil || outcome != test.want {
			t.Errorf("%s: outcome %d, %v", name, outcome, err)
		}
	}
	exec(t, pool, `UPDATE queen.queues SET encryption_enabled = true`)
	if _, _, err := l.Replay(t.Context(), replayOf(ids[1], "a")); !errors.Is(err, appendlog.ErrMustSeal) {
		t.Errorf("plain, to a queue with encryption: %v", err)
	}
	if got, n := stored(t, pool, "a"), letters(t, pool); len(got) != 1 || n != 2 {
		t.Errorf("the log has %v, and %d dead letters are left", got, n)
	}
	sealed := replayOf(ids[1], "a")
	sealed.Sealed = true
	if outcome, _, err := quiet.Replay(t.Context(), sealed); err != nil || outcome != appendlog.Moved {
		t.Errorf("sealed: outcome %d, %v", outcome, err)
	}
	exec(t, pool, `UPDATE queen.queues SET encryption_enabled = false`)
	exec(t, pool, `UPDATE queen.queues SET deleted_at = clock_timestamp()`)
	if outcome, _, err := quiet.Replay(t.Context(), replayOf(ids[0], "b")); err != nil || outcome != appendlog.NoSuchDeadLetter {
		t.Errorf("of a deleted queue: outcome %d, %v", outcome, err)
	}
}

func TestReplayOfOneDeadLetterByManyMovesItOnce(t *testing.T) {
	t.Parallel()
	pool := pgtest.DB(t)
	ids := fileLetters(t, pool, 5)
	for _, id := range ids {
		outcomes := make([]appendlog.ReplayOutcome, 4)
		var wg sync.WaitGroup
		for i := range outcomes {
			wg.Go(func() {
				// To different places, so that no partition's lock puts them in order.
				outcome, _, err := appendlog.New(log.New(pool), nil).Replay(t.Context(), replayOf(id, fmt.Sprint("p", i)))
				if err != nil {
					t.Error(err)
				}
				outcomes[i] = outcome
			})
		}
		wg.Wait()
		slices.Sort(outcomes)
		want := []appendlog.ReplayOutcome{appendlog.Moved, appendlog.NoSuchDeadLetter, appendlog.NoSuchDeadLetter, appendlog.NoSuchDeadLetter}
		if diff := cmp.Diff(want, outcomes); diff != "" {
			t.Error(diff)
		}
	}
	var messages int
	if err := pool.QueryRow(t.Context(), `SELECT sum(last_offset + 1) FROM queen.partitions`).Scan(&messages); err != nil {
		t.Fatal(err)
	}
	if messages != len(ids) || letters(t, pool) != 0 {
		t.Errorf("%d dead letters became %d messages", len(ids), messages)
	}
	wantSoundLog(t, pool)
}

// Replays, purges, removals by address and pushes to the same partition meet in every order. Each dead letter ends in one
// way, and nobody waits for somebody who waits for him.
func TestReplayAgainstPurgesAndPushes(t *testing.T) {
	t.Parallel()
	db := pgtest.New(t)
	pool := testkit.Pool(t, db.Config, "many", 8)
	ids := fileLetters(t, pool, 120)
	var uid uuid.UUID
	if err := pool.QueryRow(t.Context(), `SELECT uid FROM queen.partitions`).Scan(&uid); err != nil {
		t.Fatal(err)
	}
	store := deadletter.New(pool)
	var mu sync.Mutex
	moved, removed := 0, 0
	count := func(n *int, by int, err error) {
		mu.Lock()
		defer mu.Unlock()
		if err != nil {
			t.Error(err)
		}
		*n += by
	}
	var wg sync.WaitGroup
	for worker := range 3 {
		l := appendlog.New(log.New(pool), nil)
		wg.Go(func() {
			for i := range ids {
				outcome, _, err := l.Replay(t.Context(), replayOf(ids[(i+worker*40)%len(ids)], []string{"a", "b"}[i%2]))
				if outcome == appendlog.Moved {
					count(&moved, 1, err)
				} else {
					count(&moved, 0, err)
				}
				if i == 30 && worker == 0 {
					n, err := store.Purge(t.Context(), queue.DefaultTenant, group("a").Key.Queue, "")
					count(&removed, n, err)
				}
			}
		})
	}
	wg.Go(func() {
		for i := range 20 {
			n, err := store.Remove(t.Context(), queue.DefaultTenant, uid, fmt.Sprint(i*6))
			count(&removed, n, err)
		}
	})
	wg.Go(func() {
		l := appendlog.New(log.New(pool), nil)
		for i := range 60 {
			for _, r := range l.Append(t.Context(), []appendlog.Group{group("a", fmt.Sprint("a", i)), group("b", fmt.Sprint("b", i))}) {
				count(&moved, 0, r.Err)
			}
		}
	})
	wg.Wait()
	replayed := 0
	for _, id := range append(stored(t, pool, "a"), stored(t, pool, "b")...) {
		if strings.HasPrefix(id, "dlq:") {
			replayed++
		}
	}
	if left := letters(t, pool); replayed != moved || moved+removed+left != len(ids) || left != 0 {
		t.Errorf("of %d dead letters %d were moved (%d are in the log), %d removed and %d left", len(ids), moved, replayed, removed, left)
	}
	var deadlocks int
	if err := pool.QueryRow(t.Context(), `SELECT deadlocks FROM pg_stat_database WHERE datname = current_database()`).Scan(&deadlocks); err != nil || deadlocks != 0 {
		t.Errorf("%d deadlocks, %v", deadlocks, err)
	}
	wantSoundLog(t, pool)
}

// A replay that waits for its dead letter while somebody removes it finds it gone and has appended nothing.
func TestReplayWaitsForWhoeverHasTheDeadLetter(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		end  string
		want appendlog.ReplayOutcome
		left int
	}{
		"removed": {"COMMIT", appendlog.NoSuchDeadLetter, 0},
		"kept":    {"ROLLBACK", appendlog.Moved, 0},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			pool := pgtest.DB(t)
			id := fileLetters(t, pool, 1)[0]
			tx, err := pool.Begin(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			if _, err := tx.Exec(t.Context(), `DELETE FROM queen.dlq`); err != nil {
				t.Fatal(err)
			}
			ended := make(chan appendlog.ReplayOutcome, 1)
			go func() {
				outcome, _, err := appendlog.New(log.New(pool), nil).Replay(t.Context(), replayOf(id, "a"))
				if err != nil {
					t.Error(err)
				}
				ended <- outcome
			}()
			awaitLockWaiter(t, pool)
			if _, err := tx.Exec(t.Context(), test.end); err != nil {
				t.Fatal(err)
			}
			_ = tx.Rollback(t.Context()) // gives the connection back
			if outcome := <-ended; outcome != test.want {
				t.Errorf("outcome %d, want %d", outcome, test.want)
			}
			want := 0
			if test.want == appendlog.Moved {
				want = 1
			}
			if got := stored(t, pool, "a"); len(got) != want || letters(t, pool) != test.left {
				t.Errorf("the log has %v, and %d dead letters are left", got, letters(t, pool))
			}
		})
	}
}

func TestRule9AReplaysLostAnswerIsFoundByItsTag(t *testing.T) {
	t.Parallel()
	eachWindow(t, func(t *testing.T, window int) {
		f := farLog(t, window)
		ids := fileLetters(t, f.pool, 2)
		drop := f.proxy.Next(testkit.DropAnswer, replayCall)
		outcome, offset, err := f.log.Replay(t.Context(), replayOf(ids[0], "a"))
		if a := drop.Answer(t); a.SQLState != "" || a.Status != 'I' {
			t.Fatalf("the dropped answer was no commit: %+v", a)
		}
		if err != nil || outcome != appendlog.Moved || offset != 1 || f.heard["a"] != 1 {
			t.Errorf("outcome %d at %d, %v, announced %v", outcome, offset, err, f.heard)
		}
		f.wantStored("a", "before", "dlq:"+ids[0].String())

		cut := f.proxy.Next(testkit.CutStatement, replayCall)
		outcome, offset, err = f.log.Replay(t.Context(), replayOf(ids[1], "a"))
		cut.Await(t)
		if err != nil || outcome != appendlog.Moved || offset != 2 {
			t.Errorf("one that never arrived: outcome %d at %d, %v", outcome, offset, err)
		}
		f.wantStored("a", "before", "dlq:"+ids[0].String(), "dlq:"+ids[1].String())
	})
}

func TestRule9AReplayWhoseAnswersAreBothLostIsUnknown(t *testing.T) {
	t.Parallel()
	f := farLog(t, 3600)
	id := fileLetters(t, f.pool, 1)[0]
	first, second := f.proxy.Next(testkit.DropAnswer, replayCall), f.proxy.Nth(2, testkit.DropAnswer, replayCall)
	_, _, err := f.log.Replay(t.Context(), replayOf(id, "a"))
	first.Await(t)
	second.Await(t)
	if queue.KindOf(err) != queue.KindUnknown {
		t.Errorf("%v", err)
	}
	if outcome, _, err := f.log.Replay(t.Context(), replayOf(id, "a")); err != nil || outcome != appendlog.NoSuchDeadLetter {
		t.Errorf("once more: outcome %d, %v", outcome, err)
	}
	f.wantStored("a", "before", "dlq:"+id.String())
}
