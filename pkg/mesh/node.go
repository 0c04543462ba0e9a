package mesh

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/url"
	"strings"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nkeys"

	"queen.internal/pkg/config"
)

// What one node may hold or take. A connection that is slower is cut; its process notices and derives anew.
const (
	maxPayload       = 256 << 10 // bytes of a message
	maxNodePending   = 8 << 20   // bytes waiting for one connection
	nodeWriteTimeout = 5 * time.Second
	nodePing         = 5 * time.Second // a route without an answer to two of them is closed
	handshakeTimeout = 5 * time.Second
	nodeStart        = 10 * time.Second // a node that does not listen by then is given up
	maxClients       = 8                // one is ours; nobody else has a reason to come
)

var errNodeStart = errors.New("the node did not start in time")

// node is the embedded server: routes to the nodes of other processes, one client in this one.
type node struct {
	server *server.Server
	key    nkeys.KeyPair // of the one client, known to this process alone
	port   int           // of routes
}

// links says how nodes prove themselves to each other.
type links struct {
	tls      *tls.Config // nil: not at all, and on the loopback interface only
	password string
	auth     string // for the log
}

func newLinks(s *config.Mesh) (links, error) {
	var l links
	var err error
	switch {
	case s.TLSCert != "":
		l.auth = "certificates"
		l.tls, err = operatorTLS(s)
	case s.SyncSecret != "":
		l.auth = "secret"
		l.tls, err = derivedTLS(s)
	default:
		l.auth = "off"
	}
	if err == nil && s.SyncSecret != "" {
		l.password, err = routePassword(s)
	}
	return l, err
}

const routeUser = "queen"

// seeds are the routes to dial, and the peers that are left out because nothing would prove who they are.
func (l links) seeds(s *config.Mesh) (routes []*url.URL, skipped []string) {
	for _, peer := range s.Seeds() {
		host, _, err := net.SplitHostPort(peer)
		if err != nil || l.tls == nil && !config.Loopback(host) {
			skipped = append(skipped, peer)
			continue
		}
		route := &url.URL{Scheme: "nats-route", Host: peer}
		if l.password != "" {
			route.User = url.UserPassword(routeUser, l.password)
		}
		routes = append(routes, route)
	}
	return routes, skipped
}

// startNode starts a node that listens for routes on host and port; 0 is any free port. The error says why it does not
// listen; then nothing is left running.
func startNode(ctx context.Context, s *config.Mesh, l links, name, host string, port int, log *nodeLog) (*node, error) {
	key, err := nkeys.CreateUser()
	if err != nil {
		return nil, fmt.Errorf("make the client's key: %w", err)
	}
	public, err := key.PublicKey()
	if err != nil {
		return nil, fmt.Errorf("make the client's key: %w", err)
	}
	routes, _ := l.seeds(s)
	if l.tls == nil {
		host = "127.0.0.1"
	}
	subjects := subjectsOf(s.Cluster)
	only := &server.SubjectPermission{Allow: []string{subjects.all}}
	o := &server.Options{
		ServerName: name, NoSigs: true, NoSystemAccount: true,
		// Routes start only after the client listener does, so there is one; nobody has its key.
		Host: "127.0.0.1", Port: server.RANDOM_PORT, MaxConn: maxClients,
		Nkeys:      []*server.NkeyUser{{Nkey: public, Permissions: &server.Permissions{Publish: only, Subscribe: only}}},
		MaxPayload: maxPayload, MaxPending: maxNodePending, WriteDeadline: nodeWriteTimeout,
		DisableShortFirstPing: true, MaxClosedClients: 16, MaxTracedMsgLen: 64,
		Routes: routes,
		Cluster: server.ClusterOpts{
			Name: s.Cluster, Host: strings.Trim(host, "[]"), Port: port, TLSConfig: l.tls, TLSTimeout: handshakeTimeout.Seconds(),
			// One connection to each peer: messages of one publisher must not overtake each other.
			PoolSize: -1, Compression: server.CompressionOpts{Mode: server.CompressionOff},
			Advertise: s.Advertise, PingInterval: nodePing, MaxPingsOut: 2, WriteDeadline: nodeWriteTimeout,
			Permissions: &server.RoutePermissions{Import: only, Export: only},
		},
	}
	if port == 0 {
		o.Cluster.Port = server.RANDOM_PORT
	}
	if l.password != "" {
		o.Cluster.Username, o.Cluster.Password = routeUser, l.password
	}
	instance, err := server.NewServer(o)
	if err != nil {
		return nil, fmt.Errorf("make the node: %w", err)
	}
	instance.SetLoggerV2(log, false, false, false)
	n := &node{server: instance, key: key}
	instance.Start()
	if err := n.awaitListening(ctx, log); err != nil {
		n.close()
		return nil, err
	}
	return n, nil
}

// awaitListening waits until routes are accepted. The server tells of a failure through its log, and of success not at
// all, hence the looking.
func (n *node) awaitListening(ctx context.Context, log *nodeLog) error {
	deadline := time.NewTimer(nodeStart)
	defer deadline.Stop()
	look := time.NewTicker(2 * time.Millisecond)
	defer look.Stop()
	for {
		if addr := n.server.ClusterAddr(); addr != nil {
			n.port = addr.Port
			return nil
		}
		select {
		case err := <-log.fatal:
			return err
		case <-look.C:
		case <-deadline.C:
			return errNodeStart
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// close ends all connections and waits for the server's goroutines.
func (n *node) close() {
	n.server.Shutdown()
	n.server.WaitForShutdown()
	n.key.Wipe()
}
