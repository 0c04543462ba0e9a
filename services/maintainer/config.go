package main

import (
	"log/slog"

	"queen.internal/pkg/config"
)

// settings are everything that the environment says to the maintainer.
type settings struct {
	config.HTTP
	config.Postgres
	config.Logging
	config.Profiling
	config.Auth
}

// defaultPool is enough for one task at work, its fence and a probe.
const defaultPool = 4

// defaults are the settings of an empty environment.
func defaults() settings {
	return settings{
		HTTP:     config.NewHTTP("maintainer"),
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
		s.Logging.Block(),
		s.Profiling.Block(),
	}
}
