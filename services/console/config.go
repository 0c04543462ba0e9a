package main

import (
	"log/slog"
	"time"

	"queen.internal/pkg/config"
)

// settings are everything that the environment says to the console.
type settings struct {
	config.HTTP
	config.Postgres
	config.Logging
	config.Profiling
	config.Tenancy
	config.Auth
	config.Encryption
}

// defaultPool is enough for the reads of a page and a probe.
const defaultPool = 6

const (
	// minPool is one connection a lane.
	minPool = 2

	// readTimeout bounds one request's reads and each of their statements, so that a question which costs too much ends
	// before whoever asked has gone, and gives its connection back.
	readTimeout = 10 * time.Second
)

// lanes divides the connections of the process, so that a probe is answered when all others are busy with reads.
type lanes struct{ reads, probes int }

func (s *settings) lanes() lanes {
	return lanes{reads: max(int(s.PoolSize), minPool) - 1, probes: 1}
}

// defaults are the settings of an empty environment.
func defaults() settings {
	return settings{
		HTTP:     config.NewHTTP("console"),
		Postgres: config.NewPostgres(defaultPool),
		Logging:  config.NewLogging(),
		Auth:     config.NewAuth(),
	}
}

// blocks are the lines of the effective settings.
func (s *settings) blocks(version string) []config.Block {
	return []config.Block{
		{Name: "server", Attrs: []slog.Attr{
			slog.String("version", version), slog.String("addr", s.Addr()), slog.Int64("pool", int64(s.PoolSize)),
			slog.Int64("stmt_timeout_ms", int64(s.StmtTimeout)),
		}},
		s.Postgres.Block(),
		s.Auth.Block(),
		s.Encryption.In(s.Tenancy.Block()),
		s.Logging.Block(),
		s.Profiling.Block(),
	}
}
