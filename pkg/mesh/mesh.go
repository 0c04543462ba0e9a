package mesh

import (
	"context"
	"crypto/rand"
	"encoding/binary"
	"encoding/hex"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/google/uuid"
	"github.com/prometheus/client_golang/prometheus"

	"queen.internal/pkg/backoff"
	"queen.internal/pkg/config"
	"queen.internal/pkg/logging"
)

// Options are what a process tells its mesh.
type Options struct {
	Settings       config.Mesh
	Role           string
	Version        string
	Host           string        // where HTTP listens; routes listen there as well unless QUEEN_MESH_BIND_ADDR says else
	Fingerprint    func() string // of the schema; nil or empty: not known
	PoolSize       int           // connections to PostgreSQL that this process may open
	Timeline       func() int64  // of the PostgreSQL server; nil or 0: not known
	MaxConnections func() int    // of the PostgreSQL server; nil or 0: not known
	Logger         *slog.Logger
	Registerer     prometheus.Registerer // nil: counted, not exported
}

// Mesh is one process's part of the mesh. Its methods may be called by any goroutine, before Run as well; none of them
// waits for the network.
type Mesh struct {
	o        Options
	id       string
	boot     uint64
	started  time.Time
	links    links    // embedded
	external external // or this one
	subjects subjects
	logger   *slog.Logger
	counters counters

	onHints  func(peer string, hints []Hint)
	onGap    func(Gap)
	onConfig func(peer string, c Config)
	onSwitch func(Switch)

	pending  pending
	interest interest
	switches switches
	table    *table
	failures logging.Sampler // of connecting

	wake chan struct{} // the sender has something to do
	beat atomic.Bool   // a heartbeat is due now
	ask  atomic.Bool   // peers are to beat now

	draining atomic.Bool

	sequence [sequences]uint64 // the sender's alone
	sealer   *sealer           // the sender's alone; nil: messages travel as they are
	opener   *opener           // the receiver's alone

	mu        sync.Mutex
	listensOn int // port of the node, or where one will be tried
}

// New is a mesh that does nothing until Run. Its error is a certificate or key that cannot be used.
func New(o Options) (*Mesh, error) {
	m := &Mesh{
		o: o, id: serverID(o.Settings.ServerID, o.Role), boot: newBoot(), started: time.Now(),
		subjects: subjectsOf(o.Settings.Cluster), logger: logging.For(o.Logger, "mesh"), wake: make(chan struct{}, 1),
		onHints: func(string, []Hint) {}, onGap: func(Gap) {}, onConfig: func(string, Config) {}, onSwitch: func(Switch) {},
	}
	m.table = newTable(m.id, o.Settings.Dead.Millis(), m.logger)
	m.listensOn = int(o.Settings.MeshPort)
	m.failures.Window = 30 * time.Second
	if err := m.prove(); err != nil {
		return nil, err
	}
	m.export(o.Registerer)
	return m, nil
}

// prove makes what this process proves itself with.
func (m *Mesh) prove() (err error) {
	s := &m.o.Settings
	switch s.Mode() {
	case "embedded":
		m.links, err = newLinks(s)
		return err
	case "external":
		if m.external, err = newExternal(s); err != nil || s.SyncSecret == "" {
			return err
		}
		m.opener = &opener{settings: s, boots: map[uint64]*openBoot{}}
		m.sealer, err = newSealer(s, m.boot)
		return err
	default:
		return nil
	}
}

// auth is how connections prove themselves, for logs and statistics.
func (m *Mesh) auth() string {
	if m.o.Settings.Mode() == "external" {
		return m.external.auth
	}
	return m.links.auth
}

// serverID is unique per process as long as copies of one role have different names: services of one machine share its
// host name.
func serverID(base, role string) string {
	if base == "" {
		base = "queen-" + hex.EncodeToString(randomBytes(4))
	}
	if slices.Contains(strings.Split(base, "-"), role) {
		return base
	}
	return base + "-" + role
}

func newBoot() uint64 { return binary.BigEndian.Uint64(randomBytes(8)) }

func randomBytes(n int) []byte {
	b := make([]byte, n)
	_, _ = rand.Read(b) // never fails: it ends the process instead
	return b
}

// ID is the server id, which ends in the role.
func (m *Mesh) ID() string { return m.id }

// OnHints, OnGap, OnConfig and OnSwitch say who is told; call them before Run. All are called by one goroutine, one after
// the other, so a handler that takes long makes this process miss messages, which it is then told. The hints are the
// handler's only until it returns; their strings may be kept.

// OnHints is told of hints of queues that are watched, and of others that share a subject with them.
func (m *Mesh) OnHints(handle func(peer string, hints []Hint)) { m.onHints = handle }

// OnGap is told when something may have been missed: a hole in a peer's sequence, a peer that came or went, or a
// reconnect. Whoever keeps what hints feed derives it anew from the database.
func (m *Mesh) OnGap(handle func(Gap)) { m.onGap = handle }

// OnConfig is told of changed and deleted queues.
func (m *Mesh) OnConfig(handle func(peer string, c Config)) { m.onConfig = handle }

// OnSwitch is told of each newer version of a switch that a peer knows of.
func (m *Mesh) OnSwitch(handle func(Switch)) { m.onSwitch = handle }

// Announce tells the others what may have work. It never blocks: hints wait, coalesced, for the sender, and are dropped
// and counted when too many wait or nobody is connected. The receivers notice that something is missing.
func (m *Mesh) Announce(hints ...Hint) {
	if len(hints) == 0 || !m.enabled() {
		return
	}
	if dropped := m.pending.add(hints); dropped > 0 {
		m.counters.dropped.Add(int64(dropped))
	}
	m.kick()
}

// AnnounceConfig tells the others that a queue was created, configured or deleted. It never blocks.
func (m *Mesh) AnnounceConfig(tenant uuid.UUID, queue string, deleted bool) {
	if !m.enabled() {
		return
	}
	if !m.pending.change(queueKey{tenant, queue}, deleted) {
		m.counters.dropped.Add(1)
	}
	m.kick()
}

// AnnounceSwitch tells the others of a switch, now and with every heartbeat. An older version than one known does
// nothing and answers false. The own handler is not called.
func (m *Mesh) AnnounceSwitch(s Switch) bool {
	if !m.switches.offer(s) {
		return false
	}
	m.beat.Store(true)
	m.kick()
	return true
}

// Drain tells the others that this process was told to stop. It goes on hearing and announcing until Run's context ends;
// nobody reports it down from now on.
func (m *Mesh) Drain() {
	m.draining.Store(true)
	m.beat.Store(true)
	m.kick()
}

// Switches are the highest versions known, by name.
func (m *Mesh) Switches() []Switch { return m.switches.all() }

// Peers are the other processes, by id: those that live and those that went down within the hour.
func (m *Mesh) Peers() []Peer { return m.table.peers() }

// Alive is how many other processes of a role are there.
func (m *Mesh) Alive(role string) int { return m.table.alive(role) }

func (m *Mesh) enabled() bool { return bool(m.o.Settings.SyncEnabled) }

// kick wakes the sender; one that works already looks again.
func (m *Mesh) kick() {
	select {
	case m.wake <- struct{}{}:
	default:
	}
}

// reopening paces attempts to bind or connect.
var reopening = backoff.Policy{Min: 500 * time.Millisecond, Max: 15 * time.Second}

// Run takes part until ctx ends, and says so when it leaves. Nothing that happens to the network or to the port ends it
// earlier: the process goes on without hints, and Run goes on trying.
func (m *Mesh) Run(ctx context.Context) error {
	if !m.enabled() {
		m.logger.InfoContext(ctx, "off: processes do not tell each other what they did")
		<-ctx.Done()
		return nil
	}
	m.warnOpen(ctx)
	for failures := 0; ; {
		served, err := m.open(ctx)
		if ctx.Err() != nil {
			return nil
		}
		if served {
			failures = 0
		}
		if failures == 0 && err != nil {
			m.logger.WarnContext(ctx, "bind failed, continuing with local waker only", "port", m.port(), "err", err)
		}
		if backoff.Sleep(ctx, reopening.Next(failures)) != nil {
			return nil
		}
		failures++
	}
}

// open takes part once. served is true when it had got as far as being connected.
func (m *Mesh) open(ctx context.Context) (served bool, err error) {
	if m.o.Settings.Mode() == "external" {
		return m.openExternal(ctx)
	}
	return m.openEmbedded(ctx)
}

// warnOpen tells of the one mode in which nobody proves anything.
func (m *Mesh) warnOpen(ctx context.Context) {
	if m.o.Settings.Mode() != "embedded" || m.links.tls != nil {
		return
	}
	_, skipped := m.links.seeds(&m.o.Settings)
	m.logger.WarnContext(ctx, "no QUEEN_SYNC_SECRET: the mesh stays on this machine and believes every process on it",
		"skipped_peers", strings.Join(skipped, ","))
}

func (m *Mesh) port() int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.listensOn
}

// keepPort makes later nodes of this process listen where the first one did: peers may have heard of it.
func (m *Mesh) keepPort(port int) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.listensOn = port
}
