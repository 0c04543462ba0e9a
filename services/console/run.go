package main

import (
	"context"
	"log/slog"

	"queen.internal/pkg/auth"
	"queen.internal/pkg/config"
	"queen.internal/pkg/daemon"
	"queen.internal/pkg/health"
	"queen.internal/pkg/httpd"
	"queen.internal/pkg/logging"
	"queen.internal/pkg/metrics"
	"queen.internal/pkg/pg"
	"queen.internal/pkg/route"
	"queen.internal/pkg/schema"
	"queen.internal/services/console/internal/httpapi"
	"queen.internal/services/console/internal/page"
)

// run is the service. So far it has one page, so it is its frame:
//
//	httpd: probes, metrics --> schema keeper --> pool --> PostgreSQL
//	  |
//	httpapi --> page, built into the binary
func run(ctx context.Context, env daemon.Env) error {
	s := defaults()
	if err := config.Load(&s); err != nil {
		return err
	}
	config.LogEffective(env.Logger, &s, s.blocks(env.Version)...)
	return serve(ctx, env, s, func(string) {})
}

// serve works until ctx ends. It calls listening once, with the base URL, when requests are answered.
func serve(ctx context.Context, env daemon.Env, s settings, listening func(url string)) error {
	pool, err := pg.Open(ctx, pg.FromSettings(s.Postgres), pg.Options{
		Name: "queen-" + env.Service, Logger: logging.For(env.Logger, "postgres"),
	})
	if err != nil {
		return err
	}
	keeper := schema.NewKeeper(schema.Broker(), pool, bool(s.ApplySchema), logging.For(env.Logger, "schema"))
	server, err := newServer(env, s, pool, keeper)
	if err != nil {
		pool.Close()
		return err
	}
	group := daemon.Group{Logger: env.Logger}
	group.Add(daemon.Component{Name: "pool", Stop: func(context.Context) error { pool.Close(); return nil }})
	group.Add(daemon.Component{Name: "schema", Run: keeper.Run})
	group.Add(daemon.Component{
		Name: "http",
		Start: func(ctx context.Context) error {
			if err := server.Listen(); err != nil {
				return err
			}
			logging.For(env.Logger, "boot").InfoContext(ctx, "listening", slog.String("service", env.Service),
				slog.String("version", env.Version), slog.String("url", server.URL()), slog.String("engine", health.Engine))
			listening(server.URL())
			return nil
		},
		Run: server.Run,
	})
	return group.Run(ctx)
}

func newServer(env daemon.Env, s settings, pool *pg.Pool, keeper *schema.Keeper) (*httpd.Server, error) {
	front, err := page.New(env.Version)
	if err != nil {
		return nil, err
	}
	ping := func(ctx context.Context) error { return schema.Public(pg.Ping(ctx, pool)) }
	return httpd.New(httpd.Options{
		Role: route.Console, Logger: env.Logger, Metrics: metrics.New(env.Service, env.Version),
		Health: health.New(health.Options{Version: env.Version, Ping: ping, Ready: []health.Check{
			{Name: "postgresql", Func: ping},
			{Name: "schema", Func: func(context.Context) error { return schema.Public(keeper.Ready()) }},
		}}),
		Addr: s.Addr(), MaxBodyBytes: int64(s.MaxBodyBytes),
		DrainDelay: s.DrainDelay.Millis(), ShutdownTimeout: s.ShutdownTimeout.Millis(),
		Auth:     auth.FromSettings(s.Auth, env.Logger),
		Fallback: httpapi.Pages(front),
	})
}
