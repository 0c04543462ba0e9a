package main

import (
	"log/slog"

	"queen.internal/pkg/config"
	"queen.internal/services/ingest/internal/batch"
)

// settings is everything ingest reads from its environment.
type settings struct {
	config.HTTP
	config.Postgres
	config.Logging
	config.Profiling
	config.Tenancy
	config.Auth
	config.Mesh
	config.Encryption
	Push
}

// Push bounds the way of a message from the request to the commit.
type Push struct {
	// Flushes under way at a time. Few are faster than many: their batches are larger, and they share the commit log
	// instead of fighting for it. Never more than the pool has connections.
	Committers config.Int `envconfig:"QUEEN_PUSH_COMMITTERS" floor:"1"`
	// Bytes of pushes that were accepted and not yet answered, as they lie in memory. Beyond it: 503 with Retry-After.
	QueuedBytes config.Int `envconfig:"QUEEN_PUSH_QUEUED_BYTES" floor:"1"`
	// False: nothing is remembered of what was pushed; each push is compared with the whole window in PostgreSQL.
	DedupCache config.Bool `envconfig:"QUEEN_DEDUP_CACHE"`
}

// poolSize is ingest's share of the server's connections: the committers, and two for probes and schema.
const poolSize = 6

func defaults() settings {
	bounds := batch.Defaults()
	return settings{
		HTTP:     config.NewHTTP("ingest"),
		Postgres: config.NewPostgres(poolSize),
		Logging:  config.NewLogging(),
		Auth:     config.NewAuth(),
		Mesh:     config.NewMesh(),
		Push: Push{
			Committers:  config.Int(bounds.Committers),
			QueuedBytes: config.Int(bounds.QueuedBytes),
			DedupCache:  true,
		},
	}
}

// committers is how many can work: each needs a connection.
func (s *settings) committers() int {
	return int(min(s.Committers, s.PoolSize))
}

// bounds are the settings as the coalescer takes them.
func (s *settings) bounds() batch.Options {
	o := batch.Defaults()
	o.Committers = s.committers()
	o.QueuedBytes = int64(s.QueuedBytes)
	return o
}

// blocks are the lines of the effective settings, with the values in force.
func (s *settings) blocks(version string) []config.Block {
	return []config.Block{
		{Name: "server", Attrs: []slog.Attr{
			slog.String("version", version), slog.String("addr", s.Addr()), slog.Int64("pool", int64(s.PoolSize)),
			slog.Int64("stmt_timeout_ms", int64(s.StmtTimeout)), slog.Int64("max_body_bytes", int64(s.MaxBodyBytes)),
			slog.Int64("drain_delay_ms", int64(s.DrainDelay)),
		}},
		s.Postgres.Block(),
		s.Auth.Block(),
		s.Mesh.Block(),
		{Name: "engine", Attrs: []slog.Attr{
			slog.Int("push_committers", s.committers()), slog.Int64("push_queued_bytes", int64(s.QueuedBytes)),
			slog.Bool("dedup_cache", bool(s.DedupCache)),
		}},
		{Name: "jobs", Attrs: []slog.Attr{slog.Bool("apply_schema", bool(s.ApplySchema))}},
		s.Encryption.In(s.Tenancy.Block()),
		s.Logging.Block(),
		s.Profiling.Block(),
	}
}
