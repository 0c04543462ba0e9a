package config

import (
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/netip"
	"strconv"
	"strings"
)

// defaultPorts are the native ports; inside a container everything listens on 6632.
var defaultPorts = map[string]Int{
	"ingest": 6641, "deliver": 6642, "maintainer": 6643, "console": 6644, "gateway": 6632,
}

// HTTP is a service's listener.
type HTTP struct {
	Port            Int    `envconfig:"PORT" range:"0..65535"`               // 0 picks a free port
	BindAddr        string `envconfig:"QUEEN_BIND_ADDR"`                     // host or address, no port; empty means every address
	MaxBodyBytes    Int    `envconfig:"QUEEN_MAX_BODY_BYTES" floor:"1"`      // larger requests answer 413
	DrainDelay      Int    `envconfig:"QUEEN_DRAIN_DELAY_MS" floor:"0"`      // ms of serving on after readiness went off
	ShutdownTimeout Int    `envconfig:"QUEEN_SHUTDOWN_TIMEOUT_MS" floor:"0"` // ms for requests in flight after that
}

// NewHTTP is the default listener of a service: its native port on every address.
func NewHTTP(service string) HTTP {
	return HTTP{
		Port: defaultPorts[service], BindAddr: "0.0.0.0", MaxBodyBytes: 64 << 20, DrainDelay: 1000, ShutdownTimeout: 10_000,
	}
}

// Addr is the address to listen on.
func (h HTTP) Addr() string {
	return net.JoinHostPort(strings.Trim(h.BindAddr, "[]"), strconv.FormatInt(int64(h.Port), 10))
}

// Validate refuses a bind address that carries a port: PORT would silently lose against it or it against PORT.
func (h HTTP) Validate() error {
	bare := strings.Trim(h.BindAddr, "[]")
	if _, err := netip.ParseAddr(bare); err == nil {
		return nil
	}
	if strings.Contains(bare, ":") {
		return fmt.Errorf("QUEEN_BIND_ADDR=%s carries a port (set PORT instead)", quote(h.BindAddr))
	}
	return nil
}

// Postgres is where the queue lives and how much of it one process may use.
type Postgres struct {
	Host                  string `envconfig:"PG_HOST"`
	Port                  Int    `envconfig:"PG_PORT" range:"1..65535"`
	User                  string `envconfig:"PG_USER"`
	Password              Secret `envconfig:"PG_PASSWORD"`
	Database              string `ignored:"true" chain:"PG_DATABASE,PG_DB"`
	UseSSL                Bool   `envconfig:"PG_USE_SSL"`                 // TLS or nothing, never opportunistic
	SSLRejectUnauthorized Bool   `envconfig:"PG_SSL_REJECT_UNAUTHORIZED"` // verify chain and host name
	SSLRootCert           string `envconfig:"PG_SSL_ROOT_CERT"`           // PEM text, not a path; replaces the public roots
	PoolSize              Int    `envconfig:"DB_POOL_SIZE" floor:"1"`     // connections of this process
	StmtTimeout           Int    `envconfig:"QUEEN_STMT_TIMEOUT_MS" floor:"1"`
	ApplySchema           Bool   `envconfig:"QUEEN_APPLY_SCHEMA"` // false: check the schema, touch no catalog
}

// NewPostgres is the default database with a pool of that many connections.
func NewPostgres(poolSize int) Postgres {
	return Postgres{
		Host: "localhost", Port: 5432, User: "postgres", Password: "postgres", Database: "postgres",
		SSLRejectUnauthorized: true, PoolSize: Int(poolSize), StmtTimeout: 30_000, ApplySchema: true,
	}
}

// Trust names how the server is authenticated: plaintext, accept-any, supplied-ca or webpki-roots. verified is true for
// the last two.
func (p Postgres) Trust() (name string, verified bool) {
	switch {
	case !bool(p.UseSSL):
		return "plaintext", false
	case p.SSLRootCert != "":
		return "supplied-ca", true
	case !bool(p.SSLRejectUnauthorized):
		return "accept-any", false
	default:
		return "webpki-roots", true
	}
}

// Block is the postgres line of the effective settings.
func (p Postgres) Block() Block {
	trust, verified := p.Trust()
	return Block{"postgres", []slog.Attr{
		slog.String("host", p.Host), slog.Int64("port", int64(p.Port)), slog.String("user", p.User),
		slog.Any("password", p.Password), slog.String("database", p.Database), slog.Bool("use_ssl", bool(p.UseSSL)),
		slog.Bool("ssl_reject_unauthorized", bool(p.SSLRejectUnauthorized)),
		slog.String("ssl_trust", trust), slog.Bool("ssl_verified", verified),
	}}
}

// Logging is what is logged and in which shape.
type Logging struct {
	Level string `ignored:"true" chain:"RUST_LOG,LOG_LEVEL"` // `info,target=debug`
	JSON  Bool   `envconfig:"QUEEN_LOG_JSON"`
}

// NewLogging is the default: lines of text from INFO on.
func NewLogging() Logging { return Logging{Level: "info"} }

// Block is the logging line of the effective settings.
func (l Logging) Block() Block {
	return Block{"logging", []slog.Attr{slog.String("level", l.Level), slog.Bool("json", bool(l.JSON))}}
}

// Tenancy says whether a trusted front door names the tenant of each request.
type Tenancy struct {
	Header       Bool `envconfig:"QUEEN_TENANCY_HEADER"`
	TrustedProxy Bool `envconfig:"QUEEN_KV_TRUSTED_PROXY"`
}

// Validate refuses a tenancy header that anybody could send.
func (t Tenancy) Validate() error {
	if bool(t.Header) && !bool(t.TrustedProxy) {
		return errors.New(`QUEEN_TENANCY_HEADER="true" needs QUEEN_KV_TRUSTED_PROXY="true": ` +
			`only a front door that sets x-queen-tenant itself may reach this service`)
	}
	return nil
}

// Block is the security line of the effective settings.
func (t Tenancy) Block() Block {
	return Block{"security", []slog.Attr{slog.Bool("tenancy_header", bool(t.Header))}}
}
