package httpapi

import (
	"fmt"
	"testing"

	"pgregory.net/rapid"

	"queen.internal/pkg/queue"
	"queen.internal/pkg/wire"
)

// TestNewPlan_KeepsEveryItemOnceAndInOrder checks plans of random requests: what a group holds is the items of its
// partition in request order, without those whose key came before.
func TestNewPlan_KeepsEveryItemOnceAndInOrder(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		items := rapid.SliceOfN(rapid.Custom(func(t *rapid.T) wire.PushItem {
			return wire.PushItem{
				Queue:         rapid.SampledFrom([]string{"a", "b"}).Draw(t, "queue"),
				Partition:     rapid.SampledFrom([]string{"p", "q", ""}).Draw(t, "partition"),
				TransactionID: rapid.SampledFrom([]string{"", "", "1", "2", "3", "4"}).Draw(t, "id"),
			}
		}), 1, 30).Draw(t, "items")
		for i := range items {
			items[i].Payload = []byte(fmt.Sprint(i))
		}
		p := newPlan(queue.DefaultTenant, "svc", items)

		want := map[string][]string{} // payloads by partition
		leader := map[string]string{} // payload of the first item with a key
		for i, item := range items {
			partition := item.Queue + "/" + item.Partition
			key := partition + "/" + item.TransactionID
			if _, known := leader[key]; known && item.TransactionID != "" {
				if !p.places[i].follower {
					t.Fatalf("item %d repeats %s and does not follow", i, key)
				}
			} else {
				leader[key] = string(item.Payload)
				want[partition] = append(want[partition], string(item.Payload))
			}
			at := p.places[i]
			m := p.groups[at.group].Messages[at.message]
			if item.TransactionID == "" {
				if string(m.Payload) != string(item.Payload) || m.TransactionID != m.ID.String() {
					t.Fatalf("item %d without a key is answered by %+v", i, m)
				}
			} else if string(m.Payload) != leader[key] || m.TransactionID != item.TransactionID {
				t.Fatalf("item %d is answered by %+v, want payload %s", i, m, leader[key])
			}
		}
		if len(p.groups) != len(want) {
			t.Fatalf("%d groups of %d partitions", len(p.groups), len(want))
		}
		for _, g := range p.groups {
			var got []string
			for _, m := range g.Messages {
				got = append(got, string(m.Payload))
			}
			partition := g.Key.Queue + "/" + g.Key.Partition
			if fmt.Sprint(got) != fmt.Sprint(want[partition]) {
				t.Fatalf("%s holds %v, want %v", partition, got, want[partition])
			}
		}
	})
}

func BenchmarkNewPlan(b *testing.B) {
	items := make([]wire.PushItem, 100)
	for i := range items {
		items[i] = wire.PushItem{Queue: "orders", Partition: fmt.Sprint(i / 20), TransactionID: queue.NewID().String(), Payload: []byte("1")}
	}
	b.ReportAllocs()
	for b.Loop() {
		newPlan(queue.DefaultTenant, "svc", items)
	}
}
