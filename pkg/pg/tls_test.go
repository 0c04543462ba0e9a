package pg_test

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"log/slog"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"queen.internal/pkg/config"
	"queen.internal/pkg/pg"
	"queen.internal/pkg/pgserver"
	"queen.internal/pkg/pgtest"
)

// authority is a private CA of one test.
type authority struct {
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
	PEM  string
}

func newAuthority(t *testing.T, name string) *authority {
	t.Helper()
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: name}, IsCA: true, BasicConstraintsValid: true,
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour), KeyUsage: x509.KeyUsageCertSign,
	}
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	cert, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	return &authority{cert: cert, key: key, PEM: pemText("CERTIFICATE", der)}
}

// issue makes a server certificate for 127.0.0.1, and for nothing else.
func (a *authority) issue(t *testing.T) (cert, key string) {
	t.Helper()
	template := &x509.Certificate{
		SerialNumber: big.NewInt(2), Subject: pkix.Name{CommonName: "server"}, IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	}
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	der, err := x509.CreateCertificate(rand.Reader, template, a.cert, private.Public(), a.key)
	if err != nil {
		t.Fatal(err)
	}
	raw, err := x509.MarshalPKCS8PrivateKey(private)
	if err != nil {
		t.Fatal(err)
	}
	return pemText("CERTIFICATE", der), pemText("PRIVATE KEY", raw)
}

func pemText(kind string, der []byte) string {
	return string(pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}))
}

// tlsServer starts a PostgreSQL that speaks TLS with a certificate of ca. It ends with the test.
func tlsServer(t *testing.T, ca *authority) pg.Config {
	t.Helper()
	ctx := bounded(t)
	server, err := pgserver.Start(ctx, pgserver.Options{Throwaway: true})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := server.Stop(context.Background()); err != nil {
			t.Error(err)
		}
	})
	conn, err := pgx.Connect(ctx, server.DSN("postgres"))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close(context.Background()) }()
	var data string
	if err := conn.QueryRow(ctx, `SHOW data_directory`).Scan(&data); err != nil {
		t.Fatal(err)
	}
	cert, key := ca.issue(t)
	giveToServer(t, filepath.Join(data, "server.crt"), cert)
	giveToServer(t, filepath.Join(data, "server.key"), key)
	for _, sql := range []string{`ALTER SYSTEM SET ssl = on`, `SELECT pg_reload_conf()`} {
		if _, err := conn.Exec(ctx, sql); err != nil {
			t.Fatal(err)
		}
	}
	cfg := pg.Config{
		Host: "127.0.0.1", Port: server.Port(), User: conn.Config().User, Password: server.Password(), Database: "postgres",
		UseSSL: true, RejectUnauthorized: true,
	}
	accepting := cfg
	accepting.RejectUnauthorized = false
	if err := pg.WaitReady(ctx, open(t, accepting), slog.New(slog.DiscardHandler)); err != nil { // the reload is asynchronous
		t.Fatal(err)
	}
	return cfg
}

// giveToServer writes a file that only the owner of its folder can read.
func giveToServer(t *testing.T, path, text string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	folder, err := os.Stat(filepath.Dir(path))
	if err != nil {
		t.Fatal(err)
	}
	owner := folder.Sys().(*syscall.Stat_t)
	if err := os.Chown(path, int(owner.Uid), int(owner.Gid)); err != nil {
		t.Fatal(err)
	}
}

func TestTLSToARealServer(t *testing.T) {
	t.Parallel()
	ca, other := newAuthority(t, "ours"), newAuthority(t, "another")
	base := tlsServer(t, ca)
	for name, tc := range map[string]struct {
		change func(*pg.Config)
		want   string // part of the refusal; empty: accepted
	}{
		"PublicRootsRefuseIt":     {func(*pg.Config) {}, "unknown authority"},
		"ItsCAAcceptsIt":          {func(c *pg.Config) { c.RootCert = ca.PEM }, ""},
		"EscapedLineEndsAreRead":  {func(c *pg.Config) { c.RootCert = strings.ReplaceAll(ca.PEM, "\n", `\n`) }, ""},
		"ABundleAcceptsIt":        {func(c *pg.Config) { c.RootCert = other.PEM + "comment\n" + ca.PEM }, ""},
		"AnotherCARefusesIt":      {func(c *pg.Config) { c.RootCert = other.PEM }, "unknown authority"},
		"TheHostNameIsChecked":    {func(c *pg.Config) { c.RootCert, c.Host = ca.PEM, "localhost" }, "localhost"},
		"ACAWinsOverAcceptingAny": {func(c *pg.Config) { c.RootCert, c.RejectUnauthorized = other.PEM, false }, "unknown authority"},
		"AcceptAnyAcceptsIt":      {func(c *pg.Config) { c.RejectUnauthorized = false }, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			cfg := base
			tc.change(&cfg)
			var encrypted bool
			err := open(t, cfg).QueryRow(bounded(t), `SELECT ssl FROM pg_stat_ssl WHERE pid = pg_backend_pid()`).Scan(&encrypted)
			switch {
			case tc.want == "" && (err != nil || !encrypted):
				t.Fatalf("encrypted %v, %v", encrypted, err)
			case tc.want != "" && (err == nil || !strings.Contains(err.Error(), tc.want)):
				t.Fatalf("got %v, want a refusal with %q", err, tc.want)
			case err != nil && (!pg.Transient(err) || pg.FatalAtBoot(err)):
				t.Fatalf("%v: transient %v, fatal %v", err, pg.Transient(err), pg.FatalAtBoot(err))
			}
		})
	}
}

func TestTLSNeverFallsBackToPlaintext(t *testing.T) {
	t.Parallel()
	cfg := pgtest.Empty(t).Config // of a server without TLS
	cfg.UseSSL, cfg.RejectUnauthorized = true, false
	if err := pg.Ping(bounded(t), open(t, cfg)); err == nil || !strings.Contains(err.Error(), "refused TLS") {
		t.Fatalf("got %v", err)
	}
}

func TestTLSModes(t *testing.T) {
	t.Parallel()
	ca := newAuthority(t, "ours").PEM
	for name, tc := range map[string]struct {
		use, reject bool
		ca          string
		mode        pg.TLSMode
		verified    bool
		warning     string
	}{
		"Plaintext":           {false, true, "", pg.Plaintext, false, ""},
		"PlaintextWithCA":     {false, true, ca, pg.Plaintext, false, "PG_USE_SSL is off"},
		"PublicRoots":         {true, true, "", pg.WebPKIRoots, true, ""},
		"SuppliedCA":          {true, true, ca, pg.SuppliedCA, true, ""},
		"SuppliedCAWins":      {true, false, ca, pg.SuppliedCA, true, "wins over PG_SSL_REJECT_UNAUTHORIZED=false"},
		"AcceptAny":           {true, false, "", pg.AcceptAny, false, "any certificate is accepted"},
		"PlaintextAcceptsAny": {false, false, "", pg.Plaintext, false, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			settings := config.NewPostgres(1)
			settings.UseSSL, settings.SSLRejectUnauthorized, settings.SSLRootCert = config.Bool(tc.use), config.Bool(tc.reject), tc.ca
			cfg := pg.FromSettings(settings)
			if cfg.TLSMode() != tc.mode || cfg.TLSMode().Verified() != tc.verified {
				t.Errorf("mode %v, verified %v", cfg.TLSMode(), cfg.TLSMode().Verified())
			}
			if trust, verified := settings.Trust(); trust != string(tc.mode) || verified != tc.verified {
				t.Errorf("the boot line says %s, verified %v", trust, verified)
			}
			log := &records{}
			pool, err := pg.Open(t.Context(), cfg, pg.Options{Logger: slog.New(log)})
			if err != nil {
				t.Fatal(err)
			}
			pool.Close()
			lines := strings.Join(log.all(), "\n")
			if (lines == "") != (tc.warning == "") || !strings.Contains(lines, tc.warning) {
				t.Errorf("boot logs %q, want a warning with %q", lines, tc.warning)
			}
		})
	}
}

func TestAMalformedRootCertificateEndsTheBoot(t *testing.T) {
	t.Parallel()
	ca := newAuthority(t, "ours")
	_, key := ca.issue(t)
	for name, text := range map[string]string{
		"APath":             "/etc/ssl/ca.pem",
		"Blank":             " ",
		"CutShort":          ca.PEM[:len(ca.PEM)/2],
		"SecondOneCutShort": ca.PEM + ca.PEM[:len(ca.PEM)/2],
		"NotBase64":         strings.Replace(ca.PEM, "M", "!", 1),
		"NotACertificate":   "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n",
		"APrivateKey":       key,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, err := pg.Open(t.Context(), pg.Config{Host: "db", Port: 5432, UseSSL: true, RootCert: text}, pg.Options{})
			if err == nil || !strings.Contains(err.Error(), "PG_SSL_ROOT_CERT") || strings.Contains(err.Error(), "\n") {
				t.Fatalf("got %v", err)
			}
		})
	}
}
