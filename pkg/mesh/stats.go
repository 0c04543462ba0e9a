package mesh

import (
	"encoding/json"
	"net"
	"net/http"
	"strconv"
	"time"
)

// statistics is the contract's answer about the mesh, and from mode on what we add.
type statistics struct {
	Enabled            bool       `json:"enabled"`
	Running            bool       `json:"running"`
	ServerID           string     `json:"server_id"`
	Transport          string     `json:"transport"`
	Port               int        `json:"port"`
	PeerCount          int        `json:"peer_count"`
	Peers              []peerFact `json:"peers"`
	ServersAlive       int        `json:"servers_alive"`
	ServersDead        int        `json:"servers_dead"`
	MessagesSent       int64      `json:"messages_sent"`
	MessagesReceived   int64      `json:"messages_received"`
	MessagesDropped    int64      `json:"messages_dropped"`
	SignatureFailures  int64      `json:"signature_failures"`
	HandshakeFailures  int64      `json:"handshake_failures"`
	SequenceRejections int64      `json:"sequence_rejections"`
	Maintenance        bool       `json:"maintenance_mode"`
	PopMaintenance     bool       `json:"pop_maintenance_mode"`
	Mode               string     `json:"mode"`
	Auth               string     `json:"auth"`
	MessagesRejected   int64      `json:"messages_rejected"`
	SwitchRejections   int64      `json:"switch_rejections"`
	MessagesPending    int        `json:"messages_pending"`
	Gaps               int64      `json:"gaps"`
	PoolSizeTotal      int        `json:"pool_size_total"` // of this process and all that live
}

// peerFact is a process whose heartbeat was heard: first as the contract shows one, then what its heartbeat told.
type peerFact struct {
	Host       string    `json:"host"`
	Port       int       `json:"port"`
	Connected  bool      `json:"connected"`
	Resolved   bool      `json:"resolved"`
	ResolvedIP string    `json:"resolved_ip"`
	ServerID   string    `json:"server_id"`
	Role       string    `json:"role"`
	Version    string    `json:"version"`
	Schema     string    `json:"schema_fingerprint"`
	PoolSize   int       `json:"pool_size"`
	Timeline   int64     `json:"timeline"`
	LastSeen   time.Time `json:"last_seen"`
}

// disabled is the contract's answer of a process without a mesh.
type disabled struct {
	Enabled        bool   `json:"enabled"`
	Reason         string `json:"reason"`
	Maintenance    bool   `json:"maintenance_mode"`
	PopMaintenance bool   `json:"pop_maintenance_mode"`
}

// ServeStats answers what the mesh of this process does.
func (m *Mesh) ServeStats(w http.ResponseWriter, _ *http.Request) {
	if !m.enabled() {
		answer(w, disabled{Reason: "no_peers", Maintenance: m.switches.on(PushMaintenance), PopMaintenance: m.switches.on(PopMaintenance)})
		return
	}
	answer(w, m.statistics())
}

// ServeSharedState answers the contract's constant with the two modes that all processes share.
func (m *Mesh) ServeSharedState(w http.ResponseWriter, _ *http.Request) {
	answer(w, disabled{
		Reason:      "single_node_segments_broker",
		Maintenance: m.switches.on(PushMaintenance), PopMaintenance: m.switches.on(PopMaintenance),
	})
}

func answer(w http.ResponseWriter, v any) {
	body, err := json.Marshal(v)
	if err != nil {
		http.Error(w, `{"error":"internal error"}`, http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Content-Length", strconv.Itoa(len(body)))
	_, _ = w.Write(body) // the client left
}

func (m *Mesh) statistics() statistics {
	c := &m.counters
	s := statistics{
		Enabled: true, Running: m.pending.isOpen(), ServerID: m.id, Transport: "nats", Port: m.port(),
		Peers: []peerFact{}, MessagesSent: c.sent.Load(), MessagesReceived: c.received.Load(), MessagesDropped: c.dropped.Load(),
		SignatureFailures: c.forged.Load(), HandshakeFailures: c.refused.Load(), SequenceRejections: c.replayed.Load(),
		Maintenance: m.switches.on(PushMaintenance), PopMaintenance: m.switches.on(PopMaintenance),
		Mode: m.o.Settings.Mode(), Auth: m.auth(), MessagesRejected: c.rejected.Load(), SwitchRejections: c.stale.Load(),
		MessagesPending: m.pending.depth(), Gaps: c.allGaps(), PoolSizeTotal: m.o.PoolSize,
	}
	for _, p := range m.table.peers() {
		s.Peers = append(s.Peers, factOf(p))
		if p.Alive {
			s.ServersAlive++
			s.PoolSizeTotal += p.PoolSize
		} else {
			s.ServersDead++
		}
	}
	s.PeerCount = len(s.Peers)
	return s
}

func factOf(p Peer) peerFact {
	f := peerFact{
		Connected: p.Alive, Resolved: p.Alive, ServerID: p.ID, Role: p.Role, Version: p.Version, Schema: p.Schema,
		PoolSize: p.PoolSize, Timeline: p.Timeline, LastSeen: p.LastSeen.UTC(),
	}
	host, port, err := net.SplitHostPort(p.Address)
	if err != nil {
		return f // it has no node of its own
	}
	f.Host = host
	f.Port, _ = strconv.Atoi(port) // 0 when a peer tells nonsense
	if net.ParseIP(host) != nil {
		f.ResolvedIP = host
	}
	return f
}
