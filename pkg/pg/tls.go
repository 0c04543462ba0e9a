package pg

import (
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"strings"
)

// TLSMode is how far a connection is protected; its text is the value of ssl_trust in the boot line.
type TLSMode string

// The modes. There is none that falls back to plaintext.
const (
	Plaintext   TLSMode = "plaintext"    // no TLS
	WebPKIRoots TLSMode = "webpki-roots" // chain and host name checked against the system's public roots
	SuppliedCA  TLSMode = "supplied-ca"  // chain and host name checked against PG_SSL_ROOT_CERT
	AcceptAny   TLSMode = "accept-any"   // encrypted, the server not authenticated
)

// Verified is the value of ssl_verified in the boot line: whether the server proves who it is.
func (m TLSMode) Verified() bool { return m == WebPKIRoots || m == SuppliedCA }

// TLSMode is the mode that the settings ask for. A supplied CA wins over RejectUnauthorized=false.
func (c Config) TLSMode() TLSMode {
	switch {
	case !c.UseSSL:
		return Plaintext
	case c.RootCert != "":
		return SuppliedCA
	case c.RejectUnauthorized:
		return WebPKIRoots
	default:
		return AcceptAny
	}
}

// Warnings are the lines an operator should read at every boot about the TLS settings.
func (c Config) Warnings() []string {
	var lines []string
	switch {
	case c.TLSMode() == AcceptAny:
		lines = append(lines, "PG_SSL_REJECT_UNAUTHORIZED is off: any certificate is accepted, the database server is not authenticated; set PG_SSL_ROOT_CERT instead")
	case c.TLSMode() == SuppliedCA && !c.RejectUnauthorized:
		lines = append(lines, "PG_SSL_ROOT_CERT is set and wins over PG_SSL_REJECT_UNAUTHORIZED=false: the database server is authenticated")
	case c.TLSMode() == Plaintext && c.RootCert != "":
		lines = append(lines, "PG_SSL_ROOT_CERT is set but PG_USE_SSL is off: connections to the database are plaintext")
	}
	return lines
}

// tlsConfig is nil for plaintext.
func (c Config) tlsConfig() (*tls.Config, error) {
	conf := &tls.Config{ServerName: c.Host, MinVersion: tls.VersionTLS12}
	switch c.TLSMode() {
	case Plaintext:
		return nil, nil
	case AcceptAny:
		conf.InsecureSkipVerify = true
	case SuppliedCA:
		roots, err := parseRoots(c.RootCert)
		if err != nil {
			return nil, err
		}
		conf.RootCAs = roots
	case WebPKIRoots: // a nil pool is the system's
	}
	return conf, nil
}

// parseRoots reads one or more certificates. It is stricter than x509's own reader of bundles, which skips what it
// cannot read: a bundle of which a part is lost would refuse the server much later and without a reason.
func parseRoots(text string) (*x509.CertPool, error) {
	rest := []byte(strings.ReplaceAll(text, `\n`, "\n"))
	blocks := strings.Count(string(rest), "-----BEGIN ")
	roots := x509.NewCertPool()
	for n := 1; n <= blocks; n++ {
		var block *pem.Block
		block, rest = pem.Decode(rest)
		if block == nil {
			return nil, fmt.Errorf("PG_SSL_ROOT_CERT is malformed: PEM block %d of %d does not end or is not base64", n, blocks)
		}
		if block.Type != "CERTIFICATE" {
			return nil, fmt.Errorf("PG_SSL_ROOT_CERT holds a %s where certificates are expected", block.Type)
		}
		cert, err := x509.ParseCertificate(block.Bytes)
		if err != nil {
			return nil, fmt.Errorf("PG_SSL_ROOT_CERT is malformed: certificate %d: %w", n, err)
		}
		roots.AddCert(cert)
	}
	if blocks == 0 {
		return nil, fmt.Errorf("PG_SSL_ROOT_CERT holds no PEM certificate (it takes the text of the certificate, not a path)")
	}
	return roots, nil
}
