package mesh

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func opened() *pending {
	p := &pending{}
	p.setOpen(true)
	return p
}

func TestWaitingHintsOfOneCursorBecomeOneWithTheHighestOffset(t *testing.T) {
	t.Parallel()
	p := opened()
	for _, offset := range []int64{5, 9, 7} {
		p.add([]Hint{{Tenant: tenants[0], Queue: "q", Partition: 1, LastOffset: offset}})
	}
	p.add([]Hint{
		{Tenant: tenants[1], Queue: "q", Partition: 1, LastOffset: 1},
		{Tenant: tenants[0], Queue: "q", Partition: 2},
		{Tenant: tenants[0], Queue: "q", Partition: 1, LastOffset: 3, Group: "g"},
	})
	got := p.take().queues
	want := map[queueKey]map[cursorKey]int64{
		{tenants[0], "q"}: {{partition: 1}: 9, {partition: 2}: 0, {partition: 1, group: "g"}: 3},
		{tenants[1], "q"}: {{partition: 1}: 1},
	}
	if diff := cmp.Diff(want, got, cmp.AllowUnexported(queueKey{}, cursorKey{})); diff != "" {
		t.Errorf("waiting (-want +got):\n%s", diff)
	}
	if again := p.take(); again.hints != 0 || len(again.queues) != 0 {
		t.Errorf("they wait still: %+v", again)
	}
}

func TestWhatWaitsIsBoundedAndItsSequenceSkipsWhatWasDropped(t *testing.T) {
	t.Parallel()
	for name, hint := range map[string]func(i int) Hint{
		"by number": func(i int) Hint { return Hint{Queue: "q", Partition: int64(i)} },
		"by bytes":  func(i int) Hint { return Hint{Queue: "q" + fmt.Sprint(i) + strings.Repeat("x", 2000), Partition: 1} },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := opened()
			dropped := 0
			var last Hint
			for i := range 2 * maxPending {
				last = hint(i)
				dropped += p.add([]Hint{last})
			}
			taken := p.take()
			if taken.hints+dropped != 2*maxPending || dropped < maxPending || taken.bytes > maxPendingBytes+3000 {
				t.Errorf("%d wait, %d were dropped, %d bytes", taken.hints, dropped, taken.bytes)
			}
			if !taken.skipped.has(bucketOf(last.Tenant, last.Queue)) {
				t.Error("the last was dropped, its sequence does not tell")
			}
			if p.add([]Hint{last}) != 0 {
				t.Error("it stays full")
			}
		})
	}
}

func TestWithoutANodeNothingWaits(t *testing.T) {
	t.Parallel()
	p := opened()
	p.add([]Hint{{Queue: "a", Partition: 1}})
	p.change(queueKey{queue: "a"}, true)
	if dropped := p.setOpen(false); dropped != 2 {
		t.Errorf("%d were dropped", dropped)
	}
	if p.add([]Hint{{Queue: "b", Partition: 1}}) != 1 || p.change(queueKey{queue: "b"}, false) {
		t.Error("they were kept")
	}
	p.setOpen(true)
	taken := p.take()
	if taken.hints != 0 || len(taken.configs) != 0 || !taken.skipped.has(bucketOf([16]byte{}, "a")) ||
		!taken.skipped.has(bucketOf([16]byte{}, "b")) || !taken.skipped.has(configBucket) {
		t.Errorf("%+v", taken)
	}
}
