package pg

import (
	"context"
	"fmt"
	"log/slog"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
)

// Pool is the driver's pool, under a name that services may use without importing the driver.
type Pool = pgxpool.Pool

const (
	// Connections are renewed, so that a moved address or a grown backend does not stay for ever; the jitter keeps them
	// from ending together.
	maxConnLifetime       = 30 * time.Minute
	maxConnLifetimeJitter = 5 * time.Minute
	maxConnIdleTime       = 5 * time.Minute
	// pingTimeout bounds the check of a connection that was idle for a second, so that a half-open one is replaced
	// while the borrower still has time.
	pingTimeout = 2 * time.Second
)

// Options is what a process adds to the settings.
type Options struct {
	Name   string // application_name of the sessions: the service, and the lane when it has several pools
	Logger *slog.Logger
	// Size overrides Config.PoolSize when it is positive, for a process that splits its connections into lanes.
	Size int
	// Lineage is shared by the pools of a process; nil: the pool has its own.
	Lineage *Lineage
}

// Open makes a pool that connects when it is used; it does not touch the network and succeeds while the database is
// down. The error is about the settings and names one. The caller closes the pool, which waits for borrowed connections.
func Open(ctx context.Context, cfg Config, opts Options) (*Pool, error) {
	logger := opts.Logger
	if logger == nil {
		logger = slog.New(slog.DiscardHandler)
	}
	conf, err := poolConfig(cfg, opts, logger)
	if err != nil {
		return nil, err
	}
	for _, line := range cfg.Warnings() {
		logger.WarnContext(ctx, line)
	}
	pool, err := pgxpool.NewWithConfig(ctx, conf)
	if err != nil {
		return nil, fmt.Errorf("open pool for %s: %w", cfg, err)
	}
	return pool, nil
}

func poolConfig(cfg Config, opts Options, logger *slog.Logger) (*pgxpool.Config, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	cfg = cfg.withDefaults()
	if opts.Size > 0 {
		cfg.PoolSize = opts.Size
	}
	s := &sessions{settings: settingsSQL(cfg), timeout: cfg.ConnectTimeout, lineage: opts.Lineage, logger: logger}
	if s.lineage == nil {
		s.lineage = NewLineage(nil)
	}
	s.lineage.join(&s.generation)
	// The driver insists on parsing a text, and fills what the text does not name from PG* variables and files of the
	// user. So the text names what could open a file, and everything else is set below.
	conf, err := pgxpool.ParseConfig("host=localhost port=5432 user=x password=x dbname=x sslmode=disable")
	if err != nil {
		return nil, fmt.Errorf("prepare the driver's configuration: %w", err)
	}
	if err := connConfig(conf.ConnConfig, cfg, opts.Name, s); err != nil {
		return nil, err
	}
	conf.AfterConnect, conf.PrepareConn = s.afterConnect, s.prepare
	conf.MaxConns, conf.MinConns, conf.MinIdleConns = int32(cfg.PoolSize), 0, 0
	conf.MaxConnLifetime, conf.MaxConnLifetimeJitter, conf.MaxConnIdleTime = maxConnLifetime, maxConnLifetimeJitter, maxConnIdleTime
	conf.PingTimeout = pingTimeout
	return conf, nil
}

func connConfig(conn *pgx.ConnConfig, cfg Config, name string, s *sessions) error {
	tlsConf, err := cfg.tlsConfig()
	if err != nil {
		return err
	}
	conn.Host, conn.Port = cfg.Host, uint16(cfg.Port)
	conn.User, conn.Password, conn.Database = cfg.User, cfg.Password, cfg.Database
	conn.TLSConfig, conn.Fallbacks, conn.SSLNegotiation, conn.SSLCertMode = tlsConf, nil, "postgres", "disable"
	conn.ChannelBinding, conn.RequireAuth = "prefer", ""
	conn.MinProtocolVersion, conn.MaxProtocolVersion = "3.0", "3.0"
	conn.ConnectTimeout = cfg.ConnectTimeout
	conn.DialFunc = dialer()
	conn.ValidateConnect, conn.OnPgError = s.validate, s.onError
	// A pooler accepts these two as start-up parameters, and the server's log shows the first from the first line on.
	conn.RuntimeParams = map[string]string{"application_name": name, "timezone": "UTC"}
	conn.DefaultQueryExecMode = pgx.QueryExecModeCacheStatement
	conn.Tracer = deadline{limit: cfg.StatementTimeout + deadlineGrace}
	return nil
}
