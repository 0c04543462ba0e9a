package commit

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"
	"github.com/prometheus/client_golang/prometheus"

	"queen.internal/pkg/pg"
	"queen.internal/pkg/pgtest"
	"queen.internal/pkg/queue"
	"queen.internal/pkg/segment"
	"queen.internal/pkg/store/group"
	"queen.internal/pkg/store/log"
	"queen.internal/pkg/testkit"
	"queen.internal/services/deliver/internal/lease"
)

func TestMain(m *testing.M) { pgtest.Main(m, pgtest.CheckLeaks) }

const consume = "queen.consume("

// bench is a Committer behind a proxy, on a database with partitions of one queue that one group has read before.
type bench struct {
	*testing.T
	*Committer
	database pgtest.Database
	proxy    *testkit.Proxy
	direct   *group.Store // past the proxy
	sub      group.Ref
	ids      []int64
}

func setup(t *testing.T, partitions int) *bench {
	t.Helper()
	database := pgtest.New(t)
	proxy, config := testkit.Between(t, database.Config)
	pool, err := pg.Open(t.Context(), config, pg.Options{Name: "test", Size: 4})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(pool.Close)
	b := &bench{T: t, database: database, proxy: proxy, direct: group.New(database.Pool)}
	b.Committer = New(Options{
		Groups: group.New(pool), Clock: lease.NewClock(func(lease.Leap) {}), Parallel: 1, Timeout: time.Minute,
		Commits: prometheus.NewCounter(prometheus.CounterOpts{Name: "commits"}),
		Calls:   prometheus.NewCounterVec(prometheus.CounterOpts{Name: "calls"}, []string{"kind"}),
	})
	for i := range partitions {
		b.ids = append(b.ids, b.push(fmt.Sprint("p", i), "first"))
	}
	sub, err := b.direct.Subscribe(t.Context(), queue.DefaultTenant, "q", "g", group.Start{Mode: "all"})
	if err != nil {
		t.Fatal(err)
	}
	b.sub = sub.Ref
	for i := range b.ids { // so that each cursor has its row
		c := b.take(i, time.Minute)
		if outcomes := b.complete(t, c); outcomes[0] != group.Finished {
			t.Fatal(outcomes)
		}
		b.push(fmt.Sprint("p", i), "second", "third")
	}
	return b
}

func (b *bench) push(partition string, ids ...string) int64 {
	b.Helper()
	store := log.New(b.database.Pool)
	found, err := store.Ensure(b.Context(), []log.Key{{Tenant: queue.DefaultTenant, Queue: "q", Partition: partition}})
	if err != nil {
		b.Fatal(err)
	}
	run := log.Run{Partition: found[0], Tag: int64(len(ids))}
	var messages []segment.Message
	for _, id := range ids {
		messages = append(messages, segment.Message{ID: queue.NewID(), TransactionID: id, Payload: []byte("1")})
		run.Hashes = append(run.Hashes, queue.TransactionHash(id))
	}
	run.Segment = segment.Encode(messages)
	if _, err := store.Append(b.Context(), []log.Run{run}, log.AppendOptions{Wait: true}); err != nil {
		b.Fatal(err)
	}
	return found[0].ID
}

func (b *bench) request(partition int, length time.Duration) *group.ClaimRequest {
	return &group.ClaimRequest{
		Subscription: b.sub, Partitions: []int64{b.ids[partition]}, Lease: queue.NewID(), LeaseSeconds: int(length.Seconds()), Batch: 1,
		MaxBytes: 1 << 20, AtLeastOne: true,
	}
}

// take claims the next message of a partition, past the proxy, and is what completes it.
func (b *bench) take(partition int, length time.Duration) group.Completion {
	b.Helper()
	req := b.request(partition, length)
	result, err := b.direct.Claim(b.Context(), *req)
	if err != nil || result.Claims[0].Verdict != group.Took {
		b.Fatal(result, err)
	}
	return b.completion(req, result.Claims[0])
}

func (b *bench) completion(req *group.ClaimRequest, c group.Claim) group.Completion {
	return group.Completion{
		Tenant: queue.DefaultTenant, Cursor: group.LeaseKey{Partition: c.PartitionID, Subscription: b.sub.ID}, Partition: c.PartitionUUID,
		Lease: req.Lease, First: c.First, Last: c.Last,
	}
}

func (b *bench) complete(t *testing.T, c group.Completion) []group.CompletionOutcome {
	outcomes, err := b.Complete(t.Context(), queue.DefaultTenant, []group.Completion{c})
	if err != nil {
		t.Error(err)
	}
	return outcomes
}

// together lets calls share one commit: another is held until all wait. Each is told what became of the shared one.
func (b *bench) together(calls ...func()) {
	b.Helper()
	held := b.proxy.Next(testkit.HoldStatement, consume)
	var running sync.WaitGroup
	running.Go(func() {
		_, _ = b.Complete(b.Context(), queue.DefaultTenant, []group.Completion{{Tenant: queue.DefaultTenant}}) // holds nothing
	})
	held.Await(b)
	for _, call := range calls {
		running.Go(call)
	}
	for b.rounds.Waiting() < len(calls) {
		select {
		case <-b.Context().Done():
			b.Fatal("the calls do not come to wait")
		case <-time.After(time.Millisecond):
		}
	}
	held.Release()
	running.Wait()
}

func (b *bench) exec(sql string, args ...any) {
	b.Helper()
	if _, err := b.database.Pool.Exec(b.Context(), sql, args...); err != nil {
		b.Fatal(err)
	}
}

// leased is which partitions have a lease.
func (b *bench) leased() (found []int) {
	b.Helper()
	for i, id := range b.ids {
		var leased bool
		if err := b.database.Pool.QueryRow(b.Context(), `SELECT lease_id IS NOT NULL FROM queen.cursors WHERE partition_id = $1`, id).Scan(&leased); err != nil {
			b.Fatal(err)
		}
		if leased {
			found = append(found, i)
		}
	}
	return found
}

func (b *bench) ack(c group.Completion, id string) group.AckResult {
	b.Helper()
	hash := queue.TransactionHash(id)
	results, err := b.direct.Ack(b.Context(), queue.DefaultTenant, "g", group.Bounds{}, []group.AckGroup{{
		Partition: c.Partition, Lease: &c.Lease, Items: []group.AckItem{{Hash: &hash}},
	}})
	if err != nil {
		b.Fatal(err)
	}
	return results[0]
}

func TestShared_AcksComeBeforeClaims(t *testing.T) {
	t.Parallel()
	b := setup(t, 3)
	held := []group.Completion{b.take(0, time.Minute), b.take(1, time.Minute)}
	before := b.proxy.Count(consume)
	b.together(
		func() {
			got, err := b.Claim(t.Context(), queue.DefaultTenant, b.request(0, time.Minute))
			if err != nil || got.Claims[0].Verdict != group.Took || got.Claims[0].First != held[0].Last+1 {
				t.Errorf("what the ack has freed: %+v %v", got, err)
			}
		},
		func() {
			if got := b.complete(t, held[0]); got[0] != group.LeftBehind {
				t.Errorf("outcome %v", got)
			}
		},
		func() {
			if got := b.complete(t, held[1]); got[0] != group.LeftBehind {
				t.Errorf("outcome %v", got)
			}
		},
		func() {
			got, err := b.Claim(t.Context(), uuid.New(), b.request(2, time.Minute))
			if err != nil || got.Claims[0].Verdict != group.Took || got.Clock.IsZero() || got.Received.IsZero() {
				t.Errorf("%+v %v", got, err)
			}
		},
	)
	if n := b.proxy.Count(consume) - before; n != 2 { // the one that was held, and theirs
		t.Errorf("%d commits", n)
	}
	if diff := cmp.Diff([]int{0, 2}, b.leased()); diff != "" {
		t.Error(diff)
	}
}

func TestShared_OneBadAckFailsAlone(t *testing.T) {
	t.Parallel()
	b := setup(t, 4)
	good, bad := b.take(0, time.Minute), b.take(1, time.Minute)
	b.exec(`CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RAISE EXCEPTION ''refused''; END'`)
	b.exec(fmt.Sprintf(`CREATE TRIGGER refuse BEFORE UPDATE ON queen.cursors FOR EACH ROW WHEN (NEW.partition_id = %d) EXECUTE FUNCTION refuse()`, b.ids[1]))
	open := map[string][]group.CompletionOutcome{}
	var mu sync.Mutex
	finish := func(name string, c group.Completion) func() {
		return func() {
			got := b.complete(t, c)
			mu.Lock()
			defer mu.Unlock()
			open[name] = got
		}
	}
	b.together(
		finish("bad", bad), finish("good", good),
		func() {
			got, err := b.Claim(t.Context(), queue.DefaultTenant, b.request(2, time.Minute))
			if err != nil || got.Claims[0].Verdict != group.Took {
				t.Errorf("%+v %v", got, err)
			}
		},
		func() {
			if got, err := b.Claim(t.Context(), queue.DefaultTenant, b.request(3, time.Minute)); err != nil || got.Claims[0].Verdict != group.Took {
				t.Errorf("%+v %v", got, err)
			}
		},
	)
	// Both are for their caller to ack, one by one.
	want := []group.CompletionOutcome{group.Undecided}
	if diff := cmp.Diff(map[string][]group.CompletionOutcome{"good": want, "bad": want}, open); diff != "" {
		t.Error(diff)
	}
	if r := b.ack(good, "second"); r.Items[0] != group.Applied || !r.LeaseReleased {
		t.Errorf("%+v", r)
	}
	if diff := cmp.Diff([]int{1, 2, 3}, b.leased()); diff != "" {
		t.Error(diff)
	}
}

// The answer of a shared commit is lost: nobody is told that it happened, a repeated ack finds it done, and what was leased
// is delivered again when its time is over.
func TestShared_LostAnswer(t *testing.T) {
	t.Parallel()
	b := setup(t, 4)
	acked := []group.Completion{b.take(0, time.Minute), b.take(1, time.Minute)}
	claimed := []*group.ClaimRequest{b.request(2, time.Second), b.request(3, time.Second)}
	lost := b.proxy.Nth(2, testkit.DropAnswer, consume)
	var calls []func()
	for _, c := range acked {
		calls = append(calls, func() {
			if got, err := b.Complete(t.Context(), queue.DefaultTenant, []group.Completion{c}); err == nil {
				t.Errorf("an ack without an answer comes to %v", got)
			}
		})
	}
	for _, req := range claimed {
		calls = append(calls, func() {
			if got, err := b.Claim(t.Context(), queue.DefaultTenant, req); err == nil {
				t.Errorf("a claim without an answer comes to %+v", got)
			}
		})
	}
	b.together(calls...)
	if a := lost.Answer(t); a.SQLState != "" || a.Status != 'I' {
		t.Fatalf("%+v", a)
	}
	for i, c := range acked {
		if got := b.complete(t, c); got[0] != group.Undecided {
			t.Errorf("%d: outcome %v", i, got)
		}
		if r := b.ack(c, "second"); r.Items[0] != group.Noop {
			t.Errorf("%d: %+v", i, r)
		}
	}
	if diff := cmp.Diff([]int{2, 3}, b.leased()); diff != "" {
		t.Error(diff)
	}
	for i := range claimed {
		for {
			got, err := b.Claim(t.Context(), queue.DefaultTenant, b.request(2+i, time.Minute))
			if err != nil {
				t.Fatal(err)
			}
			c := got.Claims[0]
			if c.Verdict == group.Leased {
				wait := time.NewTimer(c.Until.Sub(got.Clock))
				<-wait.C
				continue
			}
			if c.Verdict != group.Took || c.Attempt != 2 {
				t.Errorf("%+v", c)
			}
			break
		}
	}
}

func TestClaim_MakesTheFirstRowOfACursorApart(t *testing.T) {
	t.Parallel()
	b := setup(t, 1)
	fresh := b.push("fresh", "a", "b")
	req := b.request(0, time.Minute)
	req.Partitions = []int64{fresh}
	got, err := b.Claim(t.Context(), queue.DefaultTenant, req)
	if err != nil || len(got.Claims) != 1 || got.Claims[0].Verdict != group.Took || got.Claims[0].First != 0 {
		t.Errorf("%+v %v", got, err)
	}
	wide := b.request(0, time.Minute)
	wide.Batch = 2 * maxBatch
	before := b.proxy.Count(consume)
	if got, err = b.Claim(t.Context(), queue.DefaultTenant, wide); err != nil || got.Claims[0].Verdict != group.Took {
		t.Errorf("%+v %v", got, err)
	}
	if b.proxy.Count(consume) != before {
		t.Error("a large claim shares a commit")
	}
}

// A call whose time is over while it waits takes nothing.
func TestClaim_LeavesWithItsContext(t *testing.T) {
	t.Parallel()
	b := setup(t, 1)
	held := b.proxy.Next(testkit.HoldStatement, consume)
	var running sync.WaitGroup
	running.Go(func() { b.complete(t, group.Completion{Tenant: queue.DefaultTenant}) })
	held.Await(t)
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
	defer cancel()
	if got, err := b.Claim(ctx, queue.DefaultTenant, b.request(0, time.Minute)); queue.KindOf(err) != queue.KindUnavailable {
		t.Errorf("%+v %v", got, err)
	}
	held.Release()
	running.Wait()
	if leased := b.leased(); len(leased) != 0 {
		t.Errorf("leased: %v", leased)
	}
}
