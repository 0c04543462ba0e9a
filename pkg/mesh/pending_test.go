package mesh

import (
	"fmt"
	"strings"
	"testing"
	"time"

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
		p.add([]Hint{{Tenant: tenants[0], Queue: "q", Partition: 1, Offset: offset}})
	}
	p.add([]Hint{
		{Tenant: tenants[1], Queue: "q", Partition: 1, Offset: 1},
		{Tenant: tenants[0], Queue: "q", Partition: 2},
		{Tenant: tenants[0], Queue: "q", Partition: 1, Offset: 3, Group: "g"},
	})
	got := p.take().queues
	want := map[queueKey]map[cursorKey]said{
		{tenants[0], "q"}: {{partition: 1}: {offset: 9}, {partition: 2}: {}, {partition: 1, group: "g"}: {offset: 3}},
		{tenants[1], "q"}: {{partition: 1}: {offset: 1}},
	}
	if diff := cmp.Diff(want, got, cmp.AllowUnexported(queueKey{}, cursorKey{}, said{})); diff != "" {
		t.Errorf("waiting (-want +got):\n%s", diff)
	}
	if again := p.take(); again.hints != 0 || len(again.queues) != 0 {
		t.Errorf("they wait still: %+v", again)
	}
}

func TestTheNewerNewsOfACursorCounts(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct{ before, next, want said }{
		"the end of a lease after its beginning":        {said{news: Leased, offset: 3, lease: time.Second}, said{news: Drained, offset: 4}, said{news: Drained, offset: 4}},
		"a lease after the end of the one before":       {said{news: Drained, offset: 4}, said{news: Leased, offset: 5, lease: time.Second}, said{news: Leased, offset: 5, lease: time.Second}},
		"nothing left after something was left":         {said{news: Freed, offset: 3}, said{news: Drained, offset: 4}, said{news: Drained, offset: 4}},
		"nothing left, overtaken by a later end":        {said{news: Freed, offset: 4}, said{news: Drained, offset: 4}, said{news: Freed, offset: 4}},
		"something left, overtaken or not, is no risk":  {said{news: Drained, offset: 9}, said{news: Freed, offset: 3}, said{news: Freed, offset: 3}},
		"two ends of leases are one, at the higher":     {said{news: Freed, offset: 9}, said{news: Freed, offset: 3}, said{news: Freed, offset: 9}},
		"two declined partitions are one, at the later": {said{news: Declined, offset: 1}, said{news: Declined, offset: 3}, said{news: Declined, offset: 3}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if got := test.before.then(test.next); got != test.want {
				t.Errorf("%+v is left to say, want %+v", got, test.want)
			}
		})
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
