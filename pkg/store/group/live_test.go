package group_test

import (
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"

	"queen.internal/pkg/queue"
	"queen.internal/pkg/store/group"
)

// leases is a whole walk, limit cursors a call, as "group/partition first-last attempt".
func (b *bench) leases(tenant uuid.UUID, queueName, groupName string, limit int) (found []string) {
	b.Helper()
	var at group.LeaseWalk
	for more := true; more; {
		var page []group.LiveLease
		var err error
		page, at, more, err = b.group.Leases(b.Context(), tenant, queueName, groupName, at, limit, group.Bounds{})
		if err != nil {
			b.Fatal(err)
		}
		for _, l := range page {
			if l.Lease == uuid.Nil || l.PartitionID == uuid.Nil || l.Queue != "q" || l.Expires.IsZero() {
				b.Errorf("%+v", l)
			}
			found = append(found, fmt.Sprintf("%s/%s %d-%d %d", l.Group, l.Partition, l.First, l.Last, l.Attempt))
		}
	}
	return found
}

func TestLeasesWalksAllCursorsPageByPage(t *testing.T) {
	t.Parallel()
	b := setup(t)
	var want []string
	partitions := make([]int64, 7)
	for i := range partitions {
		partitions[i] = b.push(fmt.Sprint("p", i), "1", "2")
	}
	for _, name := range []string{"a", "b", "c", "none"} {
		sub := b.subscribe(name, all)
		for i, p := range partitions {
			if name == "none" || i%3 == 0 { // some cursors are not leased, and one group has none
				continue
			}
			lease, c := b.take(sub, 2, p)
			from := 0
			switch i {
			case 1:
				b.ack(name, c, &lease, "1") // in part
				from = 1
			case 2:
				b.ack(name, c, &lease, "1", "2")
				continue
			}
			want = append(want, fmt.Sprintf("%s/p%d %d-1 1", name, i, from))
		}
	}
	for _, limit := range []int{1, 2, 3, 100} {
		if diff := cmp.Diff(want, b.leases(queue.DefaultTenant, "", "", limit)); diff != "" {
			t.Errorf("%d a page:\n%s", limit, diff)
		}
	}
	if diff := cmp.Diff(want[3:6], b.leases(queue.DefaultTenant, "q", "b", 2)); diff != "" {
		t.Errorf("of one group:\n%s", diff)
	}
	if got := b.leases(queue.DefaultTenant, "other", "", 2); len(got) > 0 {
		t.Errorf("of another queue: %q", got)
	}
	if got := b.leases(uuid.MustParse("11111111-2222-3333-4444-555555555555"), "", "", 2); len(got) > 0 {
		t.Errorf("of another tenant: %q", got)
	}
	b.expireLeases()
	if got := b.leases(queue.DefaultTenant, "", "", 2); len(got) > 0 {
		t.Errorf("after they ran out: %q", got)
	}
}

// Ending a lease is no give-back: the delivery counts. It is no nack either: no retry is charged and nothing waits.
func TestExpireEndsALeaseAsTimeDoes(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.exec(`UPDATE queen.queues SET redelivery_delay_seconds = 60`)
	p, other := b.push("p", "1", "2"), b.push("other", "1")
	sub := b.subscribe("g", all)
	req := request(sub, p, other)
	result, err := b.group.Claim(t.Context(), req)
	if err != nil || len(result.Claims) != 2 {
		t.Fatalf("%+v (%v)", result, err)
	}
	stranger := uuid.MustParse("11111111-2222-3333-4444-555555555555")
	if got, err := b.group.Expire(t.Context(), stranger, req.Lease, group.Bounds{}, nil); err != nil || len(got) != 0 {
		t.Errorf("another tenant frees %v (%v)", got, err)
	}
	keys := []group.LeaseKey{{Partition: p, Subscription: sub.ID}}
	if got, err := b.group.Expire(t.Context(), queue.DefaultTenant, req.Lease, group.Bounds{}, keys); err != nil || !cmp.Equal(got, keys) {
		t.Errorf("freed %v (%v)", got, err)
	}
	if got, err := b.group.Expire(t.Context(), queue.DefaultTenant, req.Lease, group.Bounds{}, nil); err != nil || len(got) != 1 || got[0].Partition != other {
		t.Errorf("freed %v (%v)", got, err)
	}
	if got, err := b.group.Expire(t.Context(), queue.DefaultTenant, req.Lease, group.Bounds{}, nil); err != nil || len(got) != 0 {
		t.Errorf("freed again %v (%v)", got, err)
	}
	if r := b.ack("g", result.Claims[0], &req.Lease, "1"); r.Items[0] != group.StaleLease {
		t.Errorf("an ack after the end: %+v", r)
	}
	if got, err := b.group.Extend(t.Context(), queue.DefaultTenant, req.Lease, 60, group.Bounds{}, nil); err != nil || got.Renewed != 0 {
		t.Errorf("a renewal after the end: %+v (%v)", got, err)
	}
	if _, c := b.take(sub, 2, p); c.First != 0 || c.Attempt != 2 {
		t.Errorf("%+v", c)
	}
	var retries int
	if err := b.pool.QueryRow(t.Context(), `SELECT sum(retry_count) FROM queen.cursors`).Scan(&retries); err != nil || retries != 0 {
		t.Errorf("%d retries (%v)", retries, err)
	}
}
