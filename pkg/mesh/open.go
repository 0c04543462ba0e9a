package mesh

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"strconv"

	"github.com/nats-io/nats.go"
)

// subjects are where messages of one cluster travel.
type subjects struct {
	all, beats, asks, configs string
	hints                     [buckets]string
}

func subjectsOf(cluster string) (s subjects) {
	prefix := "queen." + cluster + "."
	s.all, s.beats, s.asks, s.configs = prefix+">", prefix+"beat", prefix+"ask", prefix+"config"
	for bucket := range s.hints {
		s.hints[bucket] = prefix + "hint." + strconv.Itoa(bucket)
	}
	return s
}

// link is a connection to a node, ours or an existing one.
type link struct {
	conn    *nats.Conn
	ended   chan struct{} // closed when the connection is lost for good
	changed chan struct{} // holds one: it was cut and came back
}

var errLinkEnded = errors.New("the connection to the node ended")

// connect makes a link. Nothing is buffered while it is cut: what was true then may not be true later.
func (m *Mesh) connect(servers string, connected func(), options ...nats.Option) (*link, error) {
	l := &link{ended: make(chan struct{}), changed: make(chan struct{}, 1)}
	first := func(*nats.Conn) {
		connected()
		m.pending.setOpen(true)
		m.greet()
	}
	again := func(*nats.Conn) {
		m.pending.setOpen(true)
		select {
		case l.changed <- struct{}{}:
		default:
		}
	}
	options = append(options,
		nats.Name(m.id), nats.NoEcho(), nats.ReconnectBufSize(-1), nats.PingInterval(nodePing), nats.MaxPingsOutstanding(2),
		nats.ConnectHandler(first), nats.ReconnectHandler(again),
		nats.DisconnectErrHandler(func(*nats.Conn, error) { m.closePending() }),
		nats.ClosedHandler(func(*nats.Conn) { close(l.ended) }),
		nats.ErrorHandler(func(_ *nats.Conn, _ *nats.Subscription, err error) { m.asyncError(err) }),
	)
	conn, err := nats.Connect(servers, options...)
	if err != nil {
		return nil, fmt.Errorf("connect to the node: %w", err)
	}
	l.conn = conn
	return l, nil
}

// close ends the link and waits for its goroutines.
func (l *link) close() {
	l.conn.Close()
	<-l.ended
}

func (m *Mesh) closePending() {
	if dropped := m.pending.setOpen(false); dropped > 0 {
		m.counters.dropped.Add(int64(dropped))
	}
}

func (m *Mesh) asyncError(err error) {
	if errors.Is(err, nats.ErrSlowConsumer) {
		m.logger.Warn("messages arrived faster than they were taken; what was missed is derived anew")
		return
	}
	m.logger.Debug("connection", "err", err)
}

// openEmbedded runs a node and takes part through it until ctx ends or the node does.
func (m *Mesh) openEmbedded(ctx context.Context) (served bool, err error) {
	s := &m.o.Settings
	host := s.MeshBind
	if host == "" {
		host = m.o.Host
	}
	log := newNodeLog(m.logger, func() { m.counters.refused.Add(1) })
	name := fmt.Sprintf("%s.%016x", m.id, m.boot)
	n, err := startNode(ctx, s, m.links, name, host, m.port(), log)
	if err != nil {
		return false, err
	}
	defer n.close()
	public, err := n.key.PublicKey()
	if err != nil {
		return false, fmt.Errorf("the client's key: %w", err)
	}
	l, err := m.connect("", func() {}, nats.InProcessServer(n.server), nats.Nkey(public, n.key.Sign), nats.NoReconnect())
	if err != nil {
		return false, err
	}
	defer l.close()
	m.keepPort(n.port)
	routes, _ := m.links.seeds(s)
	m.logger.InfoContext(ctx, "started", "server_id", m.id, "port", n.port, "peers", len(routes), "auth", m.links.auth)
	return true, m.session(ctx, l)
}

// address is where peers find the node.
func (m *Mesh) address() string {
	if m.o.Settings.Mode() != "embedded" {
		return ""
	}
	host := m.o.Settings.Advertise
	if host == "" {
		host, _ = os.Hostname() // empty when the system does not know
	}
	return net.JoinHostPort(host, strconv.Itoa(m.port()))
}
