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
	Jobs
}

// Jobs are the settings of what the maintainer does from time to time.
type Jobs struct {
	ServerID       string     `ignored:"true" chain:"QUEEN_SERVER_ID,HOSTNAME"`
	RetentionBatch config.Int `envconfig:"RETENTION_BATCH_SIZE" floor:"1"` // rows a step
}

// Block is the line of these settings.
func (j Jobs) Block() config.Block {
	return config.Block{Name: "jobs", Attrs: []slog.Attr{
		slog.String("server_id", j.ServerID), slog.Int64("retention_batch_size", int64(j.RetentionBatch)),
	}}
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
		Jobs:     Jobs{RetentionBatch: 1000},
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
		s.Jobs.Block(),
		s.Logging.Block(),
		s.Profiling.Block(),
	}
}
