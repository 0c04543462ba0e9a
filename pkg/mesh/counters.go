package mesh

import (
	"github.com/prometheus/client_golang/prometheus"
)

// counters are what the mesh did since the process began. Their labels are lists of ours.
type counters struct {
	sent, received, dropped  prometheus.Counter
	rejected, refused, stale prometheus.Counter
	gaps                     *prometheus.CounterVec
	overCommitted            bool // told once, until it is over
}

func newCounters(registerer prometheus.Registerer, m *Mesh) *counters {
	counter := func(name, help string) prometheus.Counter {
		return prometheus.NewCounter(prometheus.CounterOpts{Name: "queen_mesh_" + name + "_total", Help: help})
	}
	c := &counters{
		sent:     counter("messages_sent", "Hints and queue changes handed to the node."),
		received: counter("messages_received", "Hints and queue changes that arrived."),
		dropped:  counter("messages_dropped", "Hints and queue changes that were not sent: too many waited, or no node."),
		rejected: counter("messages_rejected", "Messages that are not of this version, or damaged."),
		refused:  counter("handshake_failures", "Connections of other nodes that could not prove who they are."),
		stale:    counter("switch_rejections", "Switches that were older than what is known."),
		gaps: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "queen_mesh_gaps_total", Help: "Times something may have been missed, by cause.",
		}, []string{"cause"}),
	}
	for _, cause := range []Cause{CauseLost, CauseNewPeer, CausePeerDown, CauseReconnect} {
		c.gaps.WithLabelValues(string(cause))
	}
	if registerer == nil {
		return c
	}
	registerer.MustRegister(c.sent, c.received, c.dropped, c.rejected, c.refused, c.stale, c.gaps)
	gauge := func(name, help string, value func() float64) {
		registerer.MustRegister(prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: "queen_mesh_" + name, Help: help}, value))
	}
	gauge("connected", "1 while the process has a node to talk to.", func() float64 {
		if m.connected() {
			return 1
		}
		return 0
	})
	gauge("peers_alive", "Other processes whose heartbeats arrive.", func() float64 { alive, _ := m.count(); return float64(alive) })
	gauge("peers_dead", "Other processes that went down within the hour.", func() float64 { _, dead := m.count(); return float64(dead) })
	gauge("messages_pending", "Hints that wait for the sender.", func() float64 { return float64(m.pending.depth()) })
	return c
}

func (m *Mesh) connected() bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.status.connected
}

func (m *Mesh) count() (alive, dead int) {
	for _, p := range m.table.peers() {
		if p.Alive {
			alive++
		} else {
			dead++
		}
	}
	return alive, dead
}

// watchPools warns when the processes that live may together open more connections than the server takes, once until
// that is over.
func (c *counters) watchPools(m *Mesh) {
	if m.o.MaxConnections == nil {
		return
	}
	limit, sum := m.o.MaxConnections(), m.o.PoolSize
	for _, p := range m.table.peers() {
		if p.Alive {
			sum += p.PoolSize
		}
	}
	over := limit > 0 && sum > limit
	if over && !c.overCommitted {
		m.logger.Warn("the live processes may open more connections than PostgreSQL takes", "pools", sum, "max_connections", limit)
	}
	c.overCommitted = over
}
