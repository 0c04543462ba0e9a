package appendlog_test

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"queen.internal/pkg/appendlog"
	"queen.internal/pkg/pg"
	"queen.internal/pkg/pgtest"
	"queen.internal/pkg/queue"
	"queen.internal/pkg/segment"
	"queen.internal/pkg/store/log"
)

// hide takes a message's hash out of the dedup row that has it: only a procedure that looks there could tell that the
// message is a duplicate, so an append that stores it again did not look.
func hide(t *testing.T, pool *pg.Pool, transaction string) {
	t.Helper()
	exec(t, pool, `UPDATE queen.dedup SET hashes = array_replace(hashes, $1, gen_random_uuid())`, [16]byte(queue.TransactionHash(transaction)))
}

func duplicate(t *testing.T, l *appendlog.Log, transaction string) bool {
	t.Helper()
	return mustAppend(t, l, group("a", transaction))[0].Outcomes[0].Duplicate
}

func TestMemoryStandsForTheRowsItVouchesFor(t *testing.T) {
	t.Parallel()
	pool := pgtest.DB(t)
	l := appendlog.New(log.New(pool), nil)
	mustAppend(t, l, group("a", "x", "y"))
	mustAppend(t, l, group("a", "z"))
	if l.Remembered() != 3 {
		t.Errorf("%d hashes remembered", l.Remembered())
	}
	// Planted where the voucher says there is nothing: an append that looked there would call it a duplicate.
	exec(t, pool, `UPDATE queen.dedup SET hashes[1] = $1 WHERE base_offset = 0`, [16]byte(queue.TransactionHash("planted")))
	if duplicate(t, l, "planted") {
		t.Error("the rows vouched for were looked at")
	}
	if !duplicate(t, l, "y") || !duplicate(t, l, "z") || !duplicate(t, l, "planted") {
		t.Error("a known transaction is no duplicate")
	}
	// What is known is confirmed by the rows, not by the memory.
	hide(t, pool, "z")
	if duplicate(t, l, "z") {
		t.Error("the memory alone made a duplicate")
	}
}

func TestALogWithoutMemoryHasEverythingLookedAt(t *testing.T) {
	t.Parallel()
	pool := pgtest.DB(t)
	l := appendlog.NewForgetful(log.New(pool), nil)
	mustAppend(t, l, group("a", "x", "y"))
	mustAppend(t, l, group("a", "z"))
	exec(t, pool, `UPDATE queen.dedup SET hashes[1] = $1 WHERE base_offset = 0`, [16]byte(queue.TransactionHash("planted")))
	if !duplicate(t, l, "planted") || !duplicate(t, l, "z") || duplicate(t, l, "new") || l.Remembered() != 0 {
		t.Errorf("something was remembered; %d hashes are", l.Remembered())
	}
	// Not even which partition it is: the name is another one now.
	exec(t, pool, `UPDATE queen.partitions SET name = 'moved' WHERE name = 'a'`)
	if duplicate(t, l, "x") {
		t.Error("the partition was remembered")
	}
}

func TestMemoryOfALostTimelineVouchesForNothing(t *testing.T) {
	t.Parallel()
	pool := pgtest.DB(t)
	l := appendlog.New(log.New(pool), nil)
	mustAppend(t, l, group("a", "x"))
	mustAppend(t, l, group("a", "lost"))
	// A failover to a server that never had the last append: it is gone, and others took its place.
	exec(t, pool, `DELETE FROM queen.segments WHERE base_offset = 1`)
	exec(t, pool, `DELETE FROM queen.dedup WHERE base_offset = 1`)
	exec(t, pool, `UPDATE queen.partitions SET last_offset = 0`)
	if duplicate(t, l, "lost") {
		t.Error("the lost message is remembered as stored")
	}
	exec(t, pool, `UPDATE queen.dedup SET hashes = ARRAY[$1::uuid], tag = tag + 1 WHERE base_offset = 1`, [16]byte(queue.TransactionHash("other timeline")))
	if !duplicate(t, l, "other timeline") {
		t.Error("a voucher from before the failover was believed")
	}
}

// A failover has gone back behind this process's last append, and another one has appended in its place before this one
// comes to append again, right behind. What it then knows of the partition has a hole.
func TestMemoryOfALostTimelineIsNotGoneOnWith(t *testing.T) {
	t.Parallel()
	for name, rounds := range map[string]int{"what follows was written here": 0, "what follows was read": 5} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			pool := pgtest.DB(t)
			mine := appendlog.New(log.New(pool), nil)
			mustAppend(t, mine, group("a", "x"))
			mustAppend(t, mine, group("a", "lost"))
			exec(t, pool, `DELETE FROM queen.segments WHERE base_offset = 1`)
			exec(t, pool, `DELETE FROM queen.dedup WHERE base_offset = 1`)
			exec(t, pool, `UPDATE queen.partitions SET last_offset = 0, last_tag = (SELECT tag FROM queen.dedup)`)

			theirs := appendlog.New(log.New(pool), nil)
			mustAppend(t, theirs, group("a", "other"))
			for i := range rounds { // more than are left to the procedure
				g := group("a")
				for j := range 1000 {
					id := fmt.Sprint(i, " ", j)
					g.Messages = append(g.Messages, segment.Message{ID: queue.NewID(), TransactionID: id, Payload: []byte("1")})
				}
				mustAppend(t, theirs, g)
			}
			mustAppend(t, mine, group("a", "behind"))
			mustAppend(t, mine, group("a", "behind that"))
			if !duplicate(t, mine, "other") {
				t.Error("a hash that was never seen was vouched for")
			}
		})
	}
}

func TestMemoryThatIsForgottenIsMadeAnew(t *testing.T) {
	t.Parallel()
	pool := pgtest.DB(t)
	l := appendlog.New(log.New(pool), nil)
	mustAppend(t, l, group("a", "x"))
	mustAppend(t, l, group("a", "y"))
	l.Forget()
	if l.Remembered() != 0 {
		t.Errorf("%d hashes remembered", l.Remembered())
	}
	if !duplicate(t, l, "x") || duplicate(t, l, "z") || duplicate(t, l, "w") || l.Remembered() != 4 {
		t.Errorf("then %d hashes are", l.Remembered())
	}
}

func TestMemoryCoversWhatAnotherProcessWrites(t *testing.T) {
	t.Parallel()
	pool := pgtest.DB(t)
	mine, theirs := appendlog.New(log.New(pool), nil), appendlog.New(log.New(pool), nil)
	mustAppend(t, mine, group("a", "first"))
	for i := range 30 {
		key := fmt.Sprint("t", i)
		if duplicate(t, theirs, key) || !duplicate(t, mine, key) || duplicate(t, mine, key+"'") || !duplicate(t, theirs, key+"'") {
			t.Fatalf("round %d", i)
		}
	}
}

func TestMemoryIsFilledAfterARestartAndCatchesUp(t *testing.T) {
	t.Parallel()
	pool := pgtest.DB(t)
	before := appendlog.New(log.New(pool), nil)
	mustAppend(t, before, group("a", "x"))
	restarted := appendlog.New(log.New(pool), nil)
	mustAppend(t, restarted, group("a", "y"))
	if restarted.Remembered() != 0 {
		t.Errorf("%d hashes after one append", restarted.Remembered())
	}
	mustAppend(t, restarted, group("a", "z"))
	if restarted.Remembered() != 3 {
		t.Errorf("%d hashes after the second", restarted.Remembered())
	}
	// Many messages of another process: they are looked at in the database until they are read.
	for i := range 5 {
		g := group("a")
		for j := range 1000 {
			id := fmt.Sprint(i, " ", j)
			g.Messages = append(g.Messages, segment.Message{ID: queue.NewID(), TransactionID: id, Payload: []byte("1")})
		}
		mustAppend(t, before, g)
	}
	if !duplicate(t, restarted, "3 500") {
		t.Error("not a duplicate")
	}
	mustAppend(t, restarted, group("a", "w"))
	if restarted.Remembered() != 5004 {
		t.Errorf("%d hashes after catching up", restarted.Remembered())
	}
	if !duplicate(t, restarted, "4 999") || !duplicate(t, restarted, "x") || duplicate(t, restarted, "new") {
		t.Error("wrong after catching up")
	}
}

// Any mixture of processes, windows, purges and restarts answers like a log without a memory.
func TestMemoryNeverChangesAnAnswer(t *testing.T) {
	t.Parallel()
	pool := pgtest.DB(t)
	logs := []*appendlog.Log{appendlog.New(log.New(pool), nil), appendlog.New(log.New(pool), nil)}
	type entry struct {
		transaction string
		age         time.Duration // how far its row was moved into the past
	}
	var stored []entry
	window := time.Hour
	random := rand.New(rand.NewPCG(7, 7))
	mustAppend(t, logs[0], group("a", "first"))
	stored = append(stored, entry{"first", 0})
	for step := range 400 {
		switch random.IntN(12) {
		case 0: // all that is stored grows older
			d := time.Duration(1+random.IntN(50)) * time.Minute
			exec(t, pool, `UPDATE queen.dedup SET created_at = created_at - $1::interval`, d)
			for i := range stored {
				stored[i].age += d
			}
			// Rows move in time only here, never under a memory's feet in life; so the memories start afresh.
			logs[0], logs[1] = appendlog.New(log.New(pool), nil), appendlog.NewForgetful(log.New(pool), nil)
		case 1:
			window = time.Duration(random.IntN(4)) * 30 * time.Minute
			exec(t, pool, `UPDATE queen.queues SET dedup_window_seconds = $1`, int(window.Seconds()))
		case 2:
			logs[random.IntN(2)] = appendlog.New(log.New(pool), nil)
		default:
			g, want := group("a"), []bool{}
			taken := map[string]bool{}
			for range 1 + random.IntN(3) {
				id := fmt.Sprint(random.IntN(60))
				if taken[id] {
					continue
				}
				taken[id] = true
				g.Messages = append(g.Messages, segment.Message{ID: queue.NewID(), TransactionID: id, Payload: []byte("1")})
				known := false
				for _, e := range stored {
					known = known || e.transaction == id && window > 0 && e.age < window
				}
				want = append(want, known)
			}
			var got []bool
			for _, o := range mustAppend(t, logs[random.IntN(2)], g)[0].Outcomes {
				got = append(got, o.Duplicate)
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Fatalf("step %d, window %v: %s", step, window, diff)
			}
			for i := range want {
				if !want[i] {
					stored = append(stored, entry{g.Messages[i].TransactionID, 0})
				}
			}
		}
	}
}
