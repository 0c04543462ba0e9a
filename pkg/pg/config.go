package pg

import (
	"fmt"
	"log/slog"
	"strings"
	"time"

	"queen.internal/pkg/config"
)

// Defaults of what no environment variable sets.
const (
	// DefaultConnectTimeout bounds one attempt at one address, from the first packet to a validated session.
	DefaultConnectTimeout = 2 * time.Second
	// DefaultLockTimeout ends a statement that waits for a row or table lock. It is well below the deadline of an
	// append, so that the blocked partitions can leave the flush and the others still make it.
	DefaultLockTimeout = 2 * time.Second
	// DefaultIdleInTransactionTimeout ends the session of a process that froze between two statements of a transaction
	// and holds everyone's locks meanwhile.
	DefaultIdleInTransactionTimeout = 10 * time.Second
	// DefaultStatementTimeout is the contract's default of QUEEN_STMT_TIMEOUT_MS.
	DefaultStatementTimeout = 30 * time.Second
)

// Config is where the database is and how to talk to it. Zero durations and a zero PoolSize take their defaults.
type Config struct {
	Host     string // name, address, or the absolute path of a folder with a unix socket
	Port     int    // 1 to 65535
	User     string
	Password string
	Database string

	UseSSL             bool   // false: no TLS at all; true: TLS or no connection
	RejectUnauthorized bool   // false accepts any certificate, unless RootCert is set
	RootCert           string // PEM text, not a path; `\n` stands for a line end too. Replaces the public roots

	PoolSize         int           // most connections of one pool; at least 1
	StatementTimeout time.Duration // longest run of one statement, enforced by the server and by the client
	LockTimeout      time.Duration // longest wait for one lock
	// IdleInTransactionTimeout is how long a session may sit in an open transaction without a statement.
	IdleInTransactionTimeout time.Duration
	ConnectTimeout           time.Duration
}

// FromSettings takes over what the environment said.
func FromSettings(p config.Postgres) Config {
	return Config{
		Host: p.Host, Port: int(p.Port), User: p.User, Password: string(p.Password), Database: p.Database,
		UseSSL: bool(p.UseSSL), RejectUnauthorized: bool(p.SSLRejectUnauthorized), RootCert: p.SSLRootCert,
		PoolSize: int(p.PoolSize), StatementTimeout: time.Duration(p.StmtTimeout) * time.Millisecond,
	}
}

// String leaves the password out, so that a Config can be printed.
func (c Config) String() string {
	return fmt.Sprintf("%s@%s:%d/%s (%s)", c.User, c.Host, c.Port, c.Database, c.TLSMode())
}

// LogValue logs what String prints.
func (c Config) LogValue() slog.Value { return slog.StringValue(c.String()) }

// Validate returns an error that names the setting when the configuration cannot work.
func (c Config) Validate() error {
	if c.Host == "" {
		return fmt.Errorf("PG_HOST is empty")
	}
	if c.Port < 1 || c.Port > 65535 {
		return fmt.Errorf("PG_PORT=%d is not a port (expected 1 to 65535)", c.Port)
	}
	if c.UseSSL && c.isSocket() {
		return fmt.Errorf("PG_USE_SSL is on, but PG_HOST=%q is a unix socket, which has no TLS", c.Host)
	}
	if c.RootCert != "" {
		if _, err := parseRoots(c.RootCert); err != nil {
			return err
		}
	}
	return nil
}

func (c Config) isSocket() bool { return strings.HasPrefix(c.Host, "/") }

func (c Config) withDefaults() Config {
	c.PoolSize = max(c.PoolSize, 1)
	c.StatementTimeout = positive(c.StatementTimeout, DefaultStatementTimeout)
	c.LockTimeout = positive(c.LockTimeout, DefaultLockTimeout)
	c.IdleInTransactionTimeout = positive(c.IdleInTransactionTimeout, DefaultIdleInTransactionTimeout)
	c.ConnectTimeout = positive(c.ConnectTimeout, DefaultConnectTimeout)
	return c
}

func positive(d, fallback time.Duration) time.Duration {
	if d <= 0 {
		return fallback
	}
	return d
}
