package config

import (
	"fmt"
	"log/slog"
	"net"
	"net/netip"
	"net/url"
	"strconv"
	"strings"
)

// Mesh is how the processes of a cell tell each other what they did: off, a node in each process, or an existing NATS.
type Mesh struct {
	SyncEnabled Bool   `envconfig:"QUEEN_SYNC_ENABLED"` // false: nothing is bound and nobody is told
	MeshPort    Int    `ignored:"true" chain:"QUEEN_MESH_PORT,QUEEN_UDP_NOTIFY_PORT" range:"0..65535"`
	MeshPeers   List   `ignored:"true" chain:"QUEEN_MESH_PEERS,QUEEN_UDP_PEERS"` // host or host:port; own name allowed
	MeshURL     Secret `envconfig:"QUEEN_MESH_URL"`                              // an existing NATS, comma list; may hold a password
	MeshBind    string `envconfig:"QUEEN_MESH_BIND_ADDR"`                        // empty: as HTTP
	Advertise   string `envconfig:"QUEEN_MESH_ADVERTISE_HOST"`                   // empty: as others see the process
	Cluster     string `envconfig:"QUEEN_MESH_CLUSTER"`                          // processes of another name are refused
	SyncSecret  Secret `envconfig:"QUEEN_SYNC_SECRET"`                           // the same for all
	Credentials Secret `envconfig:"QUEEN_MESH_CREDENTIALS"`                      // for MeshURL: an nkey seed, or a .creds file
	TLSCert     string `envconfig:"QUEEN_MESH_TLS_CERT"`                         // PEM text or a file, as the next two
	TLSKey      Secret `envconfig:"QUEEN_MESH_TLS_KEY"`
	TLSCA       string `envconfig:"QUEEN_MESH_TLS_CA"`
	Heartbeat   Int    `envconfig:"QUEEN_SYNC_HEARTBEAT_MS" floor:"1"`
	Dead        Int    `envconfig:"QUEEN_SYNC_DEAD_THRESHOLD_MS" floor:"1"`
	ServerID    string `ignored:"true" chain:"QUEEN_SERVER_ID,HOSTNAME"`
}

// NewMesh is the default: a node on the contract's port.
func NewMesh() Mesh {
	return Mesh{SyncEnabled: true, MeshPort: 6633, Cluster: "queen", Heartbeat: 1000, Dead: 5000}
}

// Validate refuses what could never connect, or would connect without anybody proving who they are.
func (m Mesh) Validate() error {
	bare := strings.Trim(m.MeshBind, "[]")
	if _, err := netip.ParseAddr(bare); err != nil && strings.Contains(bare, ":") {
		return fmt.Errorf("QUEEN_MESH_BIND_ADDR=%s carries a port (set QUEEN_MESH_PORT instead)", quote(m.MeshBind))
	}
	if m.Cluster == "" || strings.Trim(m.Cluster, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-") != "" {
		return fmt.Errorf("QUEEN_MESH_CLUSTER=%s is not a name of letters, digits, - and _", quote(m.Cluster))
	}
	if (m.TLSCert == "") != (m.TLSKey == "") {
		return fmt.Errorf("QUEEN_MESH_TLS_CERT and QUEEN_MESH_TLS_KEY belong together: one of them is not set")
	}
	if m.TLSCert != "" && m.TLSCA == "" && m.MeshURL == "" {
		return fmt.Errorf("QUEEN_MESH_TLS_CERT needs QUEEN_MESH_TLS_CA, which signed the certificates of the other processes")
	}
	return m.validateURL()
}

func (m Mesh) validateURL() error {
	for _, server := range m.Servers() {
		u, err := url.Parse(server)
		if err != nil || u.Hostname() == "" {
			return fmt.Errorf("QUEEN_MESH_URL is not a list of nats://host:port") // may hold a password, so it is not shown
		}
		proven := u.User != nil || m.Credentials != "" || m.SyncSecret != "" || m.TLSCert != ""
		if !proven && !Loopback(u.Hostname()) {
			return fmt.Errorf("QUEEN_MESH_URL names %s, which is not this machine: "+
				"set QUEEN_SYNC_SECRET, QUEEN_MESH_CREDENTIALS or a certificate", quote(u.Host))
		}
	}
	return nil
}

// Servers are the addresses of an existing NATS, each with its scheme; none when every process runs a node of its own.
func (m Mesh) Servers() []string {
	var list List
	_ = list.Set(m.MeshURL.Reveal()) // takes every text
	for i, server := range list {
		if !strings.Contains(server, "://") {
			list[i] = "nats://" + server
		}
	}
	return list
}

// Seeds are the peers as host:port. What is no port belongs to the host, as it always did.
func (m Mesh) Seeds() []string {
	var seeds []string
	for _, peer := range m.MeshPeers {
		peer = strings.TrimPrefix(strings.TrimPrefix(peer, "http://"), "https://")
		host, port, err := net.SplitHostPort(peer)
		if n, bad := strconv.ParseUint(port, 10, 16); err != nil || bad != nil || n == 0 {
			host, port = strings.Trim(peer, "[]"), strconv.FormatInt(int64(m.MeshPort), 10)
		}
		seeds = append(seeds, net.JoinHostPort(host, port))
	}
	return seeds
}

// Loopback says whether host can only be this machine.
func Loopback(host string) bool {
	addr, err := netip.ParseAddr(strings.Trim(host, "[]"))
	return err == nil && addr.IsLoopback() || strings.EqualFold(host, "localhost")
}

// Mode is off, embedded or external.
func (m Mesh) Mode() string {
	switch {
	case !bool(m.SyncEnabled):
		return "off"
	case len(m.Servers()) > 0:
		return "external"
	default:
		return "embedded"
	}
}

// Block is the sync line of the effective settings.
func (m Mesh) Block() Block {
	return Block{"sync", []slog.Attr{
		slog.Bool("enabled", bool(m.SyncEnabled)), slog.Bool("mesh_active", bool(m.SyncEnabled)), slog.String("mode", m.Mode()),
		slog.String("server_id", m.ServerID), slog.String("cluster", m.Cluster), slog.Int64("mesh_port", int64(m.MeshPort)),
		slog.String("peers", strings.Join(m.Seeds(), ",")), slog.Any("url", m.MeshURL), slog.Any("secret", m.SyncSecret),
		slog.Any("credentials", m.Credentials), slog.Bool("own_certificates", m.TLSCert != ""),
		slog.Int64("heartbeat_ms", int64(m.Heartbeat)), slog.Int64("dead_threshold_ms", int64(m.Dead)),
	}}
}
