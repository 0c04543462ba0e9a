package group_test

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"github.com/google/uuid"

	"queen.internal/pkg/pg"
	"queen.internal/pkg/pgtest"
	"queen.internal/pkg/queue"
	"queen.internal/pkg/segment"
	"queen.internal/pkg/store/group"
	"queen.internal/pkg/store/log"
)

func TestMain(m *testing.M) { pgtest.Main(m, pgtest.CheckLeaks) }

// bench is one test's database with a group store on it.
type bench struct {
	*testing.T
	pool  *pg.Pool
	group *group.Store
	log   *log.Store
	tag   int64
}

func setup(t *testing.T) *bench {
	pool := pgtest.DB(t)
	return &bench{T: t, pool: pool, group: group.New(pool), log: log.New(pool)}
}

var (
	all   = group.Start{Mode: "all"}
	fresh = group.Start{Mode: "new"}
)

func (b *bench) exec(sql string, args ...any) {
	b.Helper()
	if _, err := b.pool.Exec(b.Context(), sql, args...); err != nil {
		b.Fatal(err)
	}
}

// push appends one segment and returns the partition's id.
func (b *bench) push(partition string, transactions ...string) int64 {
	b.Helper()
	ids, err := b.log.Ensure(b.Context(), []log.Key{{Tenant: queue.DefaultTenant, Queue: "q", Partition: partition}})
	if err != nil {
		b.Fatal(err)
	}
	b.tag++
	run := log.Run{Partition: ids[0], Tag: b.tag}
	var msgs []segment.Message
	for _, id := range transactions {
		msgs = append(msgs, segment.Message{ID: queue.NewID(), TransactionID: id, Payload: []byte(`"` + id + `"`)})
		run.Hashes = append(run.Hashes, queue.TransactionHash(id))
	}
	if len(msgs) == 0 {
		return ids[0].ID
	}
	run.Segment = segment.Encode(msgs)
	placed, err := b.log.Append(b.Context(), []log.Run{run}, log.AppendOptions{Wait: true})
	if err != nil || placed[0].Verdict != log.Appended {
		b.Fatal(placed, err)
	}
	return ids[0].ID
}

func (b *bench) subscribe(name string, start group.Start) group.Ref {
	b.Helper()
	sub, err := b.group.Subscribe(b.Context(), queue.DefaultTenant, "q", name, start)
	if err != nil {
		b.Fatal(err)
	}
	return sub.Ref
}

func (b *bench) candidates(subscription group.Ref) []int64 {
	b.Helper()
	ids, err := takeable(b.Context(), b.group, subscription)
	if err != nil {
		b.Fatal(err)
	}
	return ids
}

// takeable is the partitions, up to a hundred, in which a group may find work at once.
func takeable(ctx context.Context, store *group.Store, subscription group.Ref) (ids []int64, err error) {
	found, _, err := store.Find(ctx, []group.Search{{Subscription: subscription}}, 100, group.Bounds{})
	if err != nil {
		return nil, err
	}
	for _, c := range found[0].Candidates {
		if c.Until.IsZero() {
			ids = append(ids, c.Partition)
		}
	}
	slices.Sort(ids)
	return ids, nil
}

// claim claims up to batch messages of the candidates for a minute.
func (b *bench) claim(subscription group.Ref, batch int, partitions ...int64) (uuid.UUID, []group.Claim) {
	b.Helper()
	req := group.ClaimRequest{Subscription: subscription, Partitions: partitions, Lease: queue.NewID(), LeaseSeconds: 60, Batch: batch, MaxBytes: 16 << 20, AtLeastOne: true}
	result, err := b.group.Claim(b.Context(), req)
	if err != nil {
		b.Fatal(err)
	}
	return req.Lease, result.Claims
}

// take claims one partition, which must have work, and returns the lease.
func (b *bench) take(subscription group.Ref, batch int, partition int64) (uuid.UUID, group.Claim) {
	b.Helper()
	lease, claims := b.claim(subscription, batch, partition)
	if len(claims) != 1 || claims[0].Verdict != group.Took {
		b.Fatalf("claims %+v", claims)
	}
	return lease, claims[0]
}

// item is `transaction` completed, or with a suffix: `-` failed, `~` retry, `!` dead letter.
func item(text string) group.AckItem {
	signal := group.Completed
	switch text[len(text)-1] {
	case '-':
		signal = group.Failed
	case '~':
		signal = group.Retry
	case '!':
		signal = group.DeadLetter
	}
	if signal != group.Completed {
		text = text[:len(text)-1]
	}
	hash := queue.TransactionHash(text)
	return group.AckItem{Hash: &hash, Signal: signal, Reason: "because of " + text}
}

func (b *bench) ack(name string, c group.Claim, lease *uuid.UUID, items ...string) group.AckResult {
	b.Helper()
	g := group.AckGroup{Partition: c.PartitionUUID, Lease: lease}
	for _, text := range items {
		g.Items = append(g.Items, item(text))
	}
	results, err := b.group.Ack(b.Context(), queue.DefaultTenant, name, group.Bounds{}, []group.AckGroup{g})
	if err != nil {
		b.Fatal(err)
	}
	return results[0]
}

func (b *bench) expireLeases() {
	b.Helper()
	b.exec(`UPDATE queen.cursors SET lease_expires_at = clock_timestamp() - interval '1 ms' WHERE lease_id IS NOT NULL`)
}

func (b *bench) deadLetters() []string {
	b.Helper()
	rows, err := b.pool.Query(b.Context(), `SELECT transaction_id || ' ' || convert_from(payload, 'UTF8') || ' ' || error || ' ' || retry_count FROM queen.dlq ORDER BY failed_at`)
	if err != nil {
		b.Fatal(err)
	}
	defer rows.Close()
	var found []string
	for rows.Next() {
		var text string
		if err := rows.Scan(&text); err != nil {
			b.Fatal(err)
		}
		found = append(found, text)
	}
	return found
}

func TestClaimGivesContiguousSpansInOrder(t *testing.T) {
	t.Parallel()
	b := setup(t)
	p := b.push("p", "1", "2", "3")
	b.push("p", "4", "5")
	sub := b.subscribe("g", all)
	for _, want := range [][2]int64{{0, 1}, {2, 3}, {4, 4}} {
		lease, c := b.take(sub, 2, p)
		if c.First != want[0] || c.Last != want[1] || c.Attempt != 1 || c.PartitionName != "p" {
			t.Fatalf("%+v, want offsets %v", c, want)
		}
		if r := b.ack("g", c, &lease, fmt.Sprint(want[1]+1)); !r.LeaseReleased || r.Committed != want[1] {
			t.Fatalf("%+v", r)
		}
	}
	if _, claims := b.claim(sub, 2, p); claims[0].Verdict != group.Empty {
		t.Errorf("%+v", claims)
	}
	if ids := b.candidates(sub); len(ids) != 0 {
		t.Errorf("candidates %v", ids)
	}
}

func TestClaimSpendsItsBudgetOverPartitions(t *testing.T) {
	t.Parallel()
	b := setup(t)
	p1, p2, p3 := b.push("1", "a", "b"), b.push("2", "c", "d"), b.push("3", "e")
	sub := b.subscribe("g", all)
	_, claims := b.claim(sub, 3, p3, p1, p2)
	want := []group.Claim{{PartitionID: p1, Verdict: group.Took, First: 0, Last: 1}, {PartitionID: p2, Verdict: group.Took, First: 0, Last: 0}}
	for i := range claims {
		claims[i] = group.Claim{PartitionID: claims[i].PartitionID, Verdict: claims[i].Verdict, First: claims[i].First, Last: claims[i].Last}
	}
	if diff := cmp.Diff(want, claims); diff != "" {
		t.Error(diff)
	}
}

func TestClaimKeepsItsByteBudgetButGivesAtLeastOneMessage(t *testing.T) {
	t.Parallel()
	b := setup(t)
	p := b.push("p", "1")
	b.push("p", "2")
	b.push("p", "3")
	sub := b.subscribe("g", all)
	result, err := b.group.Claim(t.Context(), group.ClaimRequest{Subscription: sub, Partitions: []int64{p}, Lease: queue.NewID(), Batch: 10, MaxBytes: 1, AtLeastOne: true})
	if err != nil {
		t.Fatal(err)
	}
	if c := result.Claims[0]; c.First != 0 || c.Last != 0 {
		t.Errorf("%+v", c)
	}
}

func TestClaimLeavesWhatExceedsTheBytesLeft(t *testing.T) {
	t.Parallel()
	b := setup(t)
	p1, p2 := b.push("1", "a"), b.push("2", "b")
	b.push("1", "c")
	b.exec(`UPDATE queen.segments SET raw_bytes = 600`)
	sub := b.subscribe("g", all)
	claim := func(atLeastOne bool, bytes int) []group.Claim {
		result, err := b.group.Claim(t.Context(), group.ClaimRequest{
			Subscription: sub, Partitions: []int64{p1, p2}, Lease: queue.NewID(), Batch: 10, MaxBytes: bytes, AtLeastOne: atLeastOne,
		})
		if err != nil {
			t.Fatal(err)
		}
		return result.Claims
	}
	if claims := claim(false, 500); len(claims) != 0 {
		t.Errorf("%+v", claims)
	}
	if claims := claim(true, 1000); len(claims) != 1 || claims[0].Last != 0 {
		t.Errorf("%+v", claims)
	}
}

func TestClaimLeasesAPartitionToOneOfManyWorkers(t *testing.T) {
	t.Parallel()
	b := setup(t)
	p := b.push("p", "1", "2")
	sub := b.subscribe("g", all)
	for round := range 10 {
		var workers sync.WaitGroup
		var mu sync.Mutex
		took := 0
		for range 4 {
			workers.Go(func() {
				_, claims := b.claim(sub, 1, p)
				mu.Lock()
				defer mu.Unlock()
				switch claims[0].Verdict {
				case group.Took:
					took++
				case group.Busy, group.Leased:
				default:
					t.Errorf("verdict %v", claims[0].Verdict)
				}
			})
		}
		workers.Wait()
		if took != 1 {
			t.Fatalf("round %d: %d leases", round, took)
		}
		b.expireLeases()
	}
}

func TestClaimRepeatsTheSpanAfterExpiryAndCountsTheAttempt(t *testing.T) {
	t.Parallel()
	b := setup(t)
	p := b.push("p", "1", "2", "3")
	sub := b.subscribe("g", all)
	_, first := b.take(sub, 2, p)
	if _, claims := b.claim(sub, 2, p); claims[0].Verdict != group.Leased || claims[0].Until.Before(time.Now()) {
		t.Fatalf("%+v", claims)
	}
	b.expireLeases()
	lease, second := b.take(sub, 2, p)
	if second.First != first.First || second.Last != first.Last || second.Attempt != 2 {
		t.Errorf("%+v after %+v", second, first)
	}
	b.ack("g", second, &lease, "1")
	b.expireLeases()
	if _, third := b.take(sub, 2, p); third.First != 1 || third.Attempt != 1 {
		t.Errorf("after a partial ack: %+v", third)
	}
}

func TestClaimDoesNotBelieveAClockBeyondItsCap(t *testing.T) {
	t.Parallel()
	b := setup(t)
	p := b.push("p", "1")
	sub := b.subscribe("g", all)
	b.take(sub, 1, p)
	// To this server the lease has lapsed; to a caller who saw its clock an hour ago it has not.
	b.expireLeases()
	req := group.ClaimRequest{Subscription: sub, Partitions: []int64{p}, Lease: queue.NewID(), Batch: 1, MaxBytes: 1 << 20, AtLeastOne: true, Clock: group.Bounds{Cap: time.Now().Add(-time.Hour)}}
	result, err := b.group.Claim(t.Context(), req)
	if err != nil {
		t.Fatal(err)
	}
	if result.Claims[0].Verdict != group.Leased {
		t.Errorf("%+v", result.Claims)
	}
}

func TestClaimWithAutoAckConsumes(t *testing.T) {
	t.Parallel()
	b := setup(t)
	p := b.push("p", "1", "2")
	sub := b.subscribe("g", all)
	req := group.ClaimRequest{Subscription: sub, Partitions: []int64{p}, Lease: queue.NewID(), Batch: 5, MaxBytes: 1 << 20, AtLeastOne: true, AutoAck: true}
	result, err := b.group.Claim(t.Context(), req)
	if err != nil || result.Claims[0].Verdict != group.Took || result.Claims[0].Attempt != 1 {
		t.Fatal(result, err)
	}
	b.expireLeases()
	if _, claims := b.claim(sub, 5, p); claims[0].Verdict != group.Empty {
		t.Errorf("%+v", claims)
	}
}

func TestClaimHidesWhatQueueOptionsDefer(t *testing.T) {
	t.Parallel()
	b := setup(t)
	p := b.push("p", "1", "2")
	sub := b.subscribe("g", all)
	for _, option := range []string{"delayed_processing_seconds", "window_buffer_seconds"} {
		b.exec(`UPDATE queen.queues SET ` + option + ` = 30`)
		if _, claims := b.claim(sub, 5, p); claims[0].Verdict != group.Deferred || claims[0].Until.Before(time.Now()) {
			t.Errorf("%s: %+v", option, claims)
		}
		b.exec(`UPDATE queen.queues SET ` + option + ` = 0`)
	}
	b.exec(`UPDATE queen.queues SET delayed_processing_seconds = 30`)
	b.exec(`UPDATE queen.segments SET created_at = created_at - interval '31 s'`)
	b.push("p", "3")
	if _, c := b.take(sub, 5, p); c.Last != 1 {
		t.Errorf("the visible part ends at %d", c.Last)
	}
}

func TestClaimAnswersGoneForWhatWasDeleted(t *testing.T) {
	t.Parallel()
	b := setup(t)
	p := b.push("p", "1")
	sub := b.subscribe("g", all)
	b.exec(`UPDATE queen.queues SET deleted_at = clock_timestamp()`)
	if _, claims := b.claim(sub, 1, p); claims[0].Verdict != group.Gone {
		t.Errorf("%+v", claims)
	}
	if b.subscribe("g", all) == sub {
		t.Error("the queue's new identity has the old one's subscription")
	}
}

// After a failover that lost a subscription, its number may stand for another one.
func TestClaimNeverTrustsANumberAlone(t *testing.T) {
	t.Parallel()
	b := setup(t)
	p := b.push("p", "1")
	sub := b.subscribe("g", all)
	b.exec(`UPDATE queen.subscriptions SET uid = gen_random_uuid()`)
	if _, claims := b.claim(sub, 1, p); claims[0].Verdict != group.Gone {
		t.Errorf("%+v", claims)
	}
	if ids := b.candidates(sub); len(ids) != 0 {
		t.Errorf("%v", ids)
	}
}

func TestSubscribeFixesTheStartByWhatExists(t *testing.T) {
	t.Parallel()
	b := setup(t)
	old := b.push("old", "1", "2")
	sub := b.subscribe("g", fresh)
	if ids := b.candidates(sub); len(ids) != 0 {
		t.Errorf("backlog of before is offered: %v", ids)
	}
	later := b.push("later", "3")
	b.push("old", "4")
	if b.subscribe("g", all) != sub {
		t.Error("a second contact made another subscription")
	}
	if _, c := b.take(sub, 10, old); c.First != 2 {
		t.Errorf("old partition starts at %d", c.First)
	}
	if _, c := b.take(sub, 10, later); c.First != 0 {
		t.Errorf("later partition starts at %d", c.First)
	}
}

func TestSubscribeFromATimeStartsAtItsSegment(t *testing.T) {
	t.Parallel()
	b := setup(t)
	p := b.push("p", "1", "2")
	b.exec(`UPDATE queen.segments SET created_at = created_at - interval '1 h'`)
	b.push("p", "3")
	sub := b.subscribe("g", group.Start{From: time.Now().Add(-time.Minute)})
	if _, c := b.take(sub, 10, p); c.First != 2 || c.Last != 2 {
		t.Errorf("%+v", c)
	}
	if ids := b.candidates(b.subscribe("h", group.Start{From: time.Now().Add(time.Hour)})); len(ids) != 0 {
		t.Errorf("%v", ids)
	}
}

func TestSubscribeWaitsForPartitionsBeingCreated(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.push("p")
	tx, err := b.pool.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := tx.Exec(t.Context(), `SELECT * FROM queen.ensure_partitions(ARRAY[$1::uuid], ARRAY['q'], ARRAY['being created'])`, [16]byte(queue.DefaultTenant)); err != nil {
		t.Fatal(err)
	}
	registered := make(chan group.Ref)
	go func() { registered <- b.subscribe("g", fresh) }()
	for waiting := 0; waiting == 0; {
		if err := b.pool.QueryRow(t.Context(), `SELECT count(*) FROM pg_stat_activity, pg_sleep(0.01) WHERE datname = current_database() AND wait_event_type = 'Lock'`).Scan(&waiting); err != nil {
			t.Fatal(err)
		}
	}
	if err := tx.Commit(t.Context()); err != nil {
		t.Fatal(err)
	}
	sub := <-registered
	var newest, highest int64
	if err := b.pool.QueryRow(t.Context(), `SELECT s.newest_partition_id, (SELECT max(id) FROM queen.partitions) FROM queen.subscriptions s WHERE s.id = $1`, sub.ID).Scan(&newest, &highest); err != nil {
		t.Fatal(err)
	}
	if newest != highest {
		t.Errorf("registration counted partitions up to %d of %d", newest, highest)
	}
}

func TestPinTouchesOnlyItsPartition(t *testing.T) {
	t.Parallel()
	b := setup(t)
	if _, found, err := b.group.Pin(t.Context(), queue.DefaultTenant, "q", "p", "g", fresh); found || err != nil {
		t.Fatal(found, err)
	}
	p := b.push("p", "1")
	other := b.push("other", "2")
	pinned, found, err := b.group.Pin(t.Context(), queue.DefaultTenant, "q", "p", "g", fresh)
	if !found || err != nil || pinned.PartitionID != p {
		t.Fatal(pinned, found, err)
	}
	if _, claims := b.claim(pinned.Ref, 1, p); claims[0].Verdict != group.Empty {
		t.Errorf("a new group sees the backlog of its pinned partition: %+v", claims)
	}
	b.push("p", "3")
	if _, _, err := b.group.Pin(t.Context(), queue.DefaultTenant, "q", "p", "g", all); err != nil {
		t.Fatal(err)
	}
	if _, c := b.take(pinned.Ref, 10, p); c.First != 1 {
		t.Errorf("%+v", c)
	}
	if sub := b.subscribe("g", all); sub != pinned.Ref {
		t.Errorf("registration made subscription %v beside %v", sub, pinned.Ref)
	}
	if _, c := b.take(pinned.Ref, 10, other); c.First != 0 {
		t.Errorf("%+v", c)
	}
}

func TestPinOfAMissingPartitionNotesWhatThereIs(t *testing.T) {
	t.Parallel()
	b := setup(t)
	old := b.push("old", "1")
	for _, partition := range []string{"to come", "to come"} {
		if _, found, err := b.group.Pin(t.Context(), queue.DefaultTenant, "q", partition, "g", fresh); found || err != nil {
			t.Fatal(found, err)
		}
	}
	come := b.push("to come", "2")
	pin := func(partition string) group.Ref {
		pinned, found, err := b.group.Pin(t.Context(), queue.DefaultTenant, "q", partition, "g", fresh)
		if err != nil || !found {
			t.Fatal(found, err)
		}
		return pinned.Ref
	}
	if _, c := b.take(pin("to come"), 10, come); c.First != 0 {
		t.Errorf("%+v", c)
	}
	if _, claims := b.claim(pin("old"), 10, old); claims[0].Verdict != group.Empty {
		t.Errorf("%+v", claims)
	}
}

func TestDiscoverMatchesLabelsExactly(t *testing.T) {
	t.Parallel()
	b := setup(t)
	for _, name := range []string{"shop.order", "shop.refund", "shop", "other.order"} {
		if _, err := b.group.Subscribe(t.Context(), queue.DefaultTenant, name, "g", all); err != nil {
			t.Fatal(err)
		}
	}
	for _, tc := range []struct {
		namespace, task string
		want            []string
	}{
		{"shop", "", []string{"shop.order", "shop.refund", "shop"}},
		{"", "order", []string{"shop.order", "other.order"}},
		{"shop", "order", []string{"shop.order"}},
		{"sho", "", nil},
	} {
		got, err := b.group.Discover(t.Context(), queue.DefaultTenant, tc.namespace, tc.task)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(tc.want, got, cmpopts.EquateEmpty()); diff != "" {
			t.Errorf("%q %q: %s", tc.namespace, tc.task, diff)
		}
	}
	if got, err := b.group.Discover(t.Context(), uuid.New(), "shop", ""); err != nil || len(got) != 0 {
		t.Errorf("another tenant sees %v %v", got, err)
	}
}
