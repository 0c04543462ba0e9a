package main

import (
	"errors"
	"log/slog"
	"strconv"
	"strings"
	"time"

	"queen.internal/pkg/appendlog"
	"queen.internal/pkg/config"
	"queen.internal/pkg/store/log"
	"queen.internal/pkg/wire"
	"queen.internal/services/deliver/internal/wait"
)

// settings are everything that the environment says to deliver.
type settings struct {
	config.HTTP
	config.Postgres
	config.Logging
	config.Profiling
	config.Tenancy
	config.Auth
	config.Mesh
	config.Encryption

	// OldTimeout and Timeout are how long a long poll waits that does not say, in ms; the older name wins when it is set.
	OldTimeout config.Int `envconfig:"DEFAULT_TIMEOUT"`
	Timeout    config.Int `envconfig:"POP_DEFAULT_TIMEOUT_MS" floor:"1"`
	// Mode is where a group begins whose first pop does not say: new, new-only, new_only or newonly in any case mean
	// after what is there, everything else means at the start.
	Mode string `envconfig:"DEFAULT_SUBSCRIPTION_MODE"`

	// The backstop: how often the work of parked polls is looked for that nobody announced.
	WaitInitial    config.Int `envconfig:"POP_WAIT_INITIAL_INTERVAL_MS" floor:"1"`   // ms before the first looks
	WaitThreshold  config.Int `envconfig:"POP_WAIT_BACKOFF_THRESHOLD" floor:"0"`     // looks at that pace
	WaitMultiplier factor     `envconfig:"POP_WAIT_BACKOFF_MULTIPLIER"`              // of each later pause
	WaitMax        config.Int `envconfig:"POP_WAIT_MAX_INTERVAL_MS" floor:"1"`       // ms, the longest pause
	MaxWaiters     config.Int `envconfig:"QUEEN_POP_MAX_WAITERS" floor:"0"`          // long polls parked at once; more answer 503
	RingLimit      config.Int `envconfig:"QUEEN_HOTLIST_RING_LIMIT" floor:"1"`       // partitions remembered per group and queue
	SegmentCache   config.Int `envconfig:"QUEEN_SEGMENT_CACHE_BYTES" floor:"0"`      // of recent segments, decoded; 0 keeps none
	RingIdle       config.Int `envconfig:"QUEEN_HOTLIST_IDLE_SWEEP_MS" floor:"1000"` // ms until an unused ring is dropped
	// What is remembered can be left out of account: everything is then looked up in PostgreSQL, with the same outcome.
	Hotlist    config.Bool `envconfig:"QUEEN_HOTLIST"`      // false: each pop of a queue searches all its partitions
	Registry   config.Bool `envconfig:"QUEEN_ACK_REGISTRY"` // false: the cursors of a lease are searched for
	DedupCache config.Bool `envconfig:"QUEEN_DEDUP_CACHE"`  // false: a transaction's pushes are compared with the whole window
	// ms between two pages of 5000 partitions of the walk that looks at everything some day; 0: nothing walks.
	Sweep config.Int `envconfig:"QUEEN_HOTLIST_SWEEP_MS" floor:"0"`
}

// defaults are the settings of an empty environment.
func defaults() settings {
	return settings{
		HTTP:     config.NewHTTP("deliver"),
		Postgres: config.NewPostgres(14),
		Logging:  config.NewLogging(),
		Auth:     config.NewAuth(),
		Mesh:     config.NewMesh(),

		Timeout:        30_000,
		Mode:           wire.ModeNew,
		WaitInitial:    100,
		WaitThreshold:  3,
		WaitMultiplier: 2,
		WaitMax:        1000,
		MaxWaiters:     20_000,
		RingLimit:      32_000,
		RingIdle:       300_000,
		Sweep:          5000,
		Hotlist:        true,
		Registry:       true,
		DedupCache:     true,
		SegmentCache:   64 << 20,
	}
}

// popDefaults is what pops get that are silent.
func (s *settings) popDefaults() wire.PopDefaults {
	d := wire.PopDefaults{Timeout: s.Timeout.Millis(), Mode: wire.ModeAll}
	if s.OldTimeout != 0 {
		d.Timeout = max(s.OldTimeout, 1).Millis()
	}
	switch strings.ToLower(strings.TrimSpace(s.Mode)) {
	case "", "new", "new-only", "new_only", "newonly":
		d.Mode = wire.ModeNew
	}
	return d
}

func (s *settings) intervals() wait.Intervals {
	return wait.Intervals{
		Initial:    s.WaitInitial.Millis(),
		Threshold:  int(s.WaitThreshold),
		Multiplier: float64(s.WaitMultiplier),
		Max:        s.WaitMax.Millis(),
	}
}

// blocks are the lines of the effective settings.
func (s *settings) blocks(version string) []config.Block {
	pops := s.popDefaults()
	return []config.Block{
		{Name: "server", Attrs: []slog.Attr{
			slog.String("version", version), slog.String("addr", s.Addr()), slog.Int64("pool", int64(s.PoolSize)),
			slog.Int64("stmt_timeout_ms", int64(s.StmtTimeout)), slog.Int64("max_body_bytes", int64(s.MaxBodyBytes)),
		}},
		s.Postgres.Block(),
		s.Auth.Block(),
		s.Mesh.Block(),
		{Name: "flow", Attrs: []slog.Attr{
			slog.Int64("pop_default_timeout_ms", pops.Timeout.Milliseconds()), slog.String("default_subscription_mode", pops.Mode),
			slog.Int64("pop_wait_initial_interval_ms", int64(s.WaitInitial)), slog.Int64("pop_wait_backoff_threshold", int64(s.WaitThreshold)),
			slog.Float64("pop_wait_backoff_multiplier", float64(s.WaitMultiplier)), slog.Int64("pop_wait_max_interval_ms", int64(s.WaitMax)),
			slog.Int64("pop_max_waiters", int64(s.MaxWaiters)), slog.Int64("hotlist_ring_limit", int64(s.RingLimit)),
			slog.Bool("dedup_cache", bool(s.DedupCache)), slog.Bool("ack_registry", bool(s.Registry)), slog.Bool("hotlist", bool(s.Hotlist)),
			slog.Int64("hotlist_idle_sweep_ms", int64(s.RingIdle)), slog.Int64("hotlist_sweep_ms", int64(s.Sweep)),
			slog.Int64("segment_cache_bytes", int64(s.SegmentCache)),
		}},
		s.Encryption.In(s.Tenancy.Block()),
		s.Logging.Block(),
		s.Profiling.Block(),
	}
}

// factor is a number of at least 1, with a fraction.
type factor float64

var errNotNumber = errors.New("is not a number")

// Set reads an ordinary decimal number; a blank variable leaves the default, a factor below 1 is 1.
func (f *factor) Set(value string) error {
	if value == "" {
		return nil
	}
	n, err := strconv.ParseFloat(value, 64)
	if err != nil || n != n || n > 1e6 || n < -1e6 {
		return errNotNumber
	}
	*f = factor(max(n, 1))
	return nil
}

const (
	// callTimeout bounds one claim and its read, one ack, one renewal, one search. It is below the 5 s that clients
	// grant a long poll beyond its own timeout.
	callTimeout = 4 * time.Second

	// transactionTimeout bounds one transaction with all its repetitions; a stop waits as long for what is in flight.
	transactionTimeout = 10 * time.Second

	// searchers is how many searches for parked polls run at once. They share their questions and so their connections.
	searchers = 256

	// sharedCommits is how many commits at a time acks and claims share, sharedReads how many reads of segments pops do.
	// The fewer at a time, the more share one.
	sharedCommits = 1
	sharedReads   = 1

	// leaseCursors bounds the lease registry: about 20 MB when full.
	leaseCursors = 200_000
)

// appendLog is what the pushes of transactions are appended by.
func (s *settings) appendLog(store *log.Store, announce func([]appendlog.Announcement)) *appendlog.Log {
	if !s.DedupCache {
		return appendlog.NewForgetful(store, announce)
	}
	return appendlog.New(store, announce)
}

// remembered is how many cursors of leases are kept.
func (s *settings) remembered() int {
	if !s.Registry {
		return 0
	}
	return leaseCursors
}
