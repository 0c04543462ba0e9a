package mesh

import (
	"bufio"
	"fmt"
	"log/slog"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nkeys"

	"queen.internal/pkg/config"
)

func startedNode(t *testing.T, s config.Mesh, host string) *node {
	t.Helper()
	l, err := newLinks(&s)
	if err != nil {
		t.Fatal(err)
	}
	n, err := startNode(t.Context(), &s, l, "node", host, 0, newNodeLog(slog.New(slog.DiscardHandler), func() {}))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(n.close)
	return n
}

// Nobody but the process itself has the key of the client listener, secret or not.
func TestTheClientListenerTakesNobodyElse(t *testing.T) {
	t.Parallel()
	s := config.NewMesh()
	s.SyncSecret = "secret"
	n := startedNode(t, s, "127.0.0.1")
	stranger, err := nkeys.CreateUser()
	if err != nil {
		t.Fatal(err)
	}
	public, err := stranger.PublicKey()
	if err != nil {
		t.Fatal(err)
	}
	ours, err := n.key.PublicKey()
	if err != nil {
		t.Fatal(err)
	}
	derived, err := clientKey(&s)
	if err != nil {
		t.Fatal(err)
	}
	derivedPublic, err := derived.PublicKey()
	if err != nil {
		t.Fatal(err)
	}
	url := n.server.ClientURL()
	for name, option := range map[string]nats.Option{
		"nothing":                              nats.Name("x"),
		"a password":                           nats.UserInfo(routeUser, "secret"),
		"a key of its own":                     nats.Nkey(public, stranger.Sign),
		"the key that follows from the secret": nats.Nkey(derivedPublic, derived.Sign),
		"our name and its own signature":       nats.Nkey(ours, stranger.Sign),
	} {
		conn, err := nats.Connect(url, option, nats.Timeout(10*time.Second))
		if err == nil {
			conn.Close()
			t.Errorf("%s is enough", name)
		}
	}
	conn, err := net.Dial("tcp", strings.TrimPrefix(url, "nats://"))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close() }()
	if err := conn.SetDeadline(time.Now().Add(20 * time.Second)); err != nil {
		t.Fatal(err)
	}
	if _, err := fmt.Fprint(conn, "CONNECT {\"verbose\":false}\r\nSUB > 1\r\nPING\r\n"); err != nil {
		t.Fatal(err)
	}
	lines := bufio.NewScanner(conn)
	for lines.Scan() {
		if text := lines.Text(); !strings.HasPrefix(text, "INFO") && !strings.HasPrefix(text, "-ERR") {
			t.Errorf("it is told %q", text)
		}
	}
}

func TestWithoutASecretOnlyThisMachineIsListenedToAndDialled(t *testing.T) {
	t.Parallel()
	s := config.NewMesh()
	s.MeshPeers = config.List{"queen-b", "127.0.0.1:7000", "10.0.0.1:6633", "localhost", "[::1]:7001"}
	n := startedNode(t, s, "0.0.0.0")
	if addr := n.server.ClusterAddr(); !addr.IP.IsLoopback() {
		t.Errorf("it listens on %s", addr)
	}
	routes, skipped := links{}.seeds(&s)
	var dialled []string
	for _, r := range routes {
		dialled = append(dialled, r.Host)
	}
	if diff := cmp.Diff([]string{"127.0.0.1:7000", "localhost:6633", "[::1]:7001"}, dialled); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff([]string{"queen-b:6633", "10.0.0.1:6633"}, skipped); diff != "" {
		t.Error(diff)
	}
}

// All nodes make the same authority of one secret, and nothing of it is in another cluster's.
func TestKeysFollowFromTheSecretAndTheCluster(t *testing.T) {
	t.Parallel()
	one := func(change func(*config.Mesh)) string {
		s := config.NewMesh()
		s.SyncSecret = "secret"
		change(&s)
		authority, _, err := derivedAuthority(&s)
		if err != nil {
			t.Fatal(err)
		}
		public, err := ClientKey(s)
		if err != nil {
			t.Fatal(err)
		}
		password, err := routePassword(&s)
		if err != nil {
			t.Fatal(err)
		}
		return fmt.Sprintf("%x %s %s", authority.Raw, public, password)
	}
	same := one(func(*config.Mesh) {})
	if again := one(func(s *config.Mesh) { s.ServerID, s.MeshPort = "other", 1 }); again != same {
		t.Error("two processes with one secret make different keys")
	}
	for name, other := range map[string]string{
		"secret": one(func(s *config.Mesh) { s.SyncSecret = "Secret" }), "cluster": one(func(s *config.Mesh) { s.Cluster = "b" }),
	} {
		for i, part := range strings.Fields(other) {
			if part == strings.Fields(same)[i] {
				t.Errorf("another %s makes the same key", name)
			}
		}
	}
}
