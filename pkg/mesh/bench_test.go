package mesh_test

import (
	"slices"
	"testing"
	"time"

	"queen.internal/pkg/mesh"
)

// BenchmarkRoundTrip is two processes on one machine: announce, the other's handler announces, our handler. One way is
// half of it.
func BenchmarkRoundTrip(b *testing.B) {
	ports := freePorts(b, 2)
	a := newMember(b, settings("a", ports[0], ports...), "ingest")
	a.Watch(tenant, "pong")
	a.start(b)
	spawn(b, settings("c", ports[1], ports...)).log.await(b, "peer joined")
	a.awaitWatch(b, "c-deliver", "ping")
	var took []time.Duration
	lost := 0
	for i := int64(1); b.Loop(); i++ {
		began := time.Now()
		a.Announce(mesh.Hint{Tenant: tenant, Queue: "ping", Partition: i})
		select {
		case <-a.hints:
			took = append(took, time.Since(began))
		case <-time.After(time.Second):
			lost++ // the other did not know of our interest yet
		}
	}
	if len(took) == 0 {
		b.Fatal("nothing came back")
	}
	slices.Sort(took)
	b.ReportMetric(float64(took[len(took)/2].Microseconds())/2, "us-p50/way")
	b.ReportMetric(float64(took[len(took)*99/100].Microseconds())/2, "us-p99/way")
	b.ReportMetric(float64(lost), "lost")
}

// BenchmarkAnnounce is what a flush of 100 partitions pays for telling of them.
func BenchmarkAnnounce(b *testing.B) {
	ports := freePorts(b, 2)
	a := newMember(b, settings("a", ports[0], ports...), "ingest").start(b)
	c := newMember(b, settings("c", ports[1], ports...), "deliver")
	c.OnHints(func(string, []mesh.Hint) {})
	c.Watch(tenant, "orders")
	c.start(b)
	a.awaitWatch(b, "c-deliver", "orders")
	hints := make([]mesh.Hint, 100)
	for i := range hints {
		hints[i] = mesh.Hint{Tenant: tenant, Queue: "orders", Partition: int64(i + 1)}
	}
	b.ReportAllocs()
	for b.Loop() {
		a.Announce(hints...)
	}
}
