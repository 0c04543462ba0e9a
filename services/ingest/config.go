package main

import (
	"fmt"
	"log/slog"
	"path/filepath"

	"queen.internal/pkg/config"
	"queen.internal/services/ingest/internal/batch"
	"queen.internal/services/ingest/internal/spool"
	"queen.internal/services/ingest/internal/spool/disk"
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
	Spool
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

// Spool is where pushes wait that the database cannot take.
type Spool struct {
	Dir string `envconfig:"FILE_BUFFER_DIR"` // of this machine, not of the network; several processes may share it
	// Milliseconds between two replays of which the first failed.
	PaceMillis config.Int `envconfig:"FILE_BUFFER_FLUSH_MS" floor:"1"`
	// Messages in one transaction of a replay.
	BatchMessages config.Int `envconfig:"FILE_BUFFER_MAX_BATCH" floor:"1"`
	// Records after which a file is ended. A record is the messages of one partition that were to be committed together.
	FileRecords config.Int `envconfig:"FILE_BUFFER_EVENTS_PER_FILE" floor:"1"`
	MaxBytes    config.Int `envconfig:"QUEEN_SPOOL_MAX_BYTES" floor:"0"`      // of all files of this process; 0: as many as there is room for
	MinFree     config.Int `envconfig:"QUEEN_SPOOL_MIN_FREE_BYTES" floor:"0"` // bytes of the disk that are left to others
	// True: a Dir that cannot be used is replaced by a folder among the temporary files. False: it ends the boot.
	AllowFallback config.Bool `envconfig:"QUEEN_SPOOL_ALLOW_FALLBACK"`
	// Milliseconds for which pushes wait behind a record of their partition that cannot be brought to a database that answers;
	// then they go past it. 0: they never do.
	BarrierMax config.Int `envconfig:"QUEEN_SPOOL_BARRIER_MAX_MS" floor:"0"`
}

// fallbackName is the folder among the temporary files.
const fallbackName = "queen-buffers"

// open makes the folder usable for a process of that server id, or another one below temp if that is allowed; then Dir is
// that one. The error names the setting.
func (s *Spool) open(server, temp string, logger *slog.Logger) (*spool.Folder, error) {
	wanted := s.Dir
	folder, err := s.openDir(server, logger)
	if err == nil {
		return folder, nil
	}
	err = fmt.Errorf("FILE_BUFFER_DIR=%q: %w", wanted, err)
	if !s.AllowFallback {
		return nil, err
	}
	s.Dir = filepath.Join(temp, fallbackName)
	folder, fallback := s.openDir(server, logger)
	if fallback == nil {
		fallback = disk.Private(s.Dir)
	}
	if fallback != nil {
		return nil, fmt.Errorf("%w; nor can QUEEN_SPOOL_ALLOW_FALLBACK help: %w", err, fallback)
	}
	logger.Warn("the spool's folder cannot be used, pushes are kept among the temporary files", "dir", s.Dir, "err", err)
	return folder, nil
}

func (s *Spool) openDir(server string, logger *slog.Logger) (*spool.Folder, error) {
	root, err := filepath.Abs(s.Dir)
	if err != nil {
		return nil, err
	}
	s.Dir = root
	return spool.Open(spool.Options{
		FS: disk.OS{}, Root: root, Server: server, Logger: logger,
		MaxBytes: int64(s.MaxBytes), MinFree: int64(s.MinFree), FileBytes: spoolFileBytes, FileRecords: int(s.FileRecords),
	})
}

// spoolFileBytes ends a file that has this size: the unit in which space is given back.
const spoolFileBytes = 8 << 20

// poolSize is ingest's share of the server's connections: the committers, one for what is replayed and looked up, one for
// probes.
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
		Spool: Spool{
			Dir: "/var/lib/queen/buffers", PaceMillis: 100, BatchMessages: 1000, FileRecords: 10_000,
			MaxBytes: 4 << 30, MinFree: 256 << 20,
		},
	}
}

// committers is how many can work: each needs a connection.
func (s *settings) committers() int {
	return int(min(s.Committers, config.Int(s.connections())))
}

// connections are those of the pool, without the one that probes have to themselves.
func (s *settings) connections() int { return int(max(s.PoolSize-1, 1)) }

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
		{Name: "file_buffer", Attrs: []slog.Attr{
			slog.String("dir", s.Dir), slog.Int64("flush_interval_ms", int64(s.PaceMillis)), slog.Int64("max_batch_size", int64(s.BatchMessages)),
			slog.Int64("max_events_per_file", int64(s.FileRecords)), slog.Int64("max_bytes", int64(s.MaxBytes)), slog.Int64("min_free_bytes", int64(s.MinFree)),
			slog.Bool("allow_fallback", bool(s.AllowFallback)), slog.Int64("barrier_max_ms", int64(s.BarrierMax)),
		}},
		{Name: "jobs", Attrs: []slog.Attr{slog.Bool("apply_schema", bool(s.ApplySchema))}},
		s.Encryption.In(s.Tenancy.Block()),
		s.Logging.Block(),
		s.Profiling.Block(),
	}
}
