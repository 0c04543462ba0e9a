package mesh_test

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"queen.internal/pkg/config"
	"queen.internal/pkg/mesh"
)

// authority is a certificate authority of an operator's.
type authority struct {
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
	pem  string
}

func newAuthority(t *testing.T) *authority {
	t.Helper()
	a := &authority{key: newKey(t)}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "operator"}, IsCA: true, BasicConstraintsValid: true,
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour), KeyUsage: x509.KeyUsageCertSign,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, a.key.Public(), a.key)
	if err == nil {
		a.cert, err = x509.ParseCertificate(der)
	}
	if err != nil {
		t.Fatal(err)
	}
	a.pem = string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}))
	return a
}

func newKey(t *testing.T) *ecdsa.PrivateKey {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	return key
}

// issue is a certificate for the loopback address, and its key.
func (a *authority) issue(t *testing.T) (cert, key string) {
	t.Helper()
	private := newKey(t)
	template := &x509.Certificate{
		SerialNumber: big.NewInt(2), Subject: pkix.Name{CommonName: "node"}, IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour), KeyUsage: x509.KeyUsageDigitalSignature,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
	}
	der, err := x509.CreateCertificate(rand.Reader, template, a.cert, private.Public(), a.key)
	if err != nil {
		t.Fatal(err)
	}
	secret, err := x509.MarshalPKCS8PrivateKey(private)
	if err != nil {
		t.Fatal(err)
	}
	return string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})),
		string(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: secret}))
}

// certified are settings with certificates of that authority instead of a secret.
func (a *authority) certified(t *testing.T, s config.Mesh) config.Mesh {
	t.Helper()
	cert, key := a.issue(t)
	s.SyncSecret, s.TLSCert, s.TLSKey, s.TLSCA = "", strings.ReplaceAll(cert, "\n", `\n`), config.Secret(key), a.pem
	return s
}

// intruders are settings of nodes that do not belong to a mesh with the secret of settings.
func intruders(t *testing.T) map[string]func(config.Mesh) config.Mesh {
	t.Helper()
	return map[string]func(config.Mesh) config.Mesh{
		"without a secret":        func(s config.Mesh) config.Mesh { s.SyncSecret = ""; return s },
		"with another secret":     func(s config.Mesh) config.Mesh { s.SyncSecret += "!"; return s },
		"of another cluster":      func(s config.Mesh) config.Mesh { s.Cluster = "restored"; return s },
		"with other certificates": func(s config.Mesh) config.Mesh { return newAuthority(t).certified(t, s) },
		"with the secret under theirs": func(s config.Mesh) config.Mesh {
			secret := s.SyncSecret
			s = newAuthority(t).certified(t, s)
			s.SyncSecret = secret
			return s
		},
	}
}

func TestAStrangerGetsNothingAndChangesNothing(t *testing.T) {
	t.Parallel()
	for name, disguise := range intruders(t) {
		for _, dials := range []bool{true, false} {
			t.Run(fmt.Sprintf("%s, dialling %v", name, dials), func(t *testing.T) {
				t.Parallel()
				ports := freePorts(t, 3)
				known := ports[:2]
				if !dials {
					known = ports // the mesh dials the stranger
				}
				a := newMember(t, settings("a", ports[0], known...), "ingest").start(t)
				b := newMember(t, settings("b", ports[1], known...), "deliver").start(t)
				s := settings("x", ports[2])
				if dials {
					s = settings("x", ports[2], ports[:2]...)
				}
				x := newMember(t, disguise(s), "deliver")
				x.WatchAll()
				x.AnnounceSwitch(mesh.Switch{Name: mesh.PushMaintenance, On: true, Version: 1000})
				x.start(t)
				x.log.await(t, "mesh: started")
				a.log.await(t, "peer joined peer=b-deliver")
				b.log.await(t, "peer joined peer=a-ingest")
				a.until(t, "somebody was refused", func() bool {
					return a.stats(t).HandshakeFailures+x.stats(t).HandshakeFailures > 0
				})
				b.Watch(tenant, "orders")
				a.awaitWatch(t, b.ID(), "orders")
				for i := range 100 {
					x.Announce(mesh.Hint{Tenant: tenant, Queue: "orders", Partition: 666})
					x.AnnounceConfig(tenant, "orders", true)
					a.Announce(mesh.Hint{Tenant: tenant, Queue: "orders", Partition: 1, Offset: int64(i)})
				}
				for last := int64(0); last < 99; {
					h := next(t, "hint", b.hints)
					if h.Partition != 1 {
						t.Fatalf("a hint of the stranger: %+v", h)
					}
					last = h.Offset
				}
				for _, m := range []*member{a, b, x} {
					others := map[bool]int{true: 0, false: 1}[m == x]
					if len(m.configs)+len(m.turned) > 0 || len(m.Peers()) != others {
						t.Errorf("%s: %d queue changes, %d switches, peers %+v", m.ID(), len(m.configs), len(m.turned), m.Peers())
					}
				}
				if len(x.hints) > 0 || len(a.Switches())+len(b.Switches()) > 0 {
					t.Errorf("the stranger heard %d hints; the switches are %+v and %+v", len(x.hints), a.Switches(), b.Switches())
				}
			})
		}
	}
}

func TestARawConnectionToTheRoutePortIsToldNothing(t *testing.T) {
	t.Parallel()
	a, b := pair(t)
	b.Watch(tenant, "orders")
	a.awaitWatch(t, b.ID(), "orders")
	address := fmt.Sprintf("127.0.0.1:%d", a.settings.MeshPort)
	cert, key := newAuthority(t).issue(t)
	own, err := tls.X509KeyPair([]byte(cert), []byte(key))
	if err != nil {
		t.Fatal(err)
	}
	hello := "CONNECT {\"verbose\":false,\"name\":\"x\",\"cluster\":\"queen\"}\r\nRS+ $G >\r\nSUB > 1\r\nPING\r\n"
	for name, wrap := range map[string]func(net.Conn) net.Conn{
		"plain":                     func(c net.Conn) net.Conn { return c },
		"TLS without a certificate": func(c net.Conn) net.Conn { return tls.Client(c, &tls.Config{InsecureSkipVerify: true}) },
		"TLS with a foreign certificate": func(c net.Conn) net.Conn {
			return tls.Client(c, &tls.Config{InsecureSkipVerify: true, Certificates: []tls.Certificate{own}})
		},
		"TLS of an old version": func(c net.Conn) net.Conn {
			return tls.Client(c, &tls.Config{InsecureSkipVerify: true, MaxVersion: tls.VersionTLS12, Certificates: []tls.Certificate{own}})
		},
	} {
		t.Run(name, func(t *testing.T) {
			conn, err := net.Dial("tcp", address)
			if err != nil {
				t.Fatal(err)
			}
			defer func() { _ = conn.Close() }()
			if err := conn.SetDeadline(time.Now().Add(patience)); err != nil {
				t.Fatal(err)
			}
			wrapped := wrap(conn)
			if _, err := wrapped.Write([]byte(hello)); err != nil {
				return // refused in the handshake
			}
			a.Announce(mesh.Hint{Tenant: tenant, Queue: "orders", Partition: 1})
			var got []byte
			rest := make([]byte, 4096)
			for {
				n, err := wrapped.Read(rest)
				got = append(got, rest[:n]...)
				if err != nil {
					break
				}
			}
			for _, word := range []string{"INFO", "PONG", "RMSG", "MSG ", "orders", "RS+"} {
				if strings.Contains(string(got), word) {
					t.Errorf("%q tells %s", got, word)
				}
			}
		})
	}
}

func TestNodesWithCertificatesOfOneAuthorityFindEachOther(t *testing.T) {
	t.Parallel()
	operator := newAuthority(t)
	ports := freePorts(t, 2)
	a := newMember(t, operator.certified(t, settings("a", ports[0], ports...)), "ingest").start(t)
	// The second has its certificate in files, and both have a secret as well.
	s := operator.certified(t, settings("b", ports[1], ports...))
	folder := t.TempDir()
	for name, value := range map[*string]string{&s.TLSCert: strings.ReplaceAll(s.TLSCert, `\n`, "\n"), &s.TLSCA: s.TLSCA} {
		*name = filepath.Join(folder, fmt.Sprintf("%d.pem", len(value)))
		if err := os.WriteFile(*name, []byte(value), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	b := newMember(t, s, "deliver").start(t)
	a.log.await(t, "auth=certificates")
	a.log.await(t, "peer joined peer=b-deliver")
	b.log.await(t, "peer joined peer=a-ingest")
}

func TestWithCertificatesAndASecretBothAreNeeded(t *testing.T) {
	t.Parallel()
	operator := newAuthority(t)
	ports := freePorts(t, 3)
	member := func(name string, port int, secret config.Secret) *member {
		s := operator.certified(t, settings(name, port, ports...))
		s.SyncSecret = secret
		return newMember(t, s, "ingest").start(t)
	}
	a, b := member("a", ports[0], "first"), member("b", ports[1], "first")
	x := member("x", ports[2], "second")
	a.log.await(t, "peer joined peer=b-ingest")
	b.log.await(t, "peer joined peer=a-ingest")
	x.until(t, "somebody was refused", func() bool { return a.stats(t).HandshakeFailures+x.stats(t).HandshakeFailures > 0 })
	if len(x.Peers()) != 0 || len(a.Peers()) != 1 {
		t.Errorf("x knows %+v, a knows %+v", x.Peers(), a.Peers())
	}
}

func TestUnusableCertificatesEndTheBootWithTheirName(t *testing.T) {
	t.Parallel()
	cert, key := newAuthority(t).issue(t)
	for want, change := range map[string]func(*config.Mesh){
		"QUEEN_MESH_TLS_CERT: open /nowhere": func(s *config.Mesh) { s.TLSCert, s.TLSKey, s.TLSCA = "/nowhere", config.Secret(key), cert },
		"QUEEN_MESH_TLS_CERT and QUEEN_MESH_TLS_KEY": func(s *config.Mesh) {
			_, other := newAuthority(t).issue(t)
			s.TLSCert, s.TLSKey, s.TLSCA = cert, config.Secret(other), cert
		},
		"QUEEN_MESH_TLS_CA holds no certificate": func(s *config.Mesh) { s.TLSCert, s.TLSKey, s.TLSCA = cert, config.Secret(key), key },
	} {
		s := settings("a", 1)
		change(&s)
		if _, err := mesh.New(mesh.Options{Settings: s, Role: "ingest", Logger: quiet}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %q", err, want)
		}
	}
}
