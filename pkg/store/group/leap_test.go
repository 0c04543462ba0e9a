package group_test

import (
	"testing"
	"time"

	"queen.internal/pkg/queue"
	"queen.internal/pkg/store/group"
)

// pinned are bounds that make the procedures take one moment for the time, whatever the clock shows.
func pinned(now time.Time) group.Bounds { return group.Bounds{Floor: now, Cap: now} }

// leap is a lease of a minute that was given while the database's clock had leapt away from what its caller took for the
// time, or from where it had been. Which of the two is in force later is not known at that moment.
type leap struct {
	*bench
	req    group.ClaimRequest
	claim  group.Claim
	caller time.Time // what the caller took for the time
	clock  time.Time // what the clock showed
}

func newLeap(t *testing.T, by time.Duration) *leap {
	l := &leap{bench: setup(t), clock: time.Now()}
	l.caller = l.clock.Add(-by)
	p := l.push("p", "1")
	l.req = request(l.subscribe("g", all), p)
	l.req.LeaseSeconds = 60
	result := l.claims(l.caller)
	if l.claim = result.Claims[0]; l.claim.Verdict != group.Took {
		t.Fatalf("%+v", result)
	}
	return l
}

// claims is what another claim finds when it takes now for the time.
func (l *leap) claims(now time.Time) group.ClaimResult {
	l.Helper()
	req := l.req
	if req.Clock = pinned(now); l.claim.Verdict != 0 {
		req.Lease = queue.NewID()
	}
	result, err := l.group.Claim(l.Context(), req)
	if err != nil || len(result.Claims) != 1 {
		l.Fatalf("%+v, %v", result, err)
	}
	return result
}

// acks says whether an ack under the lease is accepted at a time.
func (l *leap) acks(now time.Time) bool {
	l.Helper()
	results, err := l.group.Ack(l.Context(), queue.DefaultTenant, "g", pinned(now),
		[]group.AckGroup{{Partition: l.claim.PartitionUUID, Lease: &l.req.Lease, Items: []group.AckItem{item("1")}}})
	if err != nil {
		l.Fatal(err)
	}
	return results[0].LeaseReleased
}

// eachLeap runs a test for a clock that leapt and one that fell, and for either of the times being in force afterwards.
func eachLeap(t *testing.T, test func(l *leap, from time.Time)) {
	t.Parallel()
	for name, by := range map[string]time.Duration{"ahead": time.Hour, "back": -time.Hour} {
		t.Run(name+", and returned", func(t *testing.T) {
			t.Parallel()
			l := newLeap(t, by)
			test(l, l.caller)
		})
		t.Run(name+", and believed", func(t *testing.T) {
			t.Parallel()
			l := newLeap(t, by)
			test(l, l.clock)
		})
	}
}

func TestALeaseOfALeapLastsItsLength(t *testing.T) {
	eachLeap(t, func(l *leap, from time.Time) {
		at := from.Add(55 * time.Second)
		result := l.claims(at)
		if c := result.Claims[0]; c.Verdict != group.Leased || c.Until.Sub(from).Round(10*time.Second) != time.Minute {
			l.Errorf("after 55 s: %+v, %v after it was given", c, c.Until.Sub(from))
		}
		if c := l.claims(from.Add(75 * time.Second)).Claims[0]; c.Verdict != group.Took {
			l.Errorf("after 75 s: %+v", c)
		}
	})
}

func TestAnAckUnderALeaseOfALeapIsAcceptedUntilItsEnd(t *testing.T) {
	eachLeap(t, func(l *leap, from time.Time) {
		if l.acks(from.Add(75 * time.Second)) {
			l.Error("accepted after 75 s")
		}
		if !l.acks(from.Add(55 * time.Second)) {
			l.Error("refused after 55 s")
		}
	})
}

func TestARenewalInALeapLastsItsLength(t *testing.T) {
	eachLeap(t, func(l *leap, from time.Time) {
		for _, seconds := range []int{120, 1} { // the second shortens nothing
			got, err := l.group.Extend(l.Context(), queue.DefaultTenant, l.req.Lease, seconds, pinned(l.caller), nil)
			if err != nil || got.Renewed != 1 || got.Expires.Sub(l.caller).Round(10*time.Second) != 2*time.Minute {
				l.Fatalf("%+v, %v", got, err)
			}
		}
		if c := l.claims(from.Add(115 * time.Second)).Claims[0]; c.Verdict != group.Leased {
			l.Errorf("after 115 s: %+v", c)
		}
		if c := l.claims(from.Add(135 * time.Second)).Claims[0]; c.Verdict != group.Took {
			l.Errorf("after 135 s: %+v", c)
		}
	})
}

func TestALeaseOfALeapIsListedAndEndedByHand(t *testing.T) {
	eachLeap(t, func(l *leap, from time.Time) {
		listed := func(now time.Time) int {
			leases, _, _, err := l.group.Leases(l.Context(), queue.DefaultTenant, "", "", group.LeaseWalk{}, 10, pinned(now))
			if err != nil {
				l.Fatal(err)
			}
			return len(leases)
		}
		if now, later := listed(from.Add(55*time.Second)), listed(from.Add(75*time.Second)); now != 1 || later != 0 {
			l.Errorf("%d leases after 55 s, %d after 75 s", now, later)
		}
		freed, err := l.group.Expire(l.Context(), queue.DefaultTenant, l.req.Lease, pinned(from.Add(5*time.Second)), nil)
		if err != nil || len(freed) != 1 {
			l.Fatalf("%v, %v", freed, err)
		}
		if c := l.claims(from.Add(6 * time.Second)).Claims[0]; c.Verdict != group.Took {
			l.Errorf("%+v", c)
		}
	})
}

// What was leased before a fall is over when its time has passed, for a caller that knows better than the clock.
func TestALeaseFromBeforeAFallEndsUnderAFloor(t *testing.T) {
	t.Parallel()
	l := newLeap(t, 0)
	if c := l.claims(l.clock.Add(75 * time.Second)).Claims[0]; c.Verdict != group.Took {
		t.Errorf("%+v", c)
	}
}
