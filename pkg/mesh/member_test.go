package mesh_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"net"
	"net/http/httptest"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/uuid"

	"queen.internal/pkg/config"
	"queen.internal/pkg/logging"
	"queen.internal/pkg/mesh"
)

// patience is how long tests wait for what should come at once.
const patience = time.Minute

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
func (l *log) await(t testing.TB, text string) {
	t.Helper()
	l.awaitCount(t, text, 1)
}

// awaitCount waits for that many.
func (l *log) awaitCount(t testing.TB, text string, n int) {
	t.Helper()
	deadline := time.After(patience)
	for {
		l.mu.Lock()
		found, changed := bytes.Count(l.text.Bytes(), []byte(text)), l.changed
		l.mu.Unlock()
		if found >= n {
			return
		}
		select {
		case <-changed:
		case <-deadline:
			t.Fatalf("%d lines say %q, not %d:\n%s", found, text, n, l)
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

	settings config.Mesh
	standing atomic.Bool   // the next hints make the receiver wait for letGo
	held     chan struct{} // holds one: the receiver waits
	goOn     chan struct{}
}

// room is how much a member hears before its receiver waits for the test.
const room = 1 << 16

// settings are those of a member with that name: everybody knows the ports of all.
func settings(name string, port int, ports ...int) config.Mesh {
	s := config.NewMesh()
	s.ServerID, s.MeshPort, s.SyncSecret = name, config.Int(port), childSecret
	for _, p := range ports {
		s.MeshPeers = append(s.MeshPeers, fmt.Sprintf("127.0.0.1:%d", p))
	}
	return s
}

func newMember(t testing.TB, s config.Mesh, role string, change ...func(*mesh.Options)) *member {
	t.Helper()
	m := &member{
		log: newLog(), hints: make(chan mesh.Hint, room), gaps: make(chan mesh.Gap, room), configs: make(chan mesh.Config, room),
		turned: make(chan mesh.Switch, room), ended: make(chan struct{}),
		settings: s, held: make(chan struct{}, 1), goOn: make(chan struct{}),
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
		if m.standing.Swap(false) {
			m.held <- struct{}{}
			<-m.goOn
		}
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
func (m *member) start(t testing.TB) *member {
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
func freePorts(t testing.TB, n int) []int {
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
func pair(t testing.TB) (a, b *member) {
	t.Helper()
	ports := freePorts(t, 2)
	a = newMember(t, settings("a", ports[0], ports...), "ingest").start(t)
	b = newMember(t, settings("b", ports[1], ports...), "deliver").start(t)
	a.log.await(t, "peer joined peer=b-deliver")
	b.log.await(t, "peer joined peer=a-ingest")
	return a, b
}

// next is what comes next.
func next[T any](t testing.TB, what string, c chan T) (v T) {
	t.Helper()
	select {
	case v = <-c:
	case <-time.After(patience):
		t.Fatalf("no %s came", what)
	}
	return v
}

// hold makes the receiver stand still at the next hints, until letGo.
func (m *member) hold() { m.standing.Store(true) }

func (m *member) letGo() { close(m.goOn) }

// stats are the statistics as they are served.
func (m *member) stats(t testing.TB) (s struct {
	Enabled           bool   `json:"enabled"`
	Running           bool   `json:"running"`
	Transport         string `json:"transport"`
	Sent              int    `json:"messages_sent"`
	Dropped           int    `json:"messages_dropped"`
	Pending           int    `json:"messages_pending"`
	HandshakeFailures int    `json:"handshake_failures"`
	SignatureFailures int    `json:"signature_failures"`
	Replayed          int    `json:"sequence_rejections"`
	SwitchRejections  int    `json:"switch_rejections"`
	Alive             int    `json:"servers_alive"`
	Dead              int    `json:"servers_dead"`
},
) {
	t.Helper()
	answer := httptest.NewRecorder()
	m.ServeStats(answer, nil)
	if err := json.Unmarshal(answer.Body.Bytes(), &s); err != nil {
		t.Fatal(err)
	}
	return s
}

// awaitSent waits until the sender has handed on that many.
func (m *member) awaitSent(t testing.TB, n int) {
	t.Helper()
	m.until(t, fmt.Sprintf("%d were sent", n), func() bool { return m.stats(t).Sent >= n })
}

// until waits for what the mesh tells nobody of.
func (m *member) until(t testing.TB, what string, is func() bool) {
	t.Helper()
	for deadline := time.Now().Add(patience); !is(); time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("never: %s\n%s", what, m.log)
		}
	}
}

func (m *member) lastSeen(id string) time.Time {
	for _, p := range m.Peers() {
		if p.ID == id {
			return p.LastSeen
		}
	}
	return time.Time{}
}

// awaitWatch waits until a peer told that it listens to a queue.
func (m *member) awaitWatch(t testing.TB, id, queue string) {
	t.Helper()
	m.await(t, id+" watches "+queue, func(p mesh.Peer) bool { return p.ID == id && p.Watches(tenant, queue) })
}

// await waits until a peer is as it should be.
func (m *member) await(t testing.TB, what string, is func(mesh.Peer) bool) {
	t.Helper()
	m.until(t, what, func() bool { return slices.ContainsFunc(m.Peers(), is) })
}

// quiet is for meshes that say nothing worth reading.
var quiet = slog.New(slog.DiscardHandler)
