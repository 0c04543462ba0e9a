package mesh

import (
	"sync/atomic"

	"github.com/prometheus/client_golang/prometheus"
)

// counters are what the mesh did since the process began.
type counters struct {
	sent, received, dropped atomic.Int64
	rejected, refused       atomic.Int64
	forged, replayed, stale atomic.Int64
	gaps                    [len(causes)]atomic.Int64
}

var causes = [...]Cause{CauseLost, CauseNewPeer, CausePeerDown, CauseReconnect}

func (c *counters) gap(cause Cause) {
	for i, known := range causes {
		if known == cause {
			c.gaps[i].Add(1)
		}
	}
}

func (c *counters) allGaps() (n int64) {
	for i := range c.gaps {
		n += c.gaps[i].Load()
	}
	return n
}

// export tells everything to Prometheus; the labels are lists of ours.
func (m *Mesh) export(registerer prometheus.Registerer) {
	if registerer == nil {
		return
	}
	c := &m.counters
	for _, f := range []struct {
		name, help string
		value      *atomic.Int64
	}{
		{"messages_sent", "Hints and queue changes handed to the node.", &c.sent},
		{"messages_received", "Hints and queue changes that arrived.", &c.received},
		{"messages_dropped", "Hints and queue changes that were not sent: too many waited, or there was no node.", &c.dropped},
		{"messages_rejected", "Messages that are not of this version, or damaged.", &c.rejected},
		{"handshake_failures", "Connections that could not prove who they are.", &c.refused},
		{"signature_failures", "Messages on an existing NATS that were not sealed with the secret.", &c.forged},
		{"sequence_rejections", "Messages on an existing NATS that were sent a second time.", &c.replayed},
		{"switch_rejections", "Switches that were older than what is known.", &c.stale},
	} {
		registerer.MustRegister(total(f.name, f.help, nil, f.value))
	}
	for i, cause := range causes {
		labels := prometheus.Labels{"cause": string(cause)}
		registerer.MustRegister(total("gaps", "Times something may have been missed.", labels, &c.gaps[i]))
	}
	for _, f := range []struct {
		name, help string
		value      func() int
	}{
		{"connected", "1 while the process has a node to talk to.", m.connectedGauge},
		{"peers_alive", "Other processes whose heartbeats arrive.", func() int { alive, _ := m.count(); return alive }},
		{"peers_dead", "Other processes that went down within the hour.", func() int { _, dead := m.count(); return dead }},
		{"messages_pending", "Hints that wait for the sender.", m.pending.depth},
	} {
		registerer.MustRegister(prometheus.NewGaugeFunc(
			prometheus.GaugeOpts{Name: "queen_mesh_" + f.name, Help: f.help}, func() float64 { return float64(f.value()) }))
	}
}

func total(name, help string, labels prometheus.Labels, value *atomic.Int64) prometheus.Collector {
	return prometheus.NewCounterFunc(
		prometheus.CounterOpts{Name: "queen_mesh_" + name + "_total", Help: help, ConstLabels: labels},
		func() float64 { return float64(value.Load()) })
}

func (m *Mesh) connectedGauge() int {
	if m.pending.isOpen() {
		return 1
	}
	return 0
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

// budget warns when the processes that live may together open more connections than the server takes, once until that is
// over.
type budget struct{ over bool }

func (b *budget) look(m *Mesh) {
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
	if over && !b.over {
		m.logger.Warn("the live processes may open more connections than PostgreSQL takes", "pools", sum, "max_connections", limit)
	}
	b.over = over
}
