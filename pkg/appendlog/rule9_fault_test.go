package appendlog_test

import (
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"

	"queen.internal/pkg/appendlog"
	"queen.internal/pkg/pg"
	"queen.internal/pkg/pgtest"
	"queen.internal/pkg/queue"
	"queen.internal/pkg/store/log"
	"queen.internal/pkg/testkit"
)

// Rule 9: the lost answer of a commit is looked up by the attempt's tag.

const appendCall = "queen.append("

// far is a log whose way to the database is a proxy, and what it announced.
type far struct {
	*testing.T
	proxy *testkit.Proxy
	pool  *pg.Pool // direct
	log   *appendlog.Log
	heard map[string]int64 // last offset announced, by partition
}

func farLog(t *testing.T, window int) *far {
	t.Helper()
	db := pgtest.New(t)
	proxy, cfg := testkit.Between(t, db.Config)
	f := &far{T: t, proxy: proxy, pool: db.Pool, heard: map[string]int64{}}
	f.log = appendlog.New(log.New(testkit.Pool(t, cfg, "far", 2)), func(all []appendlog.Announcement) {
		for _, a := range all {
			f.heard[a.Key.Partition] = a.LastOffset
		}
	})
	mustAppend(t, f.log, group("a", "before")) // provisions, connects, prepares
	inWindow(t, db.Pool, window)
	return f
}

func (f *far) wantStored(partition string, transactions ...string) {
	f.Helper()
	if diff := cmp.Diff(transactions, stored(f.T, f.pool, partition)); diff != "" {
		f.Error(diff)
	}
	wantSoundLog(f.T, f.pool)
}

// eachWindow runs a test with deduplication and without: the tag must do alone.
func eachWindow(t *testing.T, test func(t *testing.T, window int)) {
	t.Helper()
	for _, window := range []int{3600, 0} {
		t.Run(fmt.Sprint("Window", window), func(t *testing.T) {
			t.Parallel()
			test(t, window)
		})
	}
}

func TestRule9ALostAnswerIsFoundByItsTag(t *testing.T) {
	t.Parallel()
	eachWindow(t, func(t *testing.T, window int) {
		f := farLog(t, window)
		drop := f.proxy.Next(testkit.DropAnswer, appendCall)
		g := group("a", "x", "y")
		r := mustAppend(t, f.log, g, group("b", "z"))
		if a := drop.Answer(t); a.SQLState != "" || a.Status != 'I' {
			t.Fatalf("the dropped answer was no commit: %+v", a)
		}
		want := []appendlog.Outcome{{MessageID: g.Messages[0].ID}, {MessageID: g.Messages[1].ID}}
		if diff := cmp.Diff(want, r[0].Outcomes); diff != "" {
			t.Error(diff)
		}
		f.wantStored("a", "before", "x", "y")
		f.wantStored("b", "z")
		if diff := cmp.Diff(map[string]int64{"a": 2, "b": 0}, f.heard); diff != "" {
			t.Error("announced: " + diff)
		}
		if n := f.proxy.Count(appendCall); n != 3 {
			t.Errorf("%d calls", n)
		}
	})
}

// Somebody else has appended between the attempt and the look for its tag.
func TestRule9AFoundAttemptKeepsItsOwnOffsets(t *testing.T) {
	t.Parallel()
	eachWindow(t, func(t *testing.T, window int) {
		f := farLog(t, window)
		f.proxy.Next(testkit.DropAnswer, appendCall)
		again := f.proxy.Nth(2, testkit.HoldStatement, appendCall)
		done := appendLater(t, f.log, group("a", "x", "y"))
		again.Await(t)
		mustAppend(t, appendlog.New(log.New(f.pool), nil), group("a", "between"))
		again.Release()
		if r := <-done; r.Err != nil {
			t.Fatal(r.Err)
		}
		f.wantStored("a", "before", "x", "y", "between")
		if f.heard["a"] != 2 {
			t.Errorf("announced up to %d", f.heard["a"])
		}
	})
}

func TestRule9AnAttemptThatNeverArrivedIsMadeAgain(t *testing.T) {
	t.Parallel()
	eachWindow(t, func(t *testing.T, window int) {
		f := farLog(t, window)
		f.proxy.Next(testkit.CutStatement, appendCall)
		mustAppend(t, f.log, group("a", "x", "y"))
		f.wantStored("a", "before", "x", "y")
	})
}

// All segments of a group share its tag.
func TestRule9AGroupOfSeveralSegmentsIsFoundWhole(t *testing.T) {
	t.Parallel()
	eachWindow(t, func(t *testing.T, window int) {
		f := farLog(t, window)
		f.proxy.Next(testkit.DropAnswer, appendCall)
		transactions := []string{}
		for i := range 2500 {
			transactions = append(transactions, fmt.Sprint("t", i))
		}
		mustAppend(t, f.log, group("a", transactions...))
		f.wantStored("a", append([]string{"before"}, transactions...)...)
	})
}

// A group with a duplicate takes two calls under two tags; the answers of both get lost.
func TestRule9TheRestOfAGroupWithDuplicatesHasATagOfItsOwn(t *testing.T) {
	t.Parallel()
	f := farLog(t, 3600)
	f.proxy.Next(testkit.DropAnswer, appendCall)   // of the verdict that names the duplicate
	f.proxy.Nth(3, testkit.DropAnswer, appendCall) // of the commit of the others
	r := mustAppend(t, f.log, group("a", "x", "before", "y"))
	for i, duplicate := range []bool{false, true, false} {
		if r[0].Outcomes[i].Duplicate != duplicate {
			t.Errorf("outcome %d: %+v", i, r[0].Outcomes[i])
		}
	}
	f.wantStored("a", "before", "x", "y")
	if n := f.proxy.Count(appendCall); n != 5 {
		t.Errorf("%d calls", n)
	}
}

// Both answers get lost: nobody can tell any more, and the client is told to push the same again.
func TestRule9TwoLostAnswersAreUnknownAndTheClientsRetryStoresNothingTwice(t *testing.T) {
	t.Parallel()
	f := farLog(t, 3600)
	f.proxy.Next(testkit.DropAnswer, appendCall)
	f.proxy.Nth(2, testkit.DropAnswer, appendCall)
	g := group("a", "x", "y")
	for i, r := range f.log.Append(t.Context(), []appendlog.Group{g, group("b", "z")}) {
		if queue.KindOf(r.Err) != queue.KindUnknown {
			t.Errorf("group %d: %v", i, r.Err)
		}
	}
	f.wantStored("a", "before", "x", "y")
	again := mustAppend(t, f.log, group("a", "x", "y", "new"), group("b", "z"))
	want := []appendlog.Outcome{{Duplicate: true, MessageID: g.Messages[0].ID}, {Duplicate: true, MessageID: g.Messages[1].ID}}
	if diff := cmp.Diff(want, again[0].Outcomes[:2]); diff != "" || again[0].Outcomes[2].Duplicate || !again[1].Outcomes[0].Duplicate {
		t.Errorf("%+v %s", again, diff)
	}
	f.wantStored("a", "before", "x", "y", "new")
	f.wantStored("b", "z")
}

// The call waits in a network that hangs; its sender gives up and goes another way; and then the call arrives after all,
// without any order to look for its tag. The deduplication window is what knows it.
func TestRule9AnAttemptThatArrivesAfterItsRepetitionStoresNothingTwice(t *testing.T) {
	t.Parallel()
	f := farLog(t, 3600)
	hung := f.proxy.Next(testkit.HoldStatement, appendCall)
	done := appendLater(t, f.log, group("a", "x", "y"))
	hung.Await(t)
	if r := <-done; r.Err != nil { // after the deadline of one call
		t.Fatal(r.Err)
	}
	f.wantStored("a", "before", "x", "y")
	hung.Release()
	if a := hung.Answer(t); a.SQLState != "" {
		t.Errorf("the late call: %+v", a)
	}
	f.wantStored("a", "before", "x", "y")
}

func TestRule9ALostAnswerOfProvisioningIsAskedForAgain(t *testing.T) {
	t.Parallel()
	f := farLog(t, 3600)
	f.proxy.Next(testkit.DropAnswer, "queen.ensure_partitions(")
	other := group("new", "1")
	other.Key.Queue = "another"
	mustAppend(t, f.log, group("new", "1"), other)
	var partitions, queues int
	if err := f.pool.QueryRow(t.Context(), `SELECT (SELECT count(*) FROM queen.partitions), (SELECT count(*) FROM queen.queues)`).Scan(&partitions, &queues); err != nil {
		t.Fatal(err)
	}
	if partitions != 3 || queues != 2 {
		t.Errorf("%d partitions in %d queues", partitions, queues)
	}
	f.wantStored("new", "1")
}

// The ids of originals are read after the verdict, in a call of its own; when that fails, nothing has been written and
// the group says so.
func TestRule9DuplicatesWhoseOriginalsCannotBeReadFailWhole(t *testing.T) {
	t.Parallel()
	f := farLog(t, 3600)
	mustAppend(t, f.log, group("b", "z"))
	f.proxy.Next(testkit.CutStatement, "queen.read_segments(")
	r := f.log.Append(t.Context(), []appendlog.Group{group("a", "x", "before"), group("b", "free")})
	if queue.KindOf(r[0].Err) != queue.KindUnavailable || r[1].Err != nil {
		t.Errorf("%v, %v", r[0].Err, r[1].Err)
	}
	f.wantStored("a", "before")
	f.wantStored("b", "z", "free")
	mustAppend(t, f.log, group("a", "x", "before"))
	f.wantStored("a", "before", "x")
}
