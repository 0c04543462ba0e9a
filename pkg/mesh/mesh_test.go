package mesh_test

import (
	"bytes"
	"context"
	"fmt"
	"net"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"
	"go.uber.org/goleak"

	"queen.internal/pkg/config"
	"queen.internal/pkg/logging"
	"queen.internal/pkg/mesh"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// patience is how long tests wait for what should come at once.
const patience = 20 * time.Second

var tenant = uuid.MustParse("00000000-0000-0000-0000-000000000001")

// log is a log that can be waited on.
type log struct {
	mu      sync.Mutex
	text    bytes.Buffer
	changed chan struct{} // closed and replaced by each line
}

func newLog() *log { return &log{changed: make(chan struct{})} }

func (l *log) Write(line []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	close(l.changed)
	l.changed = make(chan struct{})
	return l.text.Write(line)
}

func (l *log) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}

// await waits for a line with that text.
func (l *log) await(t *testing.T, text string) {
	t.Helper()
	deadline := time.After(patience)
	for {
		l.mu.Lock()
		found, changed := bytes.Contains(l.text.Bytes(), []byte(text)), l.changed
		l.mu.Unlock()
		if found {
			return
		}
		select {
		case <-changed:
		case <-deadline:
			t.Fatalf("no line says %q:\n%s", text, l)
		}
	}
}

// member is one process's mesh with what it heard.
type member struct {
	*mesh.Mesh
	log     *log
	hints   chan mesh.Hint
	gaps    chan mesh.Gap
	configs chan mesh.Config
	turned  chan mesh.Switch
	stop    context.CancelFunc
	ended   chan struct{}
}

// room is how much a member hears before its receiver waits for the test.
const room = 1 << 16

// settings are those of a member with that name: everybody knows the ports of all.
func settings(name string, port int, ports ...int) config.Mesh {
	s := config.NewMesh()
	s.ServerID, s.MeshPort, s.SyncSecret = name, config.Int(port), "a secret that is long enough to be one"
	for _, p := range ports {
		s.MeshPeers = append(s.MeshPeers, fmt.Sprintf("127.0.0.1:%d", p))
	}
	return s
}

func newMember(t *testing.T, s config.Mesh, role string, change ...func(*mesh.Options)) *member {
	t.Helper()
	m := &member{
		log: newLog(), hints: make(chan mesh.Hint, room), gaps: make(chan mesh.Gap, room), configs: make(chan mesh.Config, room),
		turned: make(chan mesh.Switch, room), ended: make(chan struct{}),
	}
	o := mesh.Options{
		Settings: s, Role: role, Version: "test", Host: "127.0.0.1", Fingerprint: func() string { return "schema" }, PoolSize: 3,
		Timeline: func() int64 { return 7 }, Logger: logging.New(m.log, logging.Settings{Filter: "debug"}),
	}
	for _, f := range change {
		f(&o)
	}
	var err error
	if m.Mesh, err = mesh.New(o); err != nil {
		t.Fatal(err)
	}
	m.OnHints(func(_ string, hints []mesh.Hint) {
		for _, h := range hints {
			m.hints <- h
		}
	})
	m.OnGap(func(g mesh.Gap) { m.gaps <- g })
	m.OnConfig(func(_ string, c mesh.Config) { m.configs <- c })
	m.OnSwitch(func(s mesh.Switch) { m.turned <- s })
	return m
}

// start runs the member until the test ends or it is stopped.
func (m *member) start(t *testing.T) *member {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	m.stop = cancel
	go func() {
		defer close(m.ended)
		if err := m.Run(ctx); err != nil {
			t.Error(err)
		}
	}()
	t.Cleanup(m.leave)
	return m
}

func (m *member) leave() {
	m.stop()
	<-m.ended
}

// freePorts are ports that nothing listened on a moment ago.
func freePorts(t *testing.T, n int) []int {
	t.Helper()
	var ports []int
	for range n {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = l.Close() }()
		ports = append(ports, l.Addr().(*net.TCPAddr).Port)
	}
	return ports
}

// pair are an ingest and a deliver that know each other.
func pair(t *testing.T) (a, b *member) {
	t.Helper()
	ports := freePorts(t, 2)
	a = newMember(t, settings("a", ports[0], ports...), "ingest").start(t)
	b = newMember(t, settings("b", ports[1], ports...), "deliver").start(t)
	a.log.await(t, "peer joined peer=b-deliver")
	b.log.await(t, "peer joined peer=a-ingest")
	return a, b
}

// next is what comes next.
func next[T any](t *testing.T, what string, c chan T) (v T) {
	t.Helper()
	select {
	case v = <-c:
	case <-time.After(patience):
		t.Fatalf("no %s came", what)
	}
	return v
}

func TestHintsReachWhoWatchesTheirQueue(t *testing.T) {
	t.Parallel()
	a, b := pair(t)
	b.Watch(tenant, "orders")
	a.awaitWatch(t, b.ID(), "orders")
	want := mesh.Hint{Tenant: tenant, Queue: "orders", Partition: 12, LastOffset: 99, Group: "billing"}
	a.Announce(mesh.Hint{Tenant: tenant, Queue: "not watched", Partition: 1}, want)
	if diff := cmp.Diff(want, next(t, "hint", b.hints)); diff != "" {
		t.Errorf("hint (-want +got):\n%s", diff)
	}
}

// awaitWatch waits until a peer told that it listens to a queue.
func (m *member) awaitWatch(t *testing.T, id, queue string) {
	t.Helper()
	m.await(t, id+" watches "+queue, func(p mesh.Peer) bool { return p.ID == id && p.Watches(tenant, queue) })
}

// await waits until a peer is as it should be.
func (m *member) await(t *testing.T, what string, is func(mesh.Peer) bool) {
	t.Helper()
	for deadline := time.Now().Add(patience); time.Now().Before(deadline); time.Sleep(time.Millisecond) {
		for _, p := range m.Peers() {
			if is(p) {
				return
			}
		}
	}
	t.Fatalf("never: %s\n%s", what, m.log)
}
