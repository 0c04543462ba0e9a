package mesh

import (
	"context"
	"crypto/ed25519"
	"crypto/tls"
	"errors"
	"fmt"
	"net/url"
	"os"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nkeys"

	"queen.internal/pkg/config"
)

// ClientKey is the public key under which processes with these settings come to an existing NATS, "U..."; empty when they
// come with other credentials. Its operator allows it to publish to and subscribe "queen.<cluster>.>".
func ClientKey(s config.Mesh) (string, error) {
	key, err := clientKey(&s)
	if err != nil || key == nil {
		return "", err
	}
	return key.PublicKey()
}

// clientKey is nil when there is none to sign with.
func clientKey(s *config.Mesh) (nkeys.KeyPair, error) {
	text, err := credentials(s)
	switch {
	case err != nil:
		return nil, err
	case strings.HasPrefix(text, "SU"):
		key, err := nkeys.FromSeed([]byte(text))
		if err != nil {
			return nil, fmt.Errorf("QUEEN_MESH_CREDENTIALS holds no nkey seed: %w", err)
		}
		return key, nil
	case text != "" || s.SyncSecret == "" || namesUser(s):
		return nil, nil
	}
	seed, err := derive(s, "client", ed25519.SeedSize)
	if err != nil {
		return nil, err
	}
	key, err := nkeys.FromRawSeed(nkeys.PrefixByteUser, seed)
	if err != nil {
		return nil, fmt.Errorf("derive the client's key: %w", err)
	}
	return key, nil
}

func namesUser(s *config.Mesh) bool {
	for _, server := range s.Servers() {
		if u, err := url.Parse(server); err == nil && u.User != nil {
			return true
		}
	}
	return false
}

// credentials are the value itself, or what is in the file that it names.
func credentials(s *config.Mesh) (string, error) {
	value := strings.TrimSpace(s.Credentials.Reveal())
	if value == "" || strings.HasPrefix(value, "SU") || strings.Contains(value, "-----BEGIN") {
		return strings.ReplaceAll(value, `\n`, "\n"), nil
	}
	text, err := os.ReadFile(value)
	if err != nil {
		return "", errors.New("QUEEN_MESH_CREDENTIALS is no nkey seed, no credentials text, and no file that can be read")
	}
	return strings.TrimSpace(string(text)), nil
}

// identity is how a process proves itself to an existing NATS.
func identity(s *config.Mesh) (auth string, options []nats.Option, err error) {
	key, err := clientKey(s)
	if err != nil {
		return "", nil, err
	}
	if key != nil {
		public, err := key.PublicKey()
		if err != nil {
			return "", nil, fmt.Errorf("the client's key: %w", err)
		}
		return "nkey", []nats.Option{nats.Nkey(public, key.Sign)}, nil
	}
	text, err := credentials(s)
	switch {
	case err != nil:
		return "", nil, err
	case text != "":
		return "credentials", []nats.Option{nats.UserCredentialBytes([]byte(text))}, nil
	case namesUser(s):
		return "password", nil, nil
	case s.TLSCert != "":
		return "certificates", nil, nil
	default:
		return "off", nil, nil
	}
}

// clientTLS is nil unless the settings ask for more than the scheme of the address does.
func clientTLS(s *config.Mesh) (*tls.Config, error) {
	if s.TLSCA == "" && s.TLSCert == "" {
		return nil, nil
	}
	c := &tls.Config{MinVersion: tls.VersionTLS12}
	if s.TLSCA != "" {
		roots, err := operatorRoots(s)
		if err != nil {
			return nil, err
		}
		c.RootCAs = roots
	}
	if s.TLSCert != "" {
		certificate, err := operatorCertificate(s)
		if err != nil {
			return nil, err
		}
		c.Certificates = []tls.Certificate{certificate}
	}
	return c, nil
}

// external is what openExternal needs, made once.
type external struct {
	auth    string
	options []nats.Option
	tls     *tls.Config
}

func newExternal(s *config.Mesh) (external, error) {
	auth, options, err := identity(s)
	if err != nil {
		return external{}, err
	}
	secure, err := clientTLS(s)
	if err != nil {
		return external{}, err
	}
	if secure != nil {
		options = append(options, nats.Secure(secure))
	}
	return external{auth: auth, options: options, tls: secure}, nil
}

const (
	dialTimeout = 2 * time.Second
	// writeTimeout is how long a server may take nothing although the system's buffers are full. Whoever publishes then
	// waits, and a stop with them, so such a connection is given up.
	writeTimeout = 2 * time.Second
)

// openExternal takes part through an existing NATS until ctx ends.
func (m *Mesh) openExternal(ctx context.Context) (served bool, err error) {
	servers := m.o.Settings.Servers()
	started := false
	options := append([]nats.Option{
		nats.RetryOnFailedConnect(true), nats.MaxReconnects(-1), nats.IgnoreAuthErrorAbort(), nats.Timeout(dialTimeout), nats.FlusherTimeout(writeTimeout),
		nats.CustomReconnectDelay(reopening.Next),
		nats.ReconnectErrHandler(func(_ *nats.Conn, err error) { m.connectFailed(err) }),
	}, m.external.options...)
	l, err := m.connect(strings.Join(servers, ","), func() {
		if !started {
			started = true
			m.logger.Info("started", "server_id", m.id, "port", m.port(), "peers", len(servers), "auth", m.external.auth)
		}
	}, options...)
	if err != nil {
		return false, err
	}
	defer l.close()
	return true, m.session(ctx, l)
}

// connectFailed is told of each attempt.
func (m *Mesh) connectFailed(err error) {
	if errors.Is(err, nats.ErrAuthorization) || errors.Is(err, nats.ErrAuthExpired) {
		m.counters.refused.Add(1)
	}
	if suppressed, ok := m.failures.Allow(time.Now()); ok {
		m.logger.Warn("connection failed, continuing with local waker only", "err", err, "suppressed", suppressed)
	}
}
