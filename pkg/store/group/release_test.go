package group_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"github.com/google/uuid"

	"queen.internal/pkg/queue"
	"queen.internal/pkg/store/group"
)

// release gives back a lease and returns the partitions that came free.
func (b *bench) release(tenant, lease uuid.UUID, keys ...group.LeaseKey) (partitions []int64) {
	b.Helper()
	released, err := b.group.Release(b.Context(), tenant, lease, group.Bounds{}, keys)
	if err != nil {
		b.Fatal(err)
	}
	for _, key := range released {
		partitions = append(partitions, key.Partition)
	}
	return partitions
}

func TestReleaseUndoesTheDelivery(t *testing.T) {
	t.Parallel()
	b := setup(t)
	p1, p2 := b.push("1", "a", "b"), b.push("2", "c")
	b.limit(2)
	sub := b.subscribe("g", all)
	keys := []group.LeaseKey{{Partition: p1, Subscription: sub.ID}, {Partition: p2, Subscription: sub.ID}}
	for name, known := range map[string][]group.LeaseKey{"known": keys, "searched": nil} {
		for range 3 { // more often than the limit
			lease, claims := b.claim(sub, 10, p1, p2)
			if len(claims) != 2 || span(claims[0]) != "0-1 #1" || span(claims[1]) != "0-0 #1" {
				t.Fatalf("%s: %+v", name, claims)
			}
			sorted := cmpopts.SortSlices(func(a, b int64) bool { return a < b })
			if diff := cmp.Diff([]int64{p1, p2}, b.release(queue.DefaultTenant, lease, known...), sorted); diff != "" {
				t.Errorf("%s: %s", name, diff)
			}
			if again := b.release(queue.DefaultTenant, lease, known...); again != nil {
				t.Errorf("%s: given back twice: %v", name, again)
			}
		}
	}
	if ids := b.candidates(sub); len(ids) != 2 {
		t.Errorf("candidates %v", ids)
	}
}

func TestReleaseLeavesEarlierDeliveriesCounted(t *testing.T) {
	t.Parallel()
	b := setup(t)
	p := b.push("p", "1", "2")
	b.limit(2)
	sub := b.subscribe("g", all)
	b.deliveries(sub, 2, p, 1)
	for range 2 {
		lease, c := b.take(sub, 2, p)
		if span(c) != "0-0 #2*" {
			t.Errorf("%+v", c)
		}
		b.release(queue.DefaultTenant, lease)
	}
	if diff := cmp.Diff([]string{"0-0 #2*", "1-1 #2*"}, b.deliveries(sub, 2, p, 2)); diff != "" {
		t.Error(diff)
	}
}

func TestReleaseGivesBackOnlyTheCursorsNamed(t *testing.T) {
	t.Parallel()
	b := setup(t)
	p1, p2 := b.push("1", "a"), b.push("2", "b")
	sub := b.subscribe("g", all)
	lease, _ := b.claim(sub, 10, p1, p2)
	if got := b.release(queue.DefaultTenant, lease, group.LeaseKey{Partition: p2, Subscription: sub.ID}); len(got) != 1 || got[0] != p2 {
		t.Errorf("%v", got)
	}
	_, claims := b.claim(sub, 10, p1, p2)
	if claims[0].Verdict != group.Leased || claims[1].Verdict != group.Took {
		t.Errorf("%+v", claims)
	}
}

func TestReleaseChangesNothing(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		before func(b *bench, lease uuid.UUID, c group.Claim)
		tenant uuid.UUID
		lease  uuid.UUID
	}{
		"AfterAnAckOfAPart":    {before: func(b *bench, lease uuid.UUID, c group.Claim) { b.ack("g", c, &lease, "1") }},
		"AfterAnAckOfAll":      {before: func(b *bench, lease uuid.UUID, c group.Claim) { b.ack("g", c, &lease, "2") }},
		"AfterANack":           {before: func(b *bench, lease uuid.UUID, c group.Claim) { b.ack("g", c, &lease, "1-") }},
		"AfterTheExpiry":       {before: func(b *bench, _ uuid.UUID, _ group.Claim) { b.expireLeases() }},
		"OfAnotherTenant":      {tenant: uuid.New()},
		"UnderAnUnknownLease":  {lease: uuid.New()},
		"OfAQueueThatIsMarked": {before: func(b *bench, _ uuid.UUID, _ group.Claim) { b.exec(`UPDATE queen.queues SET deleted_at = now()`) }},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := setup(t)
			p := b.push("p", "1", "2", "3")
			sub := b.subscribe("g", all)
			lease, c := b.take(sub, 2, p)
			if tc.before != nil {
				tc.before(b, lease, c)
			}
			const rowSQL = `SELECT c::text FROM queen.cursors c`
			row := func() (text string) {
				if err := b.pool.QueryRow(t.Context(), rowSQL).Scan(&text); err != nil {
					t.Fatal(err)
				}
				return text
			}
			before := row()
			if tc.lease == uuid.Nil {
				tc.lease = lease
			}
			if tc.tenant == uuid.Nil {
				tc.tenant = queue.DefaultTenant
			}
			for _, keys := range [][]group.LeaseKey{{{Partition: p, Subscription: sub.ID}}, nil} {
				if got := b.release(tc.tenant, tc.lease, keys...); got != nil {
					t.Errorf("released %v", got)
				}
			}
			if diff := cmp.Diff(before, row()); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// Retention may have removed what followed the cursor before the claim.
func TestReleaseOfAHeadPastTheCursor(t *testing.T) {
	t.Parallel()
	b := setup(t)
	p := b.push("p", "1")
	b.push("p", "2")
	b.exec(`DELETE FROM queen.segments WHERE base_offset = 0`)
	b.exec(`UPDATE queen.partitions SET log_start = 1`)
	sub := b.subscribe("g", all)
	lease, _ := b.take(sub, 2, p)
	if got := b.release(queue.DefaultTenant, lease); len(got) != 1 {
		t.Errorf("%v", got)
	}
	if got := b.deliver(sub, 2, p); got != "1-1 #1" {
		t.Error(got)
	}
}

func TestReleaseKeepsRetriesAndTheLastCompletedLease(t *testing.T) {
	t.Parallel()
	b := setup(t)
	p := b.push("p", "1", "2", "3")
	sub := b.subscribe("g", all)
	completed, c := b.take(sub, 1, p)
	b.ack("g", c, &completed, "1")
	failed, c := b.take(sub, 1, p)
	b.ack("g", c, &failed, "2-")
	b.exec(`UPDATE queen.cursors SET completed_lease_id = $1`, [16]byte(completed))
	lease, _ := b.take(sub, 1, p)
	b.release(queue.DefaultTenant, lease)
	var retries, attempt int
	var kept uuid.UUID
	if err := b.pool.QueryRow(t.Context(), `SELECT retry_count, attempt, completed_lease_id FROM queen.cursors`).Scan(&retries, &attempt, &kept); err != nil {
		t.Fatal(err)
	}
	if retries != 1 || attempt != 1 || kept != completed {
		t.Errorf("%d retries, attempt %d, completed lease %s", retries, attempt, kept)
	}
}
