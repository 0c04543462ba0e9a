package group_test

import (
	"fmt"
	"testing"
	"time"

	"queen.internal/pkg/queue"
	"queen.internal/pkg/store/group"
)

// A clock that stepped back (or a cap that keeps a leap out) must not hide messages of a queue without delay.
func TestClaimWithoutDelayIgnoresTheTimeOfSegments(t *testing.T) {
	t.Parallel()
	b := setup(t)
	p := b.push("p", "1")
	b.exec(`UPDATE queen.segments SET created_at = created_at + interval '1 h'`)
	b.exec(`UPDATE queen.partitions SET last_created_at = last_created_at + interval '1 h'`)
	sub := b.subscribe("g", all)
	if _, claims := b.claim(sub, 1, p); claims[0].Verdict != group.Took {
		t.Errorf("%+v", claims)
	}
}

func TestClaimUnderACapOffersWhatIsCommitted(t *testing.T) {
	t.Parallel()
	b := setup(t)
	p := b.push("p", "1")
	sub := b.subscribe("g", all)
	req := group.ClaimRequest{Subscription: sub, Partitions: []int64{p}, Lease: queue.NewID(), Batch: 1, MaxBytes: 1 << 20, AtLeastOne: true, Clock: group.Bounds{Cap: time.Now().Add(-time.Minute)}}
	result, err := b.group.Claim(t.Context(), req)
	if err != nil || result.Claims[0].Verdict != group.Took {
		t.Errorf("%+v %v", result.Claims, err)
	}
}

// Rule 10: partitions with higher numbers start at 0, whatever the clock says.
func TestFromGroupGetsLaterPartitionsFromTheirStart(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.push("old", "1")
	sub := b.subscribe("g", group.Start{From: time.Now()})
	later := b.push("later", "2")
	b.exec(`UPDATE queen.segments SET created_at = created_at - interval '1 h'`) // the clock stepped back
	_, claims := b.claim(sub, 10, later)
	if claims[0].Verdict != group.Took {
		t.Errorf("%+v", claims)
	}
}

func TestCandidatesForgetWhatRetentionEmptied(t *testing.T) {
	t.Parallel()
	b := setup(t)
	p := b.push("p", "1")
	sub := b.subscribe("g", all)
	b.exec(`DELETE FROM queen.segments`)
	b.exec(`UPDATE queen.partitions SET log_start = last_offset + 1`)
	if _, claims := b.claim(sub, 1, p); claims[0].Verdict != group.Empty {
		t.Errorf("%+v", claims)
	}
	if ids := b.candidates(sub); len(ids) != 0 {
		t.Errorf("candidates %v", ids)
	}
}

// Retention removes the first segment between claim's two reads: what is left of it must not be called empty.
func TestClaimDoesNotCallEmptyWhatHasSegmentsLeft(t *testing.T) {
	t.Parallel()
	b := setup(t)
	p := b.push("p", "1")
	for i := range 3 {
		b.push("p", fmt.Sprint("x", i))
	}
	sub := b.subscribe("g", all)
	// the state that the second statement sees while v_part is from before
	b.exec(`DELETE FROM queen.segments WHERE base_offset < 2`)
	if _, claims := b.claim(sub, 1, p); claims[0].Verdict == group.Empty {
		t.Errorf("%+v", claims)
	}
}

func TestNoopWithinALiveLeaseNeedsNoHashRows(t *testing.T) {
	t.Parallel()
	b := setup(t)
	p := b.push("p", "1", "2", "3")
	sub := b.subscribe("g", all)
	lease, c := b.take(sub, 3, p)
	b.exec(`DELETE FROM queen.dedup`)
	b.ack("g", c, &lease, "1")
	if r := b.ack("g", c, &lease, "1"); r.Items[0] != noop {
		t.Errorf("%+v", r)
	}
	if r := b.ack("g", c, &lease, "1", "2", "3"); !r.LeaseReleased {
		t.Errorf("%+v", r)
	} else if r := b.ack("g", c, &lease, "1", "2", "3"); r.Items[2] != noop {
		t.Errorf("after completion: %+v", r)
	}
}

// One transaction id twice in the span (window 0), the hash row of the lower one purged.
func TestAckTakesTheLowestOccurrenceThoughItsHashRowIsGone(t *testing.T) {
	t.Parallel()
	b := setup(t)
	p := b.push("p", "other")
	b.exec(`UPDATE queen.queues SET dedup_window_seconds = 0`)
	b.push("p", "tick")
	b.push("p", "middle")
	b.push("p", "tick")
	sub := b.subscribe("g", all)
	lease, c := b.take(sub, 10, p)
	b.exec(`DELETE FROM queen.dedup WHERE base_offset < 2`)
	if r := b.ack("g", c, &lease, "tick"); r.Committed != 1 {
		t.Errorf("%+v", r)
	}
}

func TestAckReasonWithANulByte(t *testing.T) {
	t.Parallel()
	b := setup(t)
	p := b.push("p", "1")
	sub := b.subscribe("g", all)
	lease, c := b.take(sub, 3, p)
	it := item("1!")
	it.Reason = "a\x00b"
	_, err := b.group.Ack(t.Context(), queue.DefaultTenant, "g", group.Bounds{}, []group.AckGroup{{Partition: c.PartitionUUID, Lease: &lease, Items: []group.AckItem{it}}})
	if err != nil {
		t.Error(err)
	}
}
