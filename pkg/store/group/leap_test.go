package group_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"queen.internal/pkg/queue"
	"queen.internal/pkg/store/group"
)

// leaping is one group's lease of a minute on a database whose clock leaps. The server's own clock stays where it is: what is
// stored of the lease moves the other way.
type leaping struct {
	*bench
	name  string
	req   group.ClaimRequest
	claim group.Claim
	by    time.Duration // how far the clock is off
}

// step moves the clock.
func (l *leaping) step(by time.Duration) {
	l.by += by
	l.shift(by)
}

// passes lets time go by.
func (l *leaping) passes(d time.Duration) { l.shift(d) }

func (l *leaping) shift(by time.Duration) {
	l.exec(`UPDATE queen.cursors SET leased_at = leased_at - $2::interval, lease_expires_at = lease_expires_at - $2::interval,
		lease_leap_at = lease_leap_at - $2::interval, lease_leap_end = lease_leap_end - $2::interval WHERE subscription_id = $1`, l.req.Subscription.ID, by)
}

// bounds are those of a caller that takes the time to be off from the right one.
func (l *leaping) bounds(off time.Duration, settled bool) group.Bounds {
	now := time.Now().Add(off - l.by)
	return group.Bounds{Floor: now.Add(-100 * time.Millisecond), Cap: now.Add(500 * time.Millisecond), Settled: settled}
}

// take leases for a caller.
func (l *leaping) take(clock group.Bounds) group.Claim {
	l.Helper()
	req := l.req
	req.Clock, req.Lease = clock, queue.NewID()
	result, err := l.group.Claim(l.Context(), req)
	if err != nil || len(result.Claims) != 1 {
		l.Fatalf("%s: %+v, %v", l.name, result, err)
	}
	if l.claim.Verdict == 0 {
		l.req, l.claim = req, result.Claims[0]
	}
	return result.Claims[0]
}

// lives says whether the lease is live for a caller, as claims, acks, renewals and lists see it.
func (l *leaping) lives(clock group.Bounds) bool {
	l.Helper()
	leases, _, _, err := l.group.Leases(l.Context(), queue.DefaultTenant, "", l.name, group.LeaseWalk{}, 10, clock)
	if err != nil {
		l.Fatal(err)
	}
	found, snapshot, err := l.group.Find(l.Context(), []group.Search{{Subscription: l.req.Subscription}}, 10, clock)
	if err != nil || len(found[0].Candidates) != 1 {
		l.Fatalf("%s: %+v, %v", l.name, found, err)
	}
	until := found[0].Candidates[0].Until
	if left := until.Sub(clock.Now(snapshot.Clock)); len(leases) > 0 && left > 61*time.Second && strings.HasPrefix(l.name, "exact") {
		l.Errorf("%s: until %v from now", l.name, left)
	}
	if len(leases) > 0 != !until.IsZero() {
		l.Errorf("%s: %d leases are listed, and found until %v", l.name, len(leases), until)
	}
	return len(leases) > 0
}

func TestALeaseOutlivesLeapsAndIsNotKeptByThem(t *testing.T) {
	t.Parallel()
	const hour = time.Hour
	type when int
	const (
		before when = iota // the leap
		within
		after // the clock has returned
	)
	const right = time.Duration(0)
	cases := []struct {
		name          string
		leap          time.Duration
		given         when
		giver         time.Duration // what the giver takes for the time, off from the right one
		seen          when
		judge         time.Duration
		settled       bool
		early, longer bool // known to be wrong: it ends too early, it lasts until the judge learns better
	}{
		{"exact: given before a leap ahead", hour, before, right, within, right, false, false, false},
		{"exact: given before a leap ahead that is over", hour, before, right, after, right, false, false, false},
		{"exact: the same, for who believed it", hour, before, right, after, hour, false, false, false},
		{"exact: given before a fall", -hour, before, right, within, right, false, false, false},
		{"exact: given before a fall that is over", -hour, before, right, after, right, false, false, false},
		{"given before a fall, for who has just begun", -hour, before, right, within, -hour, false, false, true},
		{"given before a fall, for who has long lived in it", -hour, before, right, within, -hour, true, true, false},
		{"given before a fall that is over, for who believed it", -hour, before, right, after, -hour, false, false, true},

		{"exact: given in a leap ahead", hour, within, right, within, right, false, false, false},
		{"exact: given in a leap ahead, for who believes it", hour, within, right, within, hour, true, false, false},
		{"exact: given in a leap ahead that is over", hour, within, right, after, right, true, false, false},
		{"exact: the same, for who had believed it", hour, within, right, after, hour, false, false, false},
		{"exact: given in a fall", -hour, within, right, within, right, false, false, false},
		{"exact: given in a fall, for who believes it", -hour, within, right, within, -hour, true, false, false},
		{"exact: given in a fall that is over", -hour, within, right, after, right, true, false, false},
		{"exact: the same, for who still believes in it", -hour, within, right, after, -hour, false, false, false},

		{"exact: given in a leap ahead by who believes it, for another", hour, within, hour, within, hour, true, false, false},
		{"given in a leap ahead by who believes it", hour, within, hour, within, right, false, false, true},
		{"exact: the same, and it is over, for who believed it", hour, within, hour, after, hour, false, false, false},
		{"the same, for who never believed it", hour, within, hour, after, right, false, false, true},
		{"the same, when that was long ago", hour, within, hour, after, right, true, true, false},
		{"exact: given in a fall by who believes it", -hour, within, -hour, within, right, false, false, false},
		{"exact: the same, and it is over, for who believes it", -hour, within, -hour, after, -hour, true, false, false},
	}
	b := setup(t)
	p := b.push("p", "1")
	for i, c := range cases {
		name := fmt.Sprintf("%s (%d)", c.name, i)
		l := &leaping{bench: b, name: name, req: request(b.subscribe(name, all), p)}
		l.req.LeaseSeconds = 60
		reach := func(w when) {
			if w >= within && l.by == 0 {
				l.step(c.leap)
			}
			if w == after {
				l.step(-c.leap)
			}
		}
		reach(c.given)
		if got := l.take(l.bounds(c.giver, false)); got.Verdict != group.Took {
			t.Fatalf("%s: %+v", name, got)
		}
		reach(c.seen)
		for _, renewed := range []bool{false, true} {
			l.passes(55 * time.Second)
			judge := l.bounds(c.judge, c.settled)
			if lives := l.lives(judge); lives == c.early {
				t.Errorf("%s: after 55 s live: %v, renewed: %v", name, lives, renewed)
			}
			if c.early || renewed || c.seen != c.given {
				break
			}
			got, err := l.group.Extend(t.Context(), queue.DefaultTenant, l.req.Lease, 60, l.bounds(c.giver, c.settled), nil)
			if err != nil || got.Renewed != 1 {
				t.Errorf("%s: renewed %+v, %v", name, got, err)
			}
			if got, err = l.group.Extend(t.Context(), queue.DefaultTenant, l.req.Lease, 1, judge, nil); err != nil || got.Renewed != 1 {
				t.Errorf("%s: a shorter renewal: %+v, %v", name, got, err)
			}
		}
		l.passes(20 * time.Second)
		judge := l.bounds(c.judge, c.settled)
		if lives := l.lives(judge); lives != c.longer {
			t.Errorf("%s: after 75 s live: %v", name, lives)
		}
		want := group.Took
		if c.longer {
			want = group.Leased
		}
		lease := l.req.Lease
		if got := l.take(judge); got.Verdict != want {
			t.Errorf("%s: after 75 s %+v", name, got)
		}
		results, err := b.group.Ack(t.Context(), queue.DefaultTenant, name, judge,
			[]group.AckGroup{{Partition: l.claim.PartitionUUID, Lease: &lease, Items: []group.AckItem{item("1")}}})
		if err != nil || results[0].LeaseReleased != c.longer {
			t.Errorf("%s: an ack after 75 s: %+v, %v", name, results, err)
		}
	}
}
