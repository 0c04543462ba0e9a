package main

import (
	"log/slog"
	"time"

	"queen.internal/pkg/config"
	"queen.internal/services/maintainer/internal/tasks"
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
	ServerID       string      `ignored:"true" chain:"QUEEN_SERVER_ID,HOSTNAME"`
	Interval       config.Int  `envconfig:"RETENTION_INTERVAL" floor:"1"`        // ms from one cycle to the next
	Batch          config.Int  `envconfig:"RETENTION_BATCH_SIZE" floor:"1"`      // rows a step
	Parallelism    config.Int  `envconfig:"RETENTION_PARALLELISM" range:"1..16"` // queues worked at once
	CleanupEnabled config.Bool `envconfig:"QUEEN_PARTITION_CLEANUP_ENABLED"`     // false keeps empty partitions
	CleanupDays    config.Int  `envconfig:"PARTITION_CLEANUP_DAYS" floor:"1"`    // days an empty partition is kept
	MetricsDays    config.Int  `envconfig:"METRICS_RETENTION_DAYS" floor:"1"`    // days of history
	LetterDays     config.Int  `envconfig:"QUEEN_DLQ_RETENTION_DAYS" floor:"0"`  // days a dead letter is kept, 0: for ever
	MarkDays       config.Int  `envconfig:"QUEEN_DELETED_QUEUE_DAYS" floor:"1"`  // days a deleted queue is remembered
}

// NewJobs are the defaults.
func NewJobs() Jobs {
	return Jobs{
		Interval: 5000, Batch: 1000, Parallelism: 1, CleanupEnabled: true, CleanupDays: 30, MetricsDays: 90, MarkDays: 365,
	}
}

const day = 24 * time.Hour

// options is what they mean.
func (j Jobs) options() tasks.Options {
	o := tasks.Options{
		Retention: j.Interval.Millis(), Batch: int(j.Batch), Parallelism: int(j.Parallelism),
		LetterAge: time.Duration(j.LetterDays) * day, HistoryAge: time.Duration(j.MetricsDays) * day, MarkAge: time.Duration(j.MarkDays) * day,
	}
	if j.CleanupEnabled {
		o.IdleAge = time.Duration(j.CleanupDays) * day
	}
	return o
}

// Block is the line of these settings.
func (j Jobs) Block() config.Block {
	return config.Block{Name: "jobs", Attrs: []slog.Attr{
		slog.String("server_id", j.ServerID), slog.Int64("retention_interval_ms", int64(j.Interval)),
		slog.Int64("retention_batch_size", int64(j.Batch)), slog.Int64("retention_parallelism", int64(j.Parallelism)),
		slog.Bool("partition_cleanup", bool(j.CleanupEnabled)), slog.Int64("partition_cleanup_days", int64(j.CleanupDays)),
		slog.Int64("metrics_retention_days", int64(j.MetricsDays)), slog.Int64("dlq_retention_days", int64(j.LetterDays)),
		slog.Int64("deleted_queue_days", int64(j.MarkDays)),
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
		Jobs:     NewJobs(),
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
