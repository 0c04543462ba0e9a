package group_test

import (
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"queen.internal/pkg/queue"
	"queen.internal/pkg/store/group"
)

func (b *bench) limit(n int) { b.exec(`UPDATE queen.queues SET delivery_limit = $1`, n) }

// deliver claims the partition and says what came: the offsets and the attempt, with a star when they must go alone.
func (b *bench) deliver(sub group.Ref, batch int, partition int64) string {
	b.Helper()
	_, claims := b.claim(sub, batch, partition)
	return span(claims[0])
}

func span(c group.Claim) string {
	if c.Verdict != group.Took {
		return fmt.Sprint("verdict ", c.Verdict)
	}
	star := ""
	if c.Alone {
		star = "*"
	}
	return fmt.Sprintf("%d-%d #%d%s", c.First, c.Last, c.Attempt, star)
}

// deliveries are the spans of as many claims, each of which runs out.
func (b *bench) deliveries(sub group.Ref, batch int, partition int64, times int) (spans []string) {
	b.Helper()
	for range times {
		spans = append(spans, b.deliver(sub, batch, partition))
		b.expireLeases()
	}
	return spans
}

func TestDeliveryLimitCountsExpiriesAndIsolatesTheHead(t *testing.T) {
	t.Parallel()
	b := setup(t)
	p := b.push("p", "1", "2", "3")
	b.push("p", "4")
	b.limit(3)
	sub := b.subscribe("g", all)
	// 2 and 3 were delivered with 1, so 1, 2 and 3 come three times each and 4, which nobody has seen, with an ordinary batch.
	want := []string{"0-2 #1", "0-0 #2*", "0-0 #3*", "1-1 #2*", "1-1 #3*", "2-2 #2*", "2-2 #3*", "3-3 #1"}
	if diff := cmp.Diff(want, b.deliveries(sub, 3, p, len(want))); diff != "" {
		t.Error(diff)
	}
	dead := []string{
		`1 "1" delivered 3 times and not completed (deliveryLimit 3) 0`,
		`2 "2" delivered 3 times and not completed (deliveryLimit 3) 0`,
		`3 "3" delivered 3 times and not completed (deliveryLimit 3) 0`,
	}
	if diff := cmp.Diff(dead, b.deadLetters()); diff != "" {
		t.Error(diff)
	}
}

func TestDeliveryLimitCountsNacks(t *testing.T) {
	t.Parallel()
	b := setup(t)
	p := b.push("p", "1", "2")
	b.limit(2)
	b.exec(`UPDATE queen.queues SET retry_limit = 100`)
	sub := b.subscribe("g", all)
	for _, text := range []string{"1-", "1~"} {
		lease, c := b.take(sub, 2, p)
		if r := b.ack("g", c, &lease, text); !r.LeaseReleased || r.DeadLettered {
			t.Errorf("%s: %+v", text, r)
		}
	}
	if got := b.deliver(sub, 2, p); got != "1-1 #2*" {
		t.Errorf("after two deliveries of the first: %s", got)
	}
	if diff := cmp.Diff([]string{`1 "1" delivered 2 times and not completed (deliveryLimit 2) 1`}, b.deadLetters()); diff != "" {
		t.Error(diff)
	}
}

func TestDeliveryLimitIsNotReachedByWhatIsCompleted(t *testing.T) {
	t.Parallel()
	b := setup(t)
	p := b.push("p", "1", "2", "3", "4")
	b.limit(2)
	sub := b.subscribe("g", all)
	b.deliveries(sub, 3, p, 1)
	for _, text := range []string{"1", "2", "3"} {
		lease, c := b.take(sub, 3, p)
		if c.First != c.Last || c.Attempt != 2 {
			t.Errorf("%+v", c)
		}
		b.ack("g", c, &lease, text)
	}
	if got := b.deliver(sub, 3, p); got != "3-3 #1" {
		t.Errorf("fresh work: %s", got)
	}
	if dead := b.deadLetters(); dead != nil {
		t.Errorf("%v", dead)
	}
}

// With others beside it nobody knows which one the consumers died of.
func TestDeliveryLimitSetLateBlamesOnlyWhatWasDeliveredAlone(t *testing.T) {
	t.Parallel()
	b := setup(t)
	p := b.push("p", "1", "2")
	sub := b.subscribe("g", all)
	b.deliveries(sub, 2, p, 5)
	b.limit(2)
	if diff := cmp.Diff([]string{"0-0 #6*", "1-1 #2*"}, b.deliveries(sub, 2, p, 2)); diff != "" {
		t.Error(diff)
	}
	b.limit(0)
	if diff := cmp.Diff([]string{"1-1 #3"}, b.deliveries(sub, 2, p, 1)); diff != "" {
		t.Error(diff)
	}
	if dead := b.deadLetters(); len(dead) != 1 {
		t.Errorf("%v", dead)
	}
}

func TestDeliveryLimitKeepsTheHeadAloneInTheWholePop(t *testing.T) {
	t.Parallel()
	b := setup(t)
	p1, p2, p3 := b.push("1", "a", "b"), b.push("2", "c", "d"), b.push("3", "e")
	b.limit(2)
	sub := b.subscribe("g", all)
	b.deliveries(sub, 2, p2, 1)
	_, claims := b.claim(sub, 10, p1, p2, p3)
	if len(claims) != 3 || span(claims[0]) != "0-1 #1" || claims[1].Verdict != group.Alone || span(claims[2]) != "0-0 #1" {
		t.Errorf("beside others: %+v", claims)
	}
	b.expireLeases()
	_, claims = b.claim(sub, 10, p2, p3)
	if len(claims) != 1 || span(claims[0]) != "0-0 #2*" {
		t.Errorf("as the first: %+v", claims)
	}
	req := group.ClaimRequest{Subscription: sub, Partitions: []int64{p1}, Lease: queue.NewID(), Batch: 10, MaxBytes: 1 << 20}
	result, err := b.group.Claim(t.Context(), req) // a later claim of a pop that has messages
	if err != nil || len(result.Claims) != 1 || result.Claims[0].Verdict != group.Alone {
		t.Errorf("%+v %v", result.Claims, err)
	}
}

// What is exhausted is filed at once; when the claim has other work, what is behind it is left to the next.
func TestDeliveryLimitFilesBesideOtherWork(t *testing.T) {
	t.Parallel()
	b := setup(t)
	p1, p2 := b.push("1", "a", "b"), b.push("2", "c")
	b.limit(2)
	sub := b.subscribe("g", all)
	b.deliveries(sub, 1, p1, 2)
	_, claims := b.claim(sub, 10, p1, p2)
	if len(claims) != 1 || claims[0].PartitionID != p2 || span(claims[0]) != "0-0 #1" {
		t.Errorf("%+v", claims)
	}
	if len(b.deadLetters()) != 1 {
		t.Errorf("%v", b.deadLetters())
	}
	if got := b.deliver(sub, 10, p1); got != "1-1 #1" {
		t.Error(got)
	}
}

func TestDeliveryLimitDropsWithoutADeadLetterQueue(t *testing.T) {
	t.Parallel()
	b := setup(t)
	p := b.push("p", "1")
	b.limit(2)
	b.exec(`UPDATE queen.queues SET dead_letter_queue = false, dead_letter_after_retries = false`)
	sub := b.subscribe("g", all)
	b.deliveries(sub, 1, p, 2)
	if _, claims := b.claim(sub, 1, p); claims[0].Verdict != group.Empty {
		t.Errorf("%+v", claims)
	}
	if dead := b.deadLetters(); dead != nil {
		t.Errorf("%v", dead)
	}
}

func TestDeliveryLimitHoldsForAutoAck(t *testing.T) {
	t.Parallel()
	b := setup(t)
	p := b.push("p", "1", "2")
	b.limit(2)
	sub := b.subscribe("g", all)
	b.deliveries(sub, 1, p, 2)
	result, err := b.group.Claim(t.Context(), group.ClaimRequest{
		Subscription: sub, Partitions: []int64{p}, Lease: queue.NewID(), Batch: 10, MaxBytes: 1 << 20, AtLeastOne: true, AutoAck: true,
	})
	if err != nil || span(result.Claims[0]) != "1-1 #1" {
		t.Errorf("%+v %v", result.Claims, err)
	}
	if len(b.deadLetters()) != 1 {
		t.Errorf("%v", b.deadLetters())
	}
}

func TestDeliveryLimitIsPerGroup(t *testing.T) {
	t.Parallel()
	b := setup(t)
	p := b.push("p", "1")
	b.limit(2)
	one, other := b.subscribe("one", all), b.subscribe("other", all)
	b.deliveries(one, 1, p, 3)
	if got := b.deliver(other, 1, p); got != "0-0 #1" {
		t.Error(got)
	}
}

// Several delivers meet the same exhausted head at once: one files it, none delivers it again.
func TestDeliveryLimitIsFiledOnceByManyClaims(t *testing.T) {
	t.Parallel()
	b := setup(t)
	p := b.push("p", "1", "2")
	b.limit(2)
	sub := b.subscribe("g", all)
	b.deliver(sub, 1, p) // makes the cursor
	for round := range 10 {
		b.exec(`DELETE FROM queen.dlq`)
		b.exec(`UPDATE queen.cursors SET committed = -1, head_offset = 0, batch_end = NULL, lease_id = NULL, lease_expires_at = NULL,
			attempt = 2, alone = 1, delivered_end = NULL`)
		var workers sync.WaitGroup
		var mu sync.Mutex
		took := 0
		for range 4 {
			workers.Go(func() {
				_, claims := b.claim(sub, 5, p)
				mu.Lock()
				defer mu.Unlock()
				for _, c := range claims {
					if c.Verdict == group.Took {
						took++
						if c.First != 1 {
							t.Errorf("the exhausted message is delivered: %+v", c)
						}
					}
				}
			})
		}
		workers.Wait()
		if took > 1 || len(b.deadLetters()) != 1 {
			t.Fatalf("round %d: %d leases, dead letters %v", round, took, b.deadLetters())
		}
	}
}

// The verdict is old when the message is filed: whoever was faster decides.
func TestDeadLetterHeadsDecidesAnew(t *testing.T) {
	t.Parallel()
	b := setup(t)
	p := b.push("p", "1", "2")
	b.limit(2)
	sub := b.subscribe("g", all)
	file := func(offset int64) (moved int) {
		t.Helper()
		err := b.pool.QueryRow(t.Context(), `SELECT count(*) FROM queen.dead_letter_heads($1, (SELECT uid FROM queen.subscriptions WHERE id = $1), NULL,
			ARRAY[$2::bigint], ARRAY[$3::bigint], ARRAY[gen_random_uuid()], ARRAY[now()], ARRAY['t'], ARRAY['x'::bytea])`, sub.ID, p, offset).Scan(&moved)
		if err != nil {
			t.Fatal(err)
		}
		return moved
	}
	b.deliveries(sub, 1, p, 1)
	if file(0) != 0 {
		t.Error("filed after one delivery")
	}
	b.deliver(sub, 1, p)
	if file(0) != 0 {
		t.Error("filed under a live lease")
	}
	b.expireLeases()
	if file(1) != 0 {
		t.Error("filed another message")
	}
	b.limit(0)
	if file(0) != 0 {
		t.Error("filed without a limit")
	}
	b.limit(2)
	if file(0) != 1 || file(0) != 0 {
		t.Error("not filed once")
	}
	if len(b.deadLetters()) != 1 {
		t.Errorf("%v", b.deadLetters())
	}
}

// A caller of an earlier version knows no such verdicts.
func TestClaimWithoutLimitsDeliversAsBefore(t *testing.T) {
	t.Parallel()
	b := setup(t)
	p := b.push("p", "1", "2")
	b.limit(2)
	sub := b.subscribe("g", all)
	for attempt := 1; attempt <= 4; attempt++ {
		var verdict, first, last, n int
		err := b.pool.QueryRow(t.Context(), `SELECT verdict, first_offset, last_offset, attempt
			FROM queen.claim($1, $2, ARRAY[$3::bigint], gen_random_uuid(), 60, 10, NULL, 1000000, false, NULL, true)`,
			sub.ID, [16]byte(sub.UID), p).Scan(&verdict, &first, &last, &n)
		if err != nil || verdict != 1 || first != 0 || last != 1 || n != attempt {
			t.Errorf("verdict %d, %d-%d #%d, %v", verdict, first, last, n, err)
		}
		b.expireLeases()
	}
}

// The message that must be dead-lettered cannot be read: nothing is lost, and other partitions are served.
func TestDeliveryLimitWaitsForWhatCannotBeRead(t *testing.T) {
	t.Parallel()
	b := setup(t)
	p1, p2 := b.push("1", "a"), b.push("2", "b")
	b.limit(2)
	sub := b.subscribe("g", all)
	b.deliveries(sub, 1, p1, 2)
	b.exec(`ALTER FUNCTION queen.read_segments RENAME TO read_segments_away`)
	result, err := b.group.Claim(t.Context(), group.ClaimRequest{
		Subscription: sub, Partitions: []int64{p1, p2}, Lease: queue.NewID(), LeaseSeconds: 60, Batch: 10, MaxBytes: 1 << 20, AtLeastOne: true,
	})
	if err != nil || result.Err == nil || len(result.Claims) != 2 || result.Claims[0].Verdict != group.Exhausted || result.Claims[1].Verdict != group.Took {
		t.Errorf("%+v %v", result, err)
	}
	b.exec(`ALTER FUNCTION queen.read_segments_away RENAME TO read_segments`)
	if _, claims := b.claim(sub, 10, p1); claims[0].Verdict != group.Empty || len(b.deadLetters()) != 1 {
		t.Errorf("%+v, dead letters %v", claims, b.deadLetters())
	}
}

func TestAvailableCountsWhatLiesPastTheCursor(t *testing.T) {
	t.Parallel()
	b := setup(t)
	p1, p2, p3 := b.push("1", "a", "b", "c"), b.push("2", "d", "e"), b.push("3", "f")
	sub := b.subscribe("g", all)
	lease, c := b.take(sub, 2, p1)
	b.ack("g", c, &lease, "b")
	b.exec(`UPDATE queen.partitions SET log_start = 1 WHERE id = $1`, p2)
	b.exec(`UPDATE queen.queues SET min_pop_wait_ms = 1500`)
	for _, tc := range []struct {
		partitions []int64
		want       int
	}{{nil, 0}, {[]int64{p1}, 1}, {[]int64{p1, p2, p3}, 3}} {
		got, err := b.group.Available(t.Context(), sub, tc.partitions)
		if err != nil || got.Messages != tc.want || got.MinWait != 1500*time.Millisecond {
			t.Errorf("%v: %+v %v", tc.partitions, got, err)
		}
	}
	sub.UID = queue.NewID()
	if got, err := b.group.Available(t.Context(), sub, []int64{p1}); err != nil || got != (group.Available{}) {
		t.Errorf("a subscription that is gone: %+v %v", got, err)
	}
}
