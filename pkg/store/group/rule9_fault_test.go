package group_test

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"

	"queen.internal/pkg/pgtest"
	"queen.internal/pkg/queue"
	"queen.internal/pkg/store/group"
	"queen.internal/pkg/store/log"
	"queen.internal/pkg/testkit"
)

// Rule 9 for consumers: an answer that gets lost after its commit costs a repetition, never a message or a second effect.

// far is a bench beside one whose calls go through a proxy.
func far(t *testing.T) (b, distant *bench, proxy *testkit.Proxy) {
	t.Helper()
	db := pgtest.New(t)
	proxy, cfg := testkit.Between(t, db.Config)
	b = &bench{T: t, pool: db.Pool, group: group.New(db.Pool), log: log.New(db.Pool)}
	return b, b.bystander(cfg, "far"), proxy
}

// lost runs a call, of which the proxy drops the answer to the n-th statement, and checks that the caller is told so and
// the server had committed.
func (b *bench) lost(proxy *testkit.Proxy, n int, statement string, call func() error) {
	b.Helper()
	trap := proxy.Nth(n, testkit.DropAnswer, statement)
	if err := call(); queue.KindOf(err) != queue.KindUnavailable && queue.KindOf(err) != queue.KindUnknown {
		b.Errorf("%s: %v", statement, err)
	}
	if a := trap.Answer(b); a.SQLState != "" || a.Status != 'I' {
		b.Fatalf("%s did not commit: %+v", statement, a)
	}
}

func (b *bench) ackLost(proxy *testkit.Proxy, n int, c group.Claim, lease uuid.UUID, items ...string) {
	b.Helper()
	b.lost(proxy, n, "queen.ack(", func() error {
		g := group.AckGroup{Partition: c.PartitionUUID, Lease: &lease}
		for _, text := range items {
			g.Items = append(g.Items, item(text))
		}
		_, err := b.group.Ack(b.Context(), queue.DefaultTenant, "g", group.Bounds{}, []group.AckGroup{g})
		return err
	})
}

func TestRule9AClaimWhoseAnswerIsLostComesBackByExpiry(t *testing.T) {
	t.Parallel()
	b, distant, proxy := far(t)
	p := b.push("p", "1", "2", "3")
	sub := b.subscribe("g", all)
	distant.lost(proxy, 1, "queen.claim(", func() error {
		_, err := distant.group.Claim(t.Context(), request(sub, p))
		return err
	})
	_, claims := b.claim(sub, 10, p)
	b.want("while the lost lease lives", verdicts(claims), group.Leased)
	if until := time.Until(claims[0].Until); until <= 0 || until > time.Minute {
		t.Errorf("leased for %v", until)
	}
	b.expireLeases()
	lease, c := b.take(sub, 10, p)
	if c.First != 0 || c.Last != 2 || c.Attempt != 2 {
		t.Errorf("%+v", c)
	}
	if r := b.ack("g", c, &lease, "3"); !r.LeaseReleased {
		t.Errorf("%+v", r)
	}
}

func TestRule9AnAckIsRepeatedWithoutASecondEffect(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		calls    int // of the procedure: a dead letter's message is asked for by the first one
		items    []string
		repeated []group.ItemOutcome
		next     int64 // first offset of the next claim, and its attempt
		attempt  int
		retries  int
		dead     int
	}{
		"whole batch":     {1, []string{"1", "2", "3"}, []group.ItemOutcome{noop, noop, noop}, 3, 1, 0, 0},
		"a failure":       {1, []string{"2", "3-"}, []group.ItemOutcome{noop, stale}, 2, 1, 1, 0},
		"a retry":         {1, []string{"1~"}, []group.ItemOutcome{stale}, 0, 2, 0, 0},
		"a dead letter":   {2, []string{"1", "2!"}, []group.ItemOutcome{noop, already}, 2, 1, 0, 1},
		"one dead letter": {2, []string{"3!"}, []group.ItemOutcome{already}, 3, 1, 0, 1},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b, distant, proxy := far(t)
			p := b.push("p", "1", "2", "3")
			b.push("p", "4")
			sub := b.subscribe("g", all)
			lease, c := b.take(sub, 3, p)
			distant.ackLost(proxy, test.calls, c, lease, test.items...)
			r := distant.ack("g", c, &lease, test.items...)
			if diff := cmp.Diff(test.repeated, r.Items); diff != "" {
				t.Errorf("%s", diff)
			}
			var retries int
			if err := b.pool.QueryRow(t.Context(), `SELECT retry_count FROM queen.cursors`).Scan(&retries); err != nil {
				t.Fatal(err)
			}
			if dead := len(b.deadLetters()); retries != test.retries || dead != test.dead {
				t.Errorf("%d retries charged, %d dead letters", retries, dead)
			}
			if _, c = b.take(sub, 10, p); c.First != test.next || c.Attempt != test.attempt {
				t.Errorf("%+v", c)
			}
		})
	}
}

func TestRule9APartialAckIsRepeatedWithinItsLease(t *testing.T) {
	t.Parallel()
	b, distant, proxy := far(t)
	p := b.push("p", "1", "2", "3")
	sub := b.subscribe("g", all)
	lease, c := b.take(sub, 3, p)
	distant.ackLost(proxy, 1, c, lease, "1", "2")
	if r := distant.ack("g", c, &lease, "1", "2"); r.Items[0] != noop || r.Items[1] != noop || r.LeaseReleased {
		t.Errorf("%+v", r)
	}
	if r := distant.ack("g", c, &lease, "3"); !r.LeaseReleased || r.Committed != 2 {
		t.Errorf("%+v", r)
	}
}

// The repeated ack comes when the next consumer holds the partition already: it must neither fail nor touch that lease.
func TestRule9ARepeatedAckLeavesTheNextLeaseAlone(t *testing.T) {
	t.Parallel()
	b, distant, proxy := far(t)
	p := b.push("p", "1")
	sub := b.subscribe("g", all)
	lease, c := b.take(sub, 1, p)
	distant.ackLost(proxy, 1, c, lease, "1")
	b.push("p", "2")
	next, held := b.take(sub, 1, p)
	if r := distant.ack("g", c, &lease, "1"); r.Items[0] != noop || r.LeaseReleased {
		t.Errorf("%+v", r)
	}
	if r := b.ack("g", held, &next, "2"); !r.LeaseReleased {
		t.Errorf("%+v", r)
	}
}

func TestRule9ARenewalIsRepeated(t *testing.T) {
	t.Parallel()
	b, distant, proxy := far(t)
	p := b.push("p", "1")
	sub := b.subscribe("g", all)
	lease, _ := b.take(sub, 1, p)
	keys := []group.LeaseKey{{Partition: p, Subscription: sub.ID}}
	extend := func() (group.Extension, error) {
		return distant.group.Extend(t.Context(), queue.DefaultTenant, lease, 600, group.Bounds{}, keys)
	}
	distant.lost(proxy, 1, "queen.extend_lease(", func() error { _, err := extend(); return err })
	if e, err := extend(); err != nil || e.Renewed != 1 || time.Until(e.Expires) < 9*time.Minute {
		t.Errorf("%+v, %v", e, err)
	}
}

// The start of a group is fixed by the registration that was committed, not by the one that was answered.
func TestRule9ARegistrationWhoseAnswerIsLostHasHappened(t *testing.T) {
	t.Parallel()
	b, distant, proxy := far(t)
	p := b.push("p", "before")
	distant.lost(proxy, 1, "queen.subscribe(", func() error {
		_, err := distant.group.Subscribe(t.Context(), queue.DefaultTenant, "q", "g", fresh)
		return err
	})
	b.push("p", "after")
	for _, start := range []group.Start{fresh, all} {
		sub := distant.subscribe("g", start)
		if c := b.peek(sub, p); c.First != 1 || c.Last != 1 {
			t.Errorf("%v: %+v", start, c)
		}
	}
	distant.lost(proxy, 1, "queen.pin(", func() error {
		_, _, err := distant.group.Pin(t.Context(), queue.DefaultTenant, "q", "p", "h", fresh)
		return err
	})
	b.push("p", "later")
	pinned, found, err := distant.group.Pin(t.Context(), queue.DefaultTenant, "q", "p", "h", all)
	if err != nil || !found {
		t.Fatal(found, err)
	}
	if c := b.peek(pinned.Ref, p); c.First != 2 {
		t.Errorf("%+v", c)
	}
}

// peek is what a claim would lease; the lease is ended again.
func (b *bench) peek(sub group.Ref, partition int64) group.Claim {
	b.Helper()
	_, c := b.take(sub, 10, partition)
	b.expireLeases()
	return c
}
