package main

import (
	"context"
	"errors"
	"time"

	"github.com/google/uuid"

	"queen.internal/pkg/appendlog"
	"queen.internal/pkg/auth"
	"queen.internal/pkg/config"
	"queen.internal/pkg/daemon"
	"queen.internal/pkg/health"
	"queen.internal/pkg/httpd"
	"queen.internal/pkg/logging"
	"queen.internal/pkg/mesh"
	"queen.internal/pkg/metrics"
	"queen.internal/pkg/pg"
	"queen.internal/pkg/route"
	"queen.internal/pkg/schema"
	"queen.internal/pkg/store/admin"
	"queen.internal/pkg/store/deadletter"
	"queen.internal/pkg/store/log"
	"queen.internal/services/ingest/internal/batch"
	"queen.internal/services/ingest/internal/httpapi"
	"queen.internal/services/ingest/internal/replay"
	"queen.internal/services/ingest/internal/sealing"
)

// run is the service:
//
//	        requests                              flushes               one call each
//	httpd ----------> httpapi > sealing > batch ----------> appendlog > store/log -----> pool > PostgreSQL
//	  |                  |                                                                |
//	health               |                               +-> mesh: hints to deliver       |
//	                     +----------- schema keeper: "not yet", until it is current ------+
//
// Started from right to left, stopped from left to right: no new requests, then what was accepted is committed, then the
// connections close.
func run(ctx context.Context, env daemon.Env) error {
	s := defaults()
	if err := config.Load(&s); err != nil {
		return err
	}
	config.LogEffective(env.Logger, &s, s.blocks(env.Version)...)
	return serve(ctx, env, s, func(string) {})
}

// stopSlack is beside what the parts of a stop are allowed to take.
const stopSlack = 4 * time.Second

// serve works until ctx ends. It calls listening once, with the base URL, when requests are answered.
func serve(ctx context.Context, env daemon.Env, s settings, listening func(url string)) error {
	keys, err := s.Encryption.Keys(env.Logger)
	if err != nil {
		return err
	}
	var appends *appendlog.Log
	lineage := pg.NewLineage(func() { appends.Forget() }) // called by connections, which there are none of before it is made
	pool, err := pg.Open(ctx, pg.FromSettings(s.Postgres), pg.Options{Name: "queen-ingest", Logger: logging.For(env.Logger, "pool"), Lineage: lineage})
	if err != nil {
		return err
	}
	keeper := schema.NewKeeper(schema.Broker(), pool, bool(s.ApplySchema), logging.For(env.Logger, "schema"))

	registry := metrics.New("ingest", env.Version)
	bounds, measured := s.bounds(), batch.NewMetrics(registry.Registerer())
	bounds.Flushed = measured.Flushed
	store := log.New(pool)
	hints, err := mesh.New(mesh.Options{
		Settings: s.Mesh, Role: string(route.Ingest), Version: env.Version, Host: s.BindAddr, PoolSize: int(s.PoolSize),
		Fingerprint: keeper.Fingerprint, Timeline: lineage.Timeline, Logger: env.Logger, Registerer: registry.Registerer(),
	})
	if err != nil {
		pool.Close()
		return err
	}
	newLog := appendlog.New
	if !s.DedupCache {
		newLog = appendlog.NewForgetful
	}
	appends = newLog(store, func(committed []appendlog.Announcement) { hints.Announce(appendlog.Hints(committed)...) })
	appends.OnQueue(func(tenant uuid.UUID, queue string) { hints.AnnounceConfig(tenant, queue, false) })
	batcher := batch.New(appends, bounds)
	measured.Watch(batcher, appends.Remembered)
	gate := sealing.New(keys, store.Flags, batcher.Push)

	ping := func(ctx context.Context) error { return pg.Ping(ctx, pool) }
	api := &httpapi.API{
		Push: gate.Push, Queues: admin.New(pool), Forget: gate.Forget, Changed: hints.AnnounceConfig, Ready: keeper.Ready, KeyPresent: keys.CanSeal(),
		DeadLetters: deadletter.New(pool), Replays: &replay.Mover{Log: appends, Flags: store.Flags, Keys: keys},
	}
	server, err := httpd.New(httpd.Options{
		Role: route.Ingest, Logger: env.Logger, Metrics: registry,
		Health: health.New(health.Options{
			Version: env.Version, Ping: ping,
			Ready: []health.Check{
				{Name: "postgresql", Func: func(ctx context.Context) error { return public(ping(ctx)) }},
				{Name: "schema", Func: func(context.Context) error { return public(keeper.Ready()) }},
			},
		}),
		Addr: s.Addr(), MaxBodyBytes: int64(s.MaxBodyBytes),
		DrainDelay: s.DrainDelay.Millis(), ShutdownTimeout: s.ShutdownTimeout.Millis(),
		Tenancy: bool(s.Tenancy.Header), Auth: auth.FromSettings(s.Auth, env.Logger), Handlers: api.Handlers(), Mesh: hints,
	})
	if err != nil {
		pool.Close()
		return err
	}

	group := daemon.Group{
		Logger:      env.Logger,
		StopTimeout: s.DrainDelay.Millis() + s.ShutdownTimeout.Millis() + bounds.DrainTime + stopSlack,
	}
	group.Add(daemon.Component{Name: "pool", Stop: func(ctx context.Context) error { return closePool(ctx, pool) }})
	group.Add(daemon.Component{Name: "mesh", Run: hints.Run})
	group.Add(daemon.Component{Name: "schema", Run: keeper.Run})
	group.Add(daemon.Component{Name: "batch", Run: batcher.Run})
	group.Add(daemon.Component{
		Name: "http",
		Start: func(ctx context.Context) error {
			if err := server.Listen(); err != nil {
				return err
			}
			logging.For(env.Logger, "boot").InfoContext(ctx, "listening", "url", server.URL(), "version", env.Version)
			listening(server.URL())
			return nil
		},
		Run: server.Run,
	})
	return group.Run(ctx)
}

// public is err without what only the log may tell: probes answer anybody.
func public(err error) error {
	if err == nil {
		return nil
	}
	return errors.New(httpapi.Reason(err))
}

// closePool waits for borrowed connections, but no longer than the stop may take: the process ends anyway.
func closePool(ctx context.Context, pool *pg.Pool) error {
	closed := make(chan struct{})
	go func() {
		defer close(closed)
		pool.Close()
	}()
	select {
	case <-closed:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
