package appendlog_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"

	"queen.internal/pkg/appendlog"
	"queen.internal/pkg/pgtest"
	"queen.internal/pkg/queue"
	acks "queen.internal/pkg/store/group"
	"queen.internal/pkg/store/log"
	"queen.internal/pkg/testkit"
)

const transactCall = "queen.transact("

// farConsumer is a consumer whose way to the database is a proxy; its sessions are called far. heard is what it announced.
func farConsumer(t *testing.T, adjust func(*pgtest.Database)) (c *consumer, proxy *testkit.Proxy, heard *[]appendlog.Announcement) {
	t.Helper()
	db := pgtest.New(t)
	if adjust != nil {
		adjust(&db)
	}
	c = newConsumer(t, db.Pool)
	proxy, cfg := testkit.Between(t, db.Config)
	pool := testkit.Pool(t, cfg, "far", 2)
	heard = new([]appendlog.Announcement)
	c.log = appendlog.New(log.New(pool), func(all []appendlog.Announcement) { *heard = append(*heard, all...) })
	c.groups = acks.New(pool)
	return c, proxy, heard
}

// laterAnswer is what Transact returns to a goroutine.
type laterAnswer struct {
	appendlog.Transacted
	err error
}

func (c *consumer) transactLater(l *appendlog.Log, groups *acks.Store, t *appendlog.Transaction) <-chan laterAnswer {
	done := make(chan laterAnswer, 1)
	go func() {
		d, err := l.Transact(c.Context(), groups, t)
		done <- laterAnswer{d, err}
	}()
	return done
}

func (c *consumer) wantOnce(before ...string) {
	c.Helper()
	if diff := cmp.Diff(append([]string{"there"}, before...), stored(c.T, c.pool, "target")); diff != "" {
		c.Error(diff)
	}
	if at := c.committed("g"); at != 1 {
		c.Errorf("the cursor is at %d", at)
	}
	var n int
	if err := c.pool.QueryRow(c.Context(), `SELECT count(*) FROM queen.transactions`).Scan(&n); err != nil || n != 1 {
		c.Errorf("%d transactions: %v", n, err)
	}
	wantSoundLog(c.T, c.pool)
}

// retryOnce is a transaction that would do something else if it were carried out twice: the ack charges a retry.
func (c *consumer) retryOnce() *appendlog.Transaction {
	return transaction([]appendlog.Group{group("target", "x", "y")}, c.acking("2", "3-"))
}

func TestTransactFindsWhatALostAnswerCommitted(t *testing.T) {
	t.Parallel()
	c, proxy, heard := farConsumer(t, nil)
	exec(t, c.pool, `UPDATE queen.queues SET dedup_window_seconds = 0`) // the row must do alone
	drop := proxy.Next(testkit.DropAnswer, transactCall)
	tx := c.retryOnce()
	d := c.transact(tx)
	if a := drop.Answer(t); a.SQLState != "" || a.Status != 'I' {
		t.Fatalf("the dropped answer was no commit: %+v", a)
	}
	if d.Record == nil || !d.Repeated {
		t.Fatalf("%+v", d)
	}
	if diff := cmp.Diff(tx.MessageIDs, d.Record.MessageIDs); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff([]int32{0, 1}, d.Record.AckPlaces); diff != "" || len(d.Record.FreedPartitions) != 1 {
		t.Errorf("%+v", d.Record)
	}
	if len(*heard) != 1 || (*heard)[0].LastOffset != 2 || (*heard)[0].Key.Partition != "target" {
		t.Errorf("announced %+v", *heard)
	}
	var charged int
	if err := c.pool.QueryRow(t.Context(), `SELECT retry_count FROM queen.cursors`).Scan(&charged); err != nil || charged != 1 {
		t.Errorf("%d retries charged: %v", charged, err)
	}
	c.wantOnce("x", "y")
	if n := proxy.Count(transactCall); n != 2 {
		t.Errorf("%d calls", n)
	}
}

func TestTransactThatNeverArrivedIsSentAgain(t *testing.T) {
	t.Parallel()
	c, proxy, _ := farConsumer(t, nil)
	proxy.Next(testkit.CutStatement, transactCall)
	if d := c.transact(c.retryOnce()); d.Record == nil || d.Repeated {
		t.Errorf("%+v", d)
	}
	c.wantOnce("x", "y")
}

// Both answers get lost: the caller is told that it does not know, and the same id tells it.
func TestTransactTwoLostAnswersAreUnknown(t *testing.T) {
	t.Parallel()
	c, proxy, _ := farConsumer(t, nil)
	proxy.Next(testkit.DropAnswer, transactCall)
	proxy.Nth(2, testkit.DropAnswer, transactCall)
	tx := c.retryOnce()
	if _, err := c.log.Transact(t.Context(), c.groups, tx); queue.KindOf(err) != queue.KindUnknown {
		t.Fatal(err)
	}
	if d := c.transact(tx); !d.Repeated || d.Record == nil {
		t.Errorf("%+v", d)
	}
	c.wantOnce("x", "y")
}

// The network holds a call back until its repetition has done the work; then it arrives.
func TestTransactThatArrivesAfterItsRepetitionDoesNothing(t *testing.T) {
	t.Parallel()
	c, proxy, _ := farConsumer(t, nil)
	exec(t, c.pool, `UPDATE queen.queues SET dedup_window_seconds = 0`)
	hung := proxy.Next(testkit.HoldStatement, transactCall)
	done := c.transactLater(c.log, c.groups, c.retryOnce())
	hung.Await(t)
	if d := <-done; d.err != nil || d.Record == nil { // after the deadline of one call
		t.Fatalf("%+v", d)
	}
	hung.Release()
	if a := hung.Answer(t); a.SQLState != "" {
		t.Errorf("the late call: %+v", a)
	}
	c.wantOnce("x", "y")
}

// Two callers have the same id at once: the second waits for the first, and learns what it did.
func TestTransactTwoCallersWithOneID(t *testing.T) {
	t.Parallel()
	for name, fail := range map[string]bool{"FirstCommits": false, "FirstIsUndone": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			db := pgtest.New(t)
			c := newConsumer(t, db.Pool)
			first, second := testkit.Pool(t, db.Config, "first", 1), testkit.Pool(t, db.Config, "second", 1)
			release := testkit.Brake(t, db.Pool, "first", "BEFORE UPDATE", "queen.cursors")
			tx := c.retryOnce()
			early := *tx
			if fail {
				early.Groups = append(slices.Clone(tx.Groups), group("source", "1"))
			}
			one := c.transactLater(appendlog.New(log.New(first), nil), acks.New(first), &early)
			testkit.AwaitBlocked(t, db.Pool, "first")
			two := c.transactLater(appendlog.New(log.New(second), nil), acks.New(second), tx)
			testkit.AwaitBlocked(t, db.Pool, "second")
			release()
			a, b := <-one, <-two
			if a.err != nil || b.err != nil || b.Record == nil {
				t.Fatalf("%+v, %+v", a, b)
			}
			if fail && (a.Record != nil || len(a.Duplicates) != 1 || b.Repeated) || !fail && (a.Record == nil || a.Repeated || !b.Repeated) {
				t.Errorf("%+v, %+v", a, b)
			}
			if !fail {
				if diff := cmp.Diff(a.Record, b.Record); diff != "" {
					t.Error(diff)
				}
			}
			c.wantOnce("x", "y")
		})
	}
}

// A lock that stays taken beyond the time of one attempt does not fail the transaction, as long as it comes free.
func TestTransactOutlastsALock(t *testing.T) {
	t.Parallel()
	c, proxy, _ := farConsumer(t, nil)
	conn, err := c.pool.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := conn.Exec(t.Context(), `SELECT FROM queen.partitions FOR NO KEY UPDATE`); err != nil {
		t.Fatal(err)
	}
	done := c.transactLater(c.log, c.groups, c.retryOnce())
	proxy.AwaitCount(t, transactCall, 2) // the first one has timed out
	if err := conn.Rollback(t.Context()); err != nil {
		t.Fatal(err)
	}
	if d := <-done; d.err != nil || d.Record == nil {
		t.Fatalf("%+v", d)
	}
	c.wantOnce("x", "y")
}

// Two transactions name partitions and groups in opposite order, a push and an ack meet them in the middle. The first one
// is stopped with its locks held, at one place after the other.
func TestTransactLocksInOneOrder(t *testing.T) {
	t.Parallel()
	for _, brake := range []struct{ event, table string }{{"BEFORE UPDATE", "queen.cursors"}, {"AFTER UPDATE", "queen.partitions"}, {"BEFORE INSERT", "queen.transactions"}} {
		t.Run(brake.table, func(t *testing.T) {
			t.Parallel()
			db := pgtest.New(t)
			c := newConsumer(t, db.Pool)
			mustAppend(t, c.log, group("other", "5"))
			leases, partitions := map[string]uuid.UUID{"g source": c.lease}, map[string]uuid.UUID{"source": c.partition}
			for _, name := range []string{"h source", "g other", "h other"} {
				lease, partition := c.claim(name[:1], name[2:])
				leases[name], partitions[name[2:]] = lease, partition
			}
			// Neither ends a lease, so that either may come first.
			ack := func(name string) acks.BundleAck {
				a := c.acking("1")
				a.Group, a.Partition, a.Lease = name[:1], partitions[name[2:]], nil
				if name[2:] == "other" {
					a = c.acking("5")
					a.Group, a.Partition, a.Lease = name[:1], partitions["other"], nil
				}
				return a
			}
			order := []string{"g source", "h source", "g other", "h other"}
			build := func(id string, names []string, targets ...string) *appendlog.Transaction {
				tx := transaction(nil)
				for _, target := range targets {
					g := group(target, id+target)
					tx.Groups, tx.MessageIDs = append(tx.Groups, g), append(tx.MessageIDs, g.Messages[0].ID)
				}
				for i, name := range names {
					a := ack(name)
					a.Places = []int32{int32(i)}
					tx.Acks = append(tx.Acks, a)
				}
				return tx
			}
			backwards := slices.Clone(order)
			slices.Reverse(backwards)
			first, second, third := testkit.Pool(t, db.Config, "first", 1), testkit.Pool(t, db.Config, "second", 1), testkit.Pool(t, db.Config, "third", 1)
			release := testkit.Brake(t, db.Pool, "first", brake.event, brake.table)
			one := c.transactLater(appendlog.New(log.New(first), nil), acks.New(first), build("one", order, "source", "target", "other"))
			testkit.AwaitBlocked(t, db.Pool, "first")
			two := c.transactLater(appendlog.New(log.New(second), nil), acks.New(second), build("two", backwards, "other", "target", "source"))
			testkit.AwaitBlocked(t, db.Pool, "second")
			push := appendLater(t, appendlog.New(log.New(third), nil), group("target", "pushed"))
			release()
			for _, d := range []laterAnswer{<-one, <-two} {
				if d.err != nil || d.Record == nil {
					t.Errorf("%+v", d)
				}
			}
			if r := <-push; r.Err != nil {
				t.Error(r.Err)
			}
			first.Close()
			second.Close()
			third.Close()
			for _, name := range []string{"first", "second", "third"} {
				testkit.AwaitGone(t, db.Pool, name)
			}
			if n := testkit.Deadlocks(t, db.Pool); n != 0 {
				t.Errorf("%d deadlocks", n)
			}
			wantSoundLog(t, c.pool)
		})
	}
}

// Transactions, pushes and acks on overlapping partitions, for a while, in any order.
func TestTransactAmongPushesAndAcksWithoutADeadlock(t *testing.T) {
	t.Parallel()
	db := pgtest.New(t)
	c := newConsumer(t, db.Pool)
	names := []string{"source", "target", "a", "b", "c"}
	for _, name := range names[2:] {
		mustAppend(t, c.log, group(name, "first "+name))
	}
	partitions := map[string]uuid.UUID{}
	for _, name := range names {
		for _, reader := range []string{"h", "i"} {
			_, partitions[name] = c.claim(reader, name)
		}
	}
	pool := testkit.Pool(t, db.Config, "worker", 6)
	l, groups := appendlog.New(log.New(pool), nil), acks.New(pool)
	var wg sync.WaitGroup
	var mu sync.Mutex
	pushed := map[string]int{}
	for worker := range 6 {
		wg.Go(func() {
			r := rand.New(rand.NewPCG(1, uint64(worker)))
			for round := range 25 {
				id := fmt.Sprint(worker, " ", round)
				var messages []appendlog.Group
				for _, i := range r.Perm(len(names))[:1+r.IntN(len(names))] {
					messages = append(messages, group(names[i], id))
				}
				if worker%3 == 0 {
					for _, result := range l.Append(t.Context(), messages) {
						if result.Err != nil {
							t.Error(result.Err)
						}
					}
				} else {
					tx := transaction(messages)
					for place, i := range r.Perm(2 * len(names)) {
						hash := queue.TransactionHash(id)
						// Lease-less, of an id that may be there or below the cursor: resolved or not, the locks are taken.
						tx.Acks = append(tx.Acks, acks.BundleAck{
							AckGroup: acks.AckGroup{Partition: partitions[names[i%len(names)]], Items: []acks.AckItem{{Hash: &hash}}},
							Group:    string("hi"[i/len(names)]), Places: []int32{int32(place)},
						})
					}
					if round%2 == 0 {
						tx.Acks = nil
					}
					d, err := l.Transact(t.Context(), groups, tx)
					if err != nil || (d.Record == nil) != (round%2 == 1) {
						t.Errorf("%+v: %v", d, err)
					}
					if d.Record == nil {
						messages = nil
					}
				}
				mu.Lock()
				for i := range messages {
					pushed[messages[i].Key.Partition]++
				}
				mu.Unlock()
			}
		})
	}
	wg.Wait()
	pool.Close()
	testkit.AwaitGone(t, db.Pool, "worker")
	if n := testkit.Deadlocks(t, db.Pool); n != 0 {
		t.Errorf("%d deadlocks", n)
	}
	for name, n := range pushed {
		had := map[string]int{"source": 4}[name]
		if found := len(stored(t, db.Pool, name)); found != n+max(had, 1) {
			t.Errorf("%s: %d messages, want %d", name, found, n+max(had, 1))
		}
	}
	wantSoundLog(t, db.Pool)
}
