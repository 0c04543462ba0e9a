package group_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"

	"queen.internal/pkg/queue"
	"queen.internal/pkg/store/group"
	"queen.internal/pkg/testkit"
)

// pause stops or resumes queue q, or a group of it, and says whether that changed anything.
func (b *bench) pause(groupName string, paused bool) bool {
	b.Helper()
	var of *string
	if groupName != "" {
		of = &groupName
	}
	changed, err := b.group.SetPause(b.Context(), queue.DefaultTenant, "q", of, paused)
	if err != nil {
		b.Fatal(err)
	}
	return changed
}

// offered is what a group is offered and what a claim says to partition p.
func (b *bench) offered(sub group.Ref, p int64, autoAck bool) (candidates int, verdict group.Verdict) {
	b.Helper()
	candidates = len(b.candidates(sub))
	req := request(sub, p)
	req.AutoAck = autoAck
	result, err := b.group.Claim(b.Context(), req)
	if err != nil {
		b.Fatal(err)
	}
	return candidates, result.Claims[0].Verdict
}

func TestPauseStopsAQueueOrOneGroup(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		of           string
		other        group.Verdict
		othersOffers int
	}{
		"Queue": {"", group.Paused, 0},
		"Group": {"g", group.Took, 1},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := setup(t)
			p := b.push("p", "1")
			g, h := b.subscribe("g", all), b.subscribe("h", all)
			if !b.pause(test.of, true) || b.pause(test.of, true) {
				t.Error("a pause begins once")
			}
			for _, autoAck := range []bool{false, true} {
				if n, verdict := b.offered(g, p, autoAck); n != 0 || verdict != group.Paused {
					t.Errorf("%d candidates, verdict %v", n, verdict)
				}
			}
			b.push("p", "2") // goes on
			if n, verdict := b.offered(h, p, false); n != test.othersOffers || verdict != test.other {
				t.Errorf("the other group: %d candidates, verdict %v", n, verdict)
			}
			if !b.pause(test.of, false) || b.pause(test.of, false) {
				t.Error("a pause ends once")
			}
			if _, c := b.take(g, 5, p); c.First != 0 || c.Last != 1 || c.Attempt != 1 {
				t.Errorf("after the pause: %+v", c)
			}
		})
	}
}

func TestPausesOfQueueAndGroupAreTwo(t *testing.T) {
	t.Parallel()
	b := setup(t)
	p := b.push("p", "1")
	sub := b.subscribe("g", all)
	b.pause("", true)
	b.pause("g", true)
	b.pause("", false)
	if n, verdict := b.offered(sub, p, false); n != 0 || verdict != group.Paused {
		t.Errorf("with the group's own pause: %d candidates, verdict %v", n, verdict)
	}
	b.pause("g", false)
	b.take(sub, 1, p)
}

// What is in consumers' hands is theirs: acks, nacks and renewals go on, and what comes back stays.
func TestPauseLeavesLeasesAlone(t *testing.T) {
	t.Parallel()
	b := setup(t)
	p := b.push("p", "1", "2", "3")
	sub := b.subscribe("g", all)
	lease, c := b.take(sub, 3, p)
	b.pause("", true)
	if got, err := b.group.Extend(t.Context(), queue.DefaultTenant, lease, 600, group.Bounds{}, nil); err != nil || got.Renewed != 1 {
		t.Errorf("%+v (%v)", got, err)
	}
	if r := b.ack("g", c, &lease, "1", "2-"); !r.LeaseReleased || r.Committed != 0 {
		t.Errorf("%+v", r)
	}
	if n, verdict := b.offered(sub, p, false); n != 0 || verdict != group.Paused {
		t.Errorf("%d candidates, verdict %v", n, verdict)
	}
	b.pause("", false)
	if _, c := b.take(sub, 5, p); c.First != 1 || c.Attempt != 1 {
		t.Errorf("%+v", c)
	}
}

func TestPauseOfWhatDoesNotExist(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.push("p", "1")
	b.subscribe("g", all)
	name := "never"
	for want, try := range map[string]func() (bool, error){
		"Queue not found": func() (bool, error) {
			return b.group.SetPause(t.Context(), queue.DefaultTenant, "absent", nil, true)
		},
		"Consumer group not found": func() (bool, error) { return b.group.SetPause(t.Context(), queue.DefaultTenant, "q", &name, true) },
	} {
		if _, err := try(); queue.KindOf(err) != queue.KindNotFound || err.Error() != want {
			t.Errorf("got %v, want %s", err, want)
		}
	}
	other := uuid.MustParse("11111111-2222-3333-4444-555555555555")
	if _, err := b.group.SetPause(t.Context(), other, "q", nil, true); queue.KindOf(err) != queue.KindNotFound {
		t.Errorf("another tenant gets %v", err)
	}
	// A name that is free again is not paused.
	b.pause("", true)
	b.exec(`SELECT queen.delete_queue($1, 'q')`, [16]byte(queue.DefaultTenant))
	p := b.push("p", "1")
	b.take(b.subscribe("g", all), 1, p)
}

// A claim that reads the queue after the pause was answered gives nothing; one that has read it already counts as before.
func TestPauseHoldsForClaimsThatHaveNotReadTheQueueYet(t *testing.T) {
	t.Parallel()
	b, slow := two(t)
	p := b.push("p", "1")
	sub := b.subscribe("g", all)
	hold := testkit.StopCalls(t, b.pool, "slow", "claim")
	release := hold()
	late := slow.claiming(request(sub, p))
	testkit.AwaitBlocked(t, b.pool, "slow")
	b.pause("g", true)
	release()
	if diff := cmp.Diff([]group.Verdict{group.Paused}, <-late); diff != "" {
		t.Error(diff)
	}

	b.pause("g", false)
	brake := testkit.Brake(t, b.pool, "slow", "BEFORE UPDATE", "queen.cursors")
	late = slow.claiming(request(sub, p))
	testkit.AwaitBlocked(t, b.pool, "slow")
	b.pause("", true)
	brake()
	if diff := cmp.Diff([]group.Verdict{group.Took}, <-late); diff != "" {
		t.Error(diff)
	}
}

// A service of before does not know the verdict.
func TestPauseLooksEmptyToWhoDoesNotKnowIt(t *testing.T) {
	t.Parallel()
	b := setup(t)
	p := b.push("p", "1")
	sub := b.subscribe("g", all)
	b.pause("", true)
	var verdict int
	if err := b.pool.QueryRow(t.Context(), `SELECT verdict FROM queen.claim($1, $2, ARRAY[$3::bigint], gen_random_uuid(), 60, 1, 1, 1000, false, NULL, true, true)`,
		sub.ID, [16]byte(sub.UID), p).Scan(&verdict); err != nil || group.Verdict(verdict) != group.Empty {
		t.Errorf("verdict %d (%v)", verdict, err)
	}
}
