package admin_test

import (
	"sync"
	"testing"

	"github.com/google/uuid"

	"queen.internal/pkg/pg"
	"queen.internal/pkg/pgtest"
	"queen.internal/pkg/queue"
	"queen.internal/pkg/store/admin"
	"queen.internal/pkg/store/group"
	"queen.internal/pkg/store/log"
	"queen.internal/pkg/testkit"
)

func (b *bench) delete(name string) bool {
	b.Helper()
	existed, err := b.store.Delete(b.Context(), queue.DefaultTenant, name)
	if err != nil {
		b.Fatal(err)
	}
	return existed
}

// deleting is a deletion of q under way.
func (b *bench) deleting() <-chan bool {
	done := make(chan bool, 1)
	go func() {
		existed, err := b.store.Delete(b.Context(), queue.DefaultTenant, "q")
		if err != nil {
			b.Error(err)
		}
		done <- existed
	}()
	return done
}

// ensuring is a partition of q being looked up, or made.
func (b *bench) ensuring(partition string) <-chan int64 {
	done := make(chan int64, 1)
	go func() {
		found, err := log.New(b.pool).Ensure(b.Context(), []log.Key{{Tenant: queue.DefaultTenant, Queue: "q", Partition: partition}})
		if err != nil {
			b.Error(err)
			found = make([]log.Partition, 1)
		}
		done <- found[0].ID
	}()
	return done
}

// alive says whether the queue of a partition exists.
func (b *bench) alive(partition int64) (alive bool) {
	b.Helper()
	if err := b.pool.QueryRow(b.Context(), `SELECT deleted_at IS NULL FROM queen.queues q JOIN queen.partitions p ON p.queue_id = q.id
		WHERE p.id = $1`, partition).Scan(&alive); err != nil {
		b.Fatal(err)
	}
	return alive
}

// named are benches of one database whose sessions can be told apart.
func named(t *testing.T, names ...string) []*bench {
	t.Helper()
	db := pgtest.New(t)
	benches := []*bench{{T: t, pool: db.Pool, store: admin.New(db.Pool)}}
	for _, name := range names {
		pool := testkit.Pool(t, db.Config, name, 1)
		benches = append(benches, &bench{T: t, pool: pool, store: admin.New(pool)})
	}
	return benches
}

func TestDelete_FreesTheNameAndKeepsWhatIsToBeReaped(t *testing.T) {
	t.Parallel()
	b := setup(t)
	if b.delete("q") {
		t.Error("there was no queue")
	}
	old := <-b.ensuring("p")
	first := b.configure("q", queue.Options{LeaseSeconds: new(int32(7)), EncryptionEnabled: new(true)})
	if !b.delete("q") || b.delete("q") {
		t.Error("a queue is deleted once")
	}
	next := b.configure("q", queue.Options{})
	b.same(queue.DefaultOptions(), next.Options)
	if next.ID == first.ID {
		t.Error("the successor has the identity of the deleted queue")
	}
	if b.alive(old) {
		t.Error("the old partition belongs to a live queue")
	}
	if made := <-b.ensuring("p"); made == old || !b.alive(made) {
		t.Errorf("partition %d after %d", made, old)
	}
}

func TestDelete_IsOfItsTenantAlone(t *testing.T) {
	t.Parallel()
	b := setup(t)
	other := uuid.MustParse("11111111-2222-3333-4444-555555555555")
	own := b.configure("q", queue.Options{})
	if existed, err := b.store.Delete(t.Context(), other, "q"); err != nil || existed {
		t.Errorf("%v %v", existed, err)
	}
	if again := b.configure("q", queue.Options{}); again.ID != own.ID {
		t.Error("another tenant has deleted it")
	}
}

func TestDelete_OfManyAtOnceOneDeletes(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.configure("q", queue.Options{})
	var mu sync.Mutex
	var deleted int
	var calls sync.WaitGroup
	for range 8 {
		calls.Go(func() {
			existed, err := b.store.Delete(t.Context(), queue.DefaultTenant, "q")
			mu.Lock()
			defer mu.Unlock()
			if err != nil {
				t.Error(err)
			}
			if existed {
				deleted++
			}
		})
	}
	calls.Wait()
	if deleted != 1 {
		t.Errorf("%d calls deleted it", deleted)
	}
}

// A partition that is being created keeps the queue until it is there: it belongs to the old one, whole.
func TestDelete_WaitsForPartitionsBeingCreated(t *testing.T) {
	t.Parallel()
	benches := named(t, "maker", "deleter")
	b, maker, deleter := benches[0], benches[1], benches[2]
	<-b.ensuring("p")
	release := testkit.Brake(t, b.pool, "maker", "AFTER INSERT", "queen.partitions")
	making := maker.ensuring("made")
	testkit.AwaitBlocked(t, b.pool, "maker")
	deleted := deleter.deleting()
	testkit.AwaitBlocked(t, b.pool, "deleter")
	release()
	made := <-making
	if !<-deleted || b.alive(made) {
		t.Error("what was created before the deletion outlives it")
	}
	if after := <-b.ensuring("made"); after == made || !b.alive(after) {
		t.Errorf("partition %d after %d", after, made)
	}
}

// Whoever waits for a deletion finds no queue, and begins a new one.
func TestDelete_WhoCameWhileItWasCommittingGetsANewQueue(t *testing.T) {
	t.Parallel()
	for name, act := range map[string]func(b *bench) (partition int64){
		"Push": func(b *bench) int64 { return <-b.ensuring("made") },
		"Configure": func(b *bench) int64 {
			b.configure("q", queue.Options{})
			return <-b.ensuring("p")
		},
		"Registration": func(b *bench) int64 {
			sub, err := group.New(b.pool).Subscribe(b.Context(), queue.DefaultTenant, "q", "g", group.Start{Mode: "all"})
			var queueID, partition int64
			if err == nil {
				partition = <-b.ensuring("p")
				err = b.pool.QueryRow(b.Context(), `SELECT queue_id FROM queen.partitions WHERE id = $1`, partition).Scan(&queueID)
			}
			if err != nil || queueID != sub.QueueID {
				b.Errorf("registered on queue %d, the partition is of queue %d: %v", sub.QueueID, queueID, err)
			}
			return partition
		},
		"PinOfAPartitionToCome": func(b *bench) int64 {
			_, found, err := group.New(b.pool).Pin(b.Context(), queue.DefaultTenant, "q", "absent", "g", group.Start{Mode: "new"})
			if found || err != nil {
				b.Errorf("pinned what does not exist: %v", err)
			}
			return <-b.ensuring("p")
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			benches := named(t, "waiter", "deleter")
			b, waiter, deleter := benches[0], benches[1], benches[2]
			old := <-b.ensuring("p")
			release := testkit.Brake(t, b.pool, "deleter", "AFTER UPDATE", "queen.queues")
			deleted := deleter.deleting()
			testkit.AwaitBlocked(t, b.pool, "deleter")
			partition := make(chan int64, 1)
			go func() { partition <- act(waiter) }()
			testkit.AwaitBlocked(t, b.pool, "waiter")
			release()
			if got := <-partition; got == old || !b.alive(got) {
				t.Errorf("partition %d of a live queue: %v; the old one was %d", got, b.alive(got), old)
			}
			if !<-deleted {
				t.Error("nothing was deleted")
			}
			b.nothingNewIsDead(1)
		})
	}
}

// nothingNewIsDead checks that no subscription was left behind in a deleted queue, and how many partitions there are in
// such ones.
func (b *bench) nothingNewIsDead(partitions int) {
	b.Helper()
	var subscriptions, found int
	if err := b.pool.QueryRow(b.Context(), `SELECT
		(SELECT count(*) FROM queen.subscriptions s JOIN queen.queues q ON q.id = s.queue_id AND q.deleted_at IS NOT NULL),
		(SELECT count(*) FROM queen.partitions p JOIN queen.queues q ON q.id = p.queue_id AND q.deleted_at IS NOT NULL)`).
		Scan(&subscriptions, &found); err != nil {
		b.Fatal(err)
	}
	if subscriptions != 0 || found != partitions {
		b.Errorf("%d subscriptions and %d partitions in deleted queues", subscriptions, found)
	}
}

// It needs no partition's lock, so a slow append cannot hold it up.
func TestDelete_DoesNotWaitForAppends(t *testing.T) {
	t.Parallel()
	b := setup(t)
	old := <-b.ensuring("p")
	tx, err := b.pool.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = tx.Rollback(t.Context()) }()
	if _, err := tx.Exec(t.Context(), `SELECT FROM queen.partitions WHERE id = $1 FOR NO KEY UPDATE`, old); err != nil {
		t.Fatal(err)
	}
	if !b.delete("q") {
		t.Error("nothing was deleted")
	}
}

func TestDelete_ADatabaseThatIsAwayIsUnavailable(t *testing.T) {
	t.Parallel()
	pool, err := pg.Open(t.Context(), pg.Config{Host: "127.0.0.1", Port: 1, User: "u", Database: "d"}, pg.Options{Name: "away"})
	if err != nil {
		t.Fatal(err)
	}
	defer pool.Close()
	if _, err := admin.New(pool).Delete(t.Context(), queue.DefaultTenant, "q"); queue.KindOf(err) != queue.KindUnavailable {
		t.Errorf("got %v", err)
	}
}
