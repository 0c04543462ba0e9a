package appendlog_test

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"

	"queen.internal/pkg/appendlog"
	"queen.internal/pkg/pgtest"
	"queen.internal/pkg/queue"
	"queen.internal/pkg/store/log"
	"queen.internal/pkg/testkit"
)

var spoolID = uuid.MustParse("0198c1d2-0000-7000-8000-00000000000a")

const spooledCall = "queen.append_spooled("

func spooled(g appendlog.Group, first, last int64) appendlog.Spooled {
	return appendlog.Spooled{Group: g, First: first, Last: last, Age: time.Minute}
}

// replay fails the test unless every group was settled.
func replay(t *testing.T, l *appendlog.Log, groups ...appendlog.Spooled) {
	t.Helper()
	for i, r := range l.ReplaySpooled(t.Context(), spoolID, groups) {
		if r.Err != nil || !r.Settled {
			t.Errorf("group %d: %+v", i, r)
		}
	}
}

// A record is appended once, however late it comes again, with deduplication or without.
func TestSpooledRecordsAreAppendedOnceWhateverTheWindow(t *testing.T) {
	t.Parallel()
	eachWindow(t, func(t *testing.T, window int) {
		f := farLog(t, window)
		one, two, three := group("a", "1"), group("a", "2"), group("a", "3")
		replay(t, f.log, spooled(one, 1, 1), spooled(group("b", "x"), 2, 2))
		both := group("a")
		both.Messages = append(append(both.Messages, one.Messages...), two.Messages...)
		r := f.log.ReplaySpooled(t.Context(), spoolID, []appendlog.Spooled{spooled(both, 1, 3), spooled(group("c", "new"), 4, 4)})
		if diff := cmp.Diff([]appendlog.Replayed{{SettledUpTo: 1}, {Settled: true}}, r); diff != "" {
			t.Error(diff)
		}
		replay(t, f.log, spooled(two, 3, 3))
		replay(t, f.log, spooled(three, 5, 5))
		if again := f.log.ReplaySpooled(t.Context(), spoolID, []appendlog.Spooled{spooled(one, 1, 1)}); !again[0].Settled {
			t.Errorf("%+v", again)
		}
		f.wantStored("a", "before", "1", "2", "3")
		f.wantStored("b", "x")
		f.wantStored("c", "new")
		if diff := cmp.Diff(map[string]int64{"a": 3, "b": 0, "c": 0}, f.heard); diff != "" {
			t.Errorf("announced: %s", diff)
		}
		// Another spool has sequences of its own.
		if other := f.log.ReplaySpooled(t.Context(), uuid.New(), []appendlog.Spooled{spooled(group("a", "4"), 1, 1)}); !other[0].Settled {
			t.Errorf("%+v", other)
		}
		f.wantStored("a", "before", "1", "2", "3", "4")
	})
}

func TestARecordWhoseReplayWasNotConfirmedComesAgain(t *testing.T) {
	t.Parallel()
	eachWindow(t, func(t *testing.T, window int) {
		f := farLog(t, window)
		for i, action := range []testkit.Action{testkit.CutStatement, testkit.DropAnswer} {
			sequence := int64(i + 1)
			g := group("a", fmt.Sprint(sequence))
			f.proxy.Next(action, spooledCall)
			r := f.log.ReplaySpooled(t.Context(), spoolID, []appendlog.Spooled{spooled(g, sequence, sequence)})[0]
			if kind := queue.KindOf(r.Err); kind != queue.KindUnknown {
				t.Fatalf("%d: %+v", sequence, r)
			}
			replay(t, f.log, spooled(g, sequence, sequence))
		}
		f.wantStored("a", "before", "1", "2")
	})
}

func TestAnAttemptThatCommittedIsFoundByItsTagWhenItsRecordIsReplayed(t *testing.T) {
	t.Parallel()
	eachWindow(t, func(t *testing.T, window int) {
		for _, committed := range []bool{true, false} {
			f := farLog(t, window)
			action := testkit.CutStatement
			if committed {
				action = testkit.DropAnswer
			}
			f.proxy.Next(action, appendCall)
			f.proxy.Nth(2, testkit.CutStatement, appendCall)
			g := group("a", "before", "1", "2")
			if window == 0 {
				g = group("a", "1", "2")
			}
			r := f.log.Append(t.Context(), []appendlog.Group{g})[0]
			if queue.KindOf(r.Err) != queue.KindUnknown || r.Attempt == nil {
				// With a window the first call finds the duplicate and the second one brings the rest.
				if window == 0 {
					t.Fatalf("%+v", r)
				}
				continue
			}
			rest := appendlog.Group{Key: g.Key}
			for _, place := range r.Attempt.Places {
				rest.Messages = append(rest.Messages, g.Messages[place])
			}
			s := spooled(rest, 1, 1)
			s.Tag, s.Attempted = r.Attempt.Tag, true
			replay(t, f.log, s)
			f.wantStored("a", "before", "1", "2")
		}
	})
}

func TestDuplicatesAmongSpooledMessagesAreLeftOut(t *testing.T) {
	t.Parallel()
	pool := pgtest.DB(t)
	l := appendlog.New(log.New(pool), nil)
	mustAppend(t, l, group("a", "1", "3"))
	replay(t, l, spooled(group("a", "1", "2", "3", "4"), 1, 1), spooled(group("b", "5"), 2, 2))
	if diff := cmp.Diff([]string{"1", "3", "2", "4"}, stored(t, pool, "a")); diff != "" {
		t.Error(diff)
	}
	// Nothing but duplicates: noted all the same, so that it is judged once.
	replay(t, l, spooled(group("a", "1", "2"), 3, 3))
	inWindow(t, pool, 0)
	replay(t, l, spooled(group("a", "1", "2"), 3, 3))
	if n := len(stored(t, pool, "a")); n != 4 {
		t.Errorf("%d messages", n)
	}
}

// A producer that repeats itself while it is answered buffered.
func TestRepetitionsAmongRecordsAreLeftOutWhereTheQueueDeduplicates(t *testing.T) {
	t.Parallel()
	pool := pgtest.DB(t)
	l := appendlog.New(log.New(pool), nil)
	mustAppend(t, l, group("a", "0"))
	g := group("a", "1", "2", "1", "0", "1", "3")
	replay(t, l, spooled(g, 1, 6), spooled(group("new", "x", "x"), 7, 8))
	if diff := cmp.Diff([]string{"0", "1", "2", "3"}, stored(t, pool, "a")); diff != "" {
		t.Error(diff)
	}
	inWindow(t, pool, 0)
	r := l.ReplaySpooled(t.Context(), spoolID, []appendlog.Spooled{spooled(group("a", "4", "4"), 9, 10), spooled(group("new", "y"), 11, 11)})
	if !r[0].Repeats || r[0].Settled || !r[1].Settled {
		t.Errorf("%+v", r)
	}
	replay(t, l, spooled(group("a", "4"), 9, 9))
	replay(t, l, spooled(group("a", "4"), 10, 10))
	if diff := cmp.Diff([]string{"0", "1", "2", "3", "4", "4"}, stored(t, pool, "a")); diff != "" {
		t.Error(diff)
	}
}

func TestRecordsOlderThanTheirQueuesDeletionAreTold(t *testing.T) {
	t.Parallel()
	pool := pgtest.DB(t)
	l := appendlog.New(log.New(pool), nil)
	mustAppend(t, l, group("a", "1"))
	if _, err := pool.Exec(t.Context(), `SELECT queen.delete_queue($1, $2)`, queue.DefaultTenant, group("a").Key.Queue); err != nil {
		t.Fatal(err)
	}
	old, young := spooled(group("a", "2"), 1, 1), spooled(group("b", "3"), 2, 2)
	young.Age = 0
	r := l.ReplaySpooled(t.Context(), spoolID, []appendlog.Spooled{old, young})
	if !r[0].QueueDeleted || r[0].Settled || !r[1].Settled {
		t.Errorf("%+v", r)
	}
	// The name is taken again by now, and the partition known.
	r = l.ReplaySpooled(t.Context(), spoolID, []appendlog.Spooled{spooled(group("b", "4"), 3, 3)})
	if !r[0].QueueDeleted {
		t.Errorf("%+v", r)
	}
	if diff := cmp.Diff([]string{"3"}, stored(t, pool, "b")); diff != "" {
		t.Error(diff)
	}
}

func TestSpooledPayloadsThatMustBeSealedAreTold(t *testing.T) {
	t.Parallel()
	pool := pgtest.DB(t)
	l := appendlog.New(log.New(pool), nil)
	mustAppend(t, l, group("a", "1"))
	if _, err := pool.Exec(t.Context(), `UPDATE queen.queues SET encryption_enabled = true`); err != nil {
		t.Fatal(err)
	}
	g := group("a", "2")
	if r := l.ReplaySpooled(t.Context(), spoolID, []appendlog.Spooled{spooled(g, 1, 1)}); !errors.Is(r[0].Err, appendlog.ErrMustSeal) {
		t.Errorf("%+v", r)
	}
	g.Sealed = true
	replay(t, l, spooled(g, 1, 1))
}

func TestNotesOfASpoolAreForgotten(t *testing.T) {
	t.Parallel()
	pool := pgtest.DB(t)
	store := log.New(pool)
	l := appendlog.New(store, nil)
	var groups []appendlog.Spooled
	for i := range 30 {
		groups = append(groups, spooled(group(fmt.Sprint(i), "x"), int64(i+1), int64(i+1)))
	}
	replay(t, l, groups...)
	count := func() (n int) {
		if err := pool.QueryRow(t.Context(), `SELECT count(*) FROM queen.spool_marks`).Scan(&n); err != nil {
			t.Fatal(err)
		}
		return n
	}
	if n := count(); n != 30 {
		t.Errorf("%d notes", n)
	}
	if err := store.ForgetSpool(t.Context(), spoolID); err != nil || count() != 0 {
		t.Errorf("%v, %d notes left", err, count())
	}
}

func TestFlaggedQueuesAreListed(t *testing.T) {
	t.Parallel()
	pool := pgtest.DB(t)
	store := log.New(pool)
	for name, change := range map[string]string{"secret": "encryption_enabled = true", "loud": "spool_enabled = false", "plain": "priority = 1"} {
		key := group("p").Key
		key.Queue = name
		if _, err := store.Ensure(t.Context(), []log.Key{key}); err != nil {
			t.Fatal(err)
		}
		if _, err := pool.Exec(t.Context(), `UPDATE queen.queues SET `+change+` WHERE name = $1`, name); err != nil {
			t.Fatal(err)
		}
	}
	flagged, err := store.FlaggedQueues(t.Context())
	got := map[string]string{}
	for _, f := range flagged {
		got[f.Name] = fmt.Sprint(f.Encryption, f.NoSpool)
	}
	if diff := cmp.Diff(map[string]string{"secret": "true false", "loud": "false true"}, got); diff != "" || err != nil {
		t.Error(err, diff)
	}
}
