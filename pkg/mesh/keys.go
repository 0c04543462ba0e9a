package mesh

import (
	"crypto/ed25519"
	"crypto/hkdf"
	"crypto/rand"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/hex"
	"errors"
	"fmt"
	"math/big"
	"os"
	"strings"
	"time"

	"queen.internal/pkg/config"
)

// derive is n bytes that follow from the secret, the cluster's name and a label. Nobody without the secret can tell them
// from chance, and none of them tells anything of another.
func derive(s *config.Mesh, label string, n int) ([]byte, error) {
	key, err := hkdf.Key(sha256.New, []byte(s.SyncSecret.Reveal()), []byte("queen mesh 1"), s.Cluster+"/"+label, n)
	if err != nil {
		return nil, fmt.Errorf("derive the %s key: %w", label, err)
	}
	return key, nil
}

// The life of derived certificates: processes whose clocks are wrong must find each other as well.
var (
	notBefore = time.Date(2020, 1, 1, 0, 0, 0, 0, time.UTC)
	notAfter  = time.Date(9999, 12, 31, 23, 59, 59, 0, time.UTC)
)

// derivedAuthority is the private certificate authority of everybody who has the secret: same key, same certificate.
func derivedAuthority(s *config.Mesh) (*x509.Certificate, ed25519.PrivateKey, error) {
	seed, err := derive(s, "authority", ed25519.SeedSize)
	if err != nil {
		return nil, nil, err
	}
	key := ed25519.NewKeyFromSeed(seed)
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "queen mesh " + s.Cluster},
		NotBefore: notBefore, NotAfter: notAfter, IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		return nil, nil, fmt.Errorf("make the authority: %w", err)
	}
	authority, err := x509.ParseCertificate(der)
	return authority, key, err
}

// derivedTLS is a certificate that the derived authority signs, with a key of this boot alone.
func derivedTLS(s *config.Mesh) (*tls.Config, error) {
	authority, signer, err := derivedAuthority(s)
	if err != nil {
		return nil, err
	}
	public, private, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		return nil, fmt.Errorf("make the node's key: %w", err)
	}
	serial, err := rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 120))
	if err != nil {
		return nil, fmt.Errorf("make a serial number: %w", err)
	}
	leaf := &x509.Certificate{
		SerialNumber: serial, Subject: pkix.Name{CommonName: "queen node"}, NotBefore: notBefore, NotAfter: notAfter,
		KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
	}
	der, err := x509.CreateCertificate(rand.Reader, leaf, authority, public, signer)
	if err != nil {
		return nil, fmt.Errorf("sign the node's certificate: %w", err)
	}
	roots := x509.NewCertPool()
	roots.AddCert(authority)
	return mutualTLS(tls.Certificate{Certificate: [][]byte{der}, PrivateKey: private}, roots), nil
}

// operatorTLS is the certificate that the operator gave.
func operatorTLS(s *config.Mesh) (*tls.Config, error) {
	certificate, err := operatorCertificate(s)
	if err != nil {
		return nil, err
	}
	roots, err := operatorRoots(s)
	if err != nil {
		return nil, err
	}
	return mutualTLS(certificate, roots), nil
}

func operatorCertificate(s *config.Mesh) (tls.Certificate, error) {
	cert, err := pemText("QUEEN_MESH_TLS_CERT", s.TLSCert)
	if err != nil {
		return tls.Certificate{}, err
	}
	key, err := pemText("QUEEN_MESH_TLS_KEY", s.TLSKey.Reveal())
	if err != nil {
		return tls.Certificate{}, err
	}
	pair, err := tls.X509KeyPair(cert, key)
	if err != nil {
		return tls.Certificate{}, fmt.Errorf("QUEEN_MESH_TLS_CERT and QUEEN_MESH_TLS_KEY: %w", err)
	}
	return pair, nil
}

func operatorRoots(s *config.Mesh) (*x509.CertPool, error) {
	text, err := pemText("QUEEN_MESH_TLS_CA", s.TLSCA)
	if err != nil {
		return nil, err
	}
	roots := x509.NewCertPool()
	if !roots.AppendCertsFromPEM(text) {
		return nil, errors.New("QUEEN_MESH_TLS_CA holds no certificate")
	}
	return roots, nil
}

// pemText is the value itself, where \n may stand for a line end, or what is in the file that it names.
func pemText(name, value string) ([]byte, error) {
	if strings.Contains(value, "-----BEGIN") {
		return []byte(strings.ReplaceAll(value, `\n`, "\n")), nil
	}
	text, err := os.ReadFile(value)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	return text, nil
}

var errNoCertificate = errors.New("the peer shows no certificate")

// mutualTLS lets both sides prove that roots signed for them. Names are not compared: nodes find each other by whatever
// address gossip tells, and everybody whom this authority signs for is a node.
func mutualTLS(certificate tls.Certificate, roots *x509.CertPool) *tls.Config {
	return &tls.Config{
		MinVersion:             tls.VersionTLS13,
		Certificates:           []tls.Certificate{certificate},
		ClientAuth:             tls.RequireAnyClientCert,
		InsecureSkipVerify:     true, // replaced by VerifyConnection, which runs on both sides and on every handshake
		SessionTicketsDisabled: true,
		VerifyConnection: func(state tls.ConnectionState) error {
			if len(state.PeerCertificates) == 0 {
				return errNoCertificate
			}
			between := x509.NewCertPool()
			for _, c := range state.PeerCertificates[1:] {
				between.AddCert(c)
			}
			_, err := state.PeerCertificates[0].Verify(x509.VerifyOptions{
				Roots: roots, Intermediates: between, KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageAny},
			})
			return err
		},
	}
}

// routePassword is a second proof on routes whose certificates are the operator's: it never leaves the encrypted stream.
func routePassword(s *config.Mesh) (string, error) {
	key, err := derive(s, "route", 32)
	return hex.EncodeToString(key), err
}
