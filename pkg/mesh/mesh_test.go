package mesh_test

import (
	"fmt"
	"net"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"

	"queen.internal/pkg/config"
	"queen.internal/pkg/mesh"
	"queen.internal/pkg/meshtest"
)

func TestHintsReachWhoWatchesTheirQueue(t *testing.T) {
	t.Parallel()
	a, b := pair(t)
	b.Watch(tenant, "orders")
	a.awaitWatch(t, b.ID(), "orders")
	want := mesh.Hint{Tenant: tenant, Queue: "orders", Partition: 12, Offset: 99, Group: "billing"}
	a.Announce(mesh.Hint{Tenant: tenant, Queue: "not watched", Partition: 1}, want)
	if diff := cmp.Diff(want, next(t, "hint", b.hints)); diff != "" {
		t.Errorf("hint (-want +got):\n%s", diff)
	}
	b.Unwatch(tenant, "orders")
	a.await(t, "b watches nothing", func(p mesh.Peer) bool { return p.ID == b.ID() && !p.Watches(tenant, "orders") })
	a.Announce(want)
	a.AnnounceConfig(tenant, "orders", true) // comes after it, on the same way
	if got := next(t, "queue change", b.configs); got != (mesh.Config{Tenant: tenant, Queue: "orders", Deleted: true}) {
		t.Errorf("queue change %+v", got)
	}
	if len(b.hints) > 0 {
		t.Errorf("a hint of a queue that nobody watches came: %+v", <-b.hints)
	}
	if len(a.configs)+len(a.hints) > 0 {
		t.Error("a process hears itself")
	}
}

func TestWatchAllHearsEveryQueue(t *testing.T) {
	t.Parallel()
	a, b := pair(t)
	b.WatchAll()
	want := map[string]bool{}
	for i := range 300 {
		name := fmt.Sprint("queue ", i)
		want[name] = true
		a.awaitWatch(t, b.ID(), name)
		a.Announce(mesh.Hint{Tenant: tenant, Queue: name, Partition: 1})
	}
	for len(want) > 0 {
		delete(want, next(t, "hint", b.hints).Queue)
	}
}

func TestPresenceTellsWhoIsThere(t *testing.T) {
	t.Parallel()
	a, b := pair(t)
	var got mesh.Peer
	a.await(t, "b is there", func(p mesh.Peer) bool { got = p; return p.ID == b.ID() })
	if got.Role != "deliver" || got.Version != "test" || got.Schema != "schema" || got.PoolSize != 3 || got.Timeline != 7 || !got.Alive {
		t.Errorf("%+v", got)
	}
	if _, port, err := net.SplitHostPort(got.Address); err != nil || port == "0" {
		t.Errorf("address %q", got.Address)
	}
	a.log.await(t, fmt.Sprintf("INFO mesh: started server_id=a-ingest port=%d peers=2 auth=secret", a.settings.MeshPort))
}

// A process that is told to stop says so, whatever way it stops.
func TestWhoLeavesIsNotReportedDown(t *testing.T) {
	t.Parallel()
	a, b := pair(t)
	b.Drain()
	a.await(t, "b drains", func(p mesh.Peer) bool { return p.ID == b.ID() && p.Draining && p.Alive })
	b.leave()
	a.log.await(t, "INFO mesh: peer left peer=b-deliver")
	if len(a.Peers()) != 0 || strings.Contains(a.log.String(), "peer down") {
		t.Error(a.log)
	}
}

// What was lost is noticed, and nothing else: messages of a relay that was cut are gone, those before and after are not.
func TestExactlyWhatWasLostIsReported(t *testing.T) {
	t.Parallel()
	ports := freePorts(t, 2)
	between := meshtest.NewRelay(t, fmt.Sprintf("127.0.0.1:%d", ports[1]))
	patient := func(s config.Mesh) config.Mesh { s.Dead = 600_000; return s } // it is about numbers, not about presence
	a := newMember(t, patient(settings("a", ports[0], between.Port())), "ingest").start(t)
	b := newMember(t, patient(settings("b", ports[1])), "deliver").start(t)
	a.log.await(t, "peer joined")
	b.log.await(t, "peer joined")
	b.Watch(tenant, "orders")
	a.awaitWatch(t, b.ID(), "orders")
	if gap := next(t, "gap", b.gaps); gap.Cause != mesh.CauseNewPeer || !gap.Covers(tenant, "orders") || !gap.Config() {
		t.Errorf("%+v", gap)
	}
	for i := range 2000 {
		a.Announce(mesh.Hint{Tenant: tenant, Queue: "orders", Partition: int64(i + 1)})
	}
	for range 2000 {
		next(t, "hint", b.hints)
	}
	// Cut and joined with nothing said meanwhile: nothing was lost but heartbeats.
	between.Part()
	between.Join()
	seen := b.lastSeen(a.ID())
	b.await(t, "a is heard again", func(p mesh.Peer) bool { return p.ID == a.ID() && p.LastSeen.After(seen.Add(time.Second)) })
	a.Announce(mesh.Hint{Tenant: tenant, Queue: "orders", Partition: 1, Offset: 5})
	if got := next(t, "hint", b.hints); got.Offset != 5 {
		t.Errorf("%+v", got)
	}
	if len(b.gaps) > 0 {
		t.Errorf("a gap although nothing was lost: %+v", <-b.gaps)
	}
	// Cut, and something is said that nobody hears.
	between.Part()
	a.log.await(t, "Router connection closed")
	sent := a.stats(t).Sent
	a.Announce(mesh.Hint{Tenant: tenant, Queue: "orders", Partition: 77})
	a.awaitSent(t, sent+1)
	between.Join()
	gap := next(t, "gap", b.gaps)
	if gap.Cause != mesh.CauseLost || gap.Peer != a.ID() || !gap.Covers(tenant, "orders") || gap.Config() || gap.Covers(tenant, otherBucket(gap)) {
		t.Errorf("%+v", gap)
	}
}

// otherBucket is a queue that the gap does not cover.
func otherBucket(gap mesh.Gap) string {
	for i := 0; ; i++ {
		if name := fmt.Sprint("other ", i); !gap.Covers(tenant, name) {
			return name
		}
	}
}

// What is announced before a peer knows of a new listener does not come, and is reported.
func TestWatchingLateIsAGapWhenSomethingWasSaid(t *testing.T) {
	t.Parallel()
	a, b := pair(t)
	next(t, "gap of the new peer", b.gaps)
	a.Announce(mesh.Hint{Tenant: tenant, Queue: "orders", Partition: 1})
	a.awaitSent(t, 1)
	b.Watch(tenant, "orders")
	gap := next(t, "gap", b.gaps)
	if gap.Cause != mesh.CauseLost || !gap.Covers(tenant, "orders") {
		t.Errorf("%+v", gap)
	}
	a.awaitWatch(t, b.ID(), "orders")
	b.Watch(tenant, "orders") // already does
	a.Announce(mesh.Hint{Tenant: tenant, Queue: "orders", Partition: 2})
	if got := next(t, "hint", b.hints); got.Partition != 2 {
		t.Errorf("%+v", got)
	}
}

func TestTheHigherVersionOfASwitchWins(t *testing.T) {
	t.Parallel()
	a, b := pair(t)
	if !a.AnnounceSwitch(mesh.Switch{Name: mesh.PopMaintenance, On: true, Version: 5}) {
		t.Error("the first version is refused")
	}
	if got := next(t, "switch", b.turned); got != (mesh.Switch{Name: mesh.PopMaintenance, On: true, Version: 5}) {
		t.Errorf("%+v", got)
	}
	if b.AnnounceSwitch(mesh.Switch{Name: mesh.PopMaintenance, On: false, Version: 5}) ||
		b.AnnounceSwitch(mesh.Switch{Name: mesh.PopMaintenance, On: false, Version: 4}) {
		t.Error("a version that is not newer is taken")
	}
	// One that comes later, with an older idea, learns the newer one and changes nobody.
	late := newMember(t, settings("c", freePorts(t, 1)[0], int(a.settings.MeshPort)), "maintainer")
	late.AnnounceSwitch(mesh.Switch{Name: mesh.PopMaintenance, On: false, Version: 3})
	late.start(t)
	if got := next(t, "switch", late.turned); !got.On || got.Version != 5 {
		t.Errorf("%+v", got)
	}
	if !b.AnnounceSwitch(mesh.Switch{Name: mesh.PopMaintenance, On: false, Version: 6}) {
		t.Error("a newer version is refused")
	}
	for _, m := range []*member{a, late} {
		if got := next(t, "switch", m.turned); got.On || got.Version != 6 {
			t.Errorf("%+v", got)
		}
		want := []mesh.Switch{{Name: mesh.PopMaintenance, Version: 6}}
		if diff := cmp.Diff(want, m.Switches()); diff != "" {
			t.Error(diff)
		}
	}
}

// A storm of hints never makes the one who announces wait, though the receiver stands still; what waits is bounded.
func TestAStormIsBoundedAndCounted(t *testing.T) {
	t.Parallel()
	a, b := pair(t)
	b.Watch(tenant, "orders")
	a.awaitWatch(t, b.ID(), "orders")
	b.hold() // its receiver stands still
	a.Announce(mesh.Hint{Tenant: tenant, Queue: "orders", Partition: 1})
	<-b.held
	const storm = 200_000
	batch := make([]mesh.Hint, 0, 100)
	for i := range int64(storm) {
		if batch = append(batch, mesh.Hint{Tenant: tenant, Queue: "orders", Partition: i + 2, Offset: i}); len(batch) == cap(batch) {
			a.Announce(batch...)
			batch = batch[:0]
		}
	}
	if stats := a.stats(t); stats.Pending > 1<<16 {
		t.Errorf("%d wait", stats.Pending)
	}
	b.letGo()
	// Either it came, or its sequence tells.
	got := map[int64]bool{}
	deadline := time.After(patience)
	for {
		select {
		case h := <-b.hints:
			got[h.Partition] = true
			if len(got) == storm+1 {
				return
			}
		case gap := <-b.gaps:
			if gap.Cause == mesh.CauseLost && gap.Covers(tenant, "orders") {
				return
			}
		case <-deadline:
			t.Fatalf("%d of %d came, and no gap", len(got), storm)
		}
	}
}

func TestABusyPortIsAWarningAndTriedAgain(t *testing.T) {
	t.Parallel()
	busy, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	port := busy.Addr().(*net.TCPAddr).Port
	m := newMember(t, settings("a", port), "ingest").start(t)
	m.log.await(t, fmt.Sprintf("WARN mesh: bind failed, continuing with local waker only port=%d err=", port))
	m.Announce(mesh.Hint{Tenant: tenant, Queue: "orders", Partition: 1})
	if err := busy.Close(); err != nil {
		t.Fatal(err)
	}
	m.log.await(t, fmt.Sprintf("mesh: started server_id=a-ingest port=%d", port))
	if n := strings.Count(m.log.String(), "bind failed"); n != 1 {
		t.Errorf("%d warnings", n)
	}
}

func TestOffNothingIsBoundAndNothingBlocks(t *testing.T) {
	t.Parallel()
	s := settings("a", freePorts(t, 1)[0])
	s.SyncEnabled = false
	m := newMember(t, s, "ingest").start(t)
	m.log.await(t, "mesh: off")
	for range 100_000 {
		m.Announce(mesh.Hint{Tenant: tenant, Queue: "orders", Partition: 1})
		m.AnnounceConfig(tenant, "orders", false)
	}
	m.Watch(tenant, "orders")
	if conn, err := net.Dial("tcp", fmt.Sprintf("127.0.0.1:%d", s.MeshPort)); err == nil {
		_ = conn.Close()
		t.Error("something listens")
	}
	if len(m.Peers()) != 0 {
		t.Error(m.Peers())
	}
}

func TestPoolsBeyondTheServerAreWarnedOfOnce(t *testing.T) {
	t.Parallel()
	ports := freePorts(t, 2)
	s := settings("a", ports[0], ports...)
	s.Heartbeat = 20
	a := newMember(t, s, "ingest", func(o *mesh.Options) { o.MaxConnections = func() int { return 5 } }).start(t)
	b := newMember(t, settings("b", ports[1], ports...), "deliver").start(t)
	a.log.await(t, "WARN mesh: the live processes may open more connections than PostgreSQL takes pools=6 max_connections=5")
	seen := a.lastSeen(b.ID())
	a.await(t, "b is heard again", func(p mesh.Peer) bool { return p.LastSeen.After(seen) })
	if n := strings.Count(a.log.String(), "more connections"); n != 1 {
		t.Errorf("%d warnings", n)
	}
}

// Nothing is left behind by a stop at any moment, and a member that comes again is known again.
func TestStartAndStopAtAnyMoment(t *testing.T) {
	t.Parallel()
	ports := freePorts(t, 2)
	stays := newMember(t, settings("a", ports[0], ports...), "ingest").start(t)
	for i := range 12 {
		m := newMember(t, settings("b", ports[1], ports...), "deliver").start(t)
		m.Watch(tenant, "orders")
		m.Announce(mesh.Hint{Tenant: tenant, Queue: "orders", Partition: 1})
		time.Sleep(time.Duration(i*i) * time.Millisecond) // any moment
		m.leave()
	}
	last := newMember(t, settings("b", ports[1], ports...), "deliver").start(t)
	last.log.await(t, "peer joined")
	stays.await(t, "the last is there", func(p mesh.Peer) bool { return p.ID == last.ID() && p.Alive })
}

func TestServerIDsEndInTheRoleOnce(t *testing.T) {
	t.Parallel()
	for base, want := range map[string]string{"web": "web-ingest", "ingest-0": "ingest-0", "queen-ingest-7": "queen-ingest-7", "ingestor": "ingestor-ingest"} {
		s := config.NewMesh()
		s.ServerID = base
		if m := newMember(t, s, "ingest"); m.ID() != want {
			t.Errorf("%s gives %s", base, m.ID())
		}
	}
	s := config.NewMesh()
	a, b := newMember(t, s, "ingest").ID(), newMember(t, s, "ingest").ID()
	if a == b || !strings.HasPrefix(a, "queen-") || len(a) != len("queen-12345678-ingest") {
		t.Errorf("%s and %s", a, b)
	}
}

func TestHintsOfTenantsAreKeptApart(t *testing.T) {
	t.Parallel()
	a, b := pair(t)
	other := uuid.MustParse("0198c1d2-0000-7000-8000-000000000009")
	b.WatchAll()
	a.awaitWatch(t, b.ID(), "orders")
	a.Announce(mesh.Hint{Tenant: tenant, Queue: "orders", Partition: 1}, mesh.Hint{Tenant: other, Queue: "orders", Partition: 1})
	got := []string{next(t, "hint", b.hints).Tenant.String(), next(t, "hint", b.hints).Tenant.String()}
	slices.Sort(got)
	if diff := cmp.Diff([]string{tenant.String(), other.String()}, got); diff != "" {
		t.Error(diff)
	}
}
