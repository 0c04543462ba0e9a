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
	"queen.internal/pkg/seal"
	"queen.internal/pkg/store/admin"
	"queen.internal/pkg/store/deadletter"
	"queen.internal/pkg/store/inspect"
	"queen.internal/pkg/store/log"
	"queen.internal/services/console/internal/httpapi"
	"queen.internal/services/console/internal/messages"
	"queen.internal/services/console/internal/page"
)

// run is the service:
//
//	httpd: requests --> httpapi --> messages, store/... (reads lane) ---> PostgreSQL
//	  |                    |                                                 |
//	  |                    +--> page, built into the binary                  |
//	  +---- probes, metrics --> schema keeper (probes lane) -----------------+
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
	p, err := open(ctx, env, &s)
	if err != nil {
		return err
	}
	server, err := p.server(env, &s)
	if err != nil {
		p.close()
		return err
	}
	group := daemon.Group{Logger: env.Logger}
	group.Add(daemon.Component{Name: "postgres", Stop: func(context.Context) error { p.close(); return nil }})
	group.Add(daemon.Component{Name: "schema", Run: p.schema.Run})
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

// parts is what the console consists of.
type parts struct {
	reads, probes *pg.Pool
	schema        *schema.Keeper
	keys          *seal.Keys
}

// open makes the parts. Nothing is started and nothing connects.
func open(ctx context.Context, env daemon.Env, s *settings) (*parts, error) {
	keys, err := s.Encryption.Keys(env.Logger)
	if err != nil {
		return nil, err
	}
	p := &parts{keys: keys}
	lanes, database := s.lanes(), pg.FromSettings(s.Postgres)
	if p.probes, err = pg.Open(ctx, database, pg.Options{
		Name: "queen-" + env.Service + "/probes", Logger: logging.For(env.Logger, "postgres"), Size: lanes.probes,
	}); err != nil {
		return nil, err
	}
	database.StatementTimeout = min(database.StatementTimeout, readTimeout)
	if p.reads, err = pg.Open(ctx, database, pg.Options{
		Name: "queen-" + env.Service + "/reads", Logger: logging.For(env.Logger, "postgres"), Size: lanes.reads,
	}); err != nil {
		p.probes.Close()
		return nil, err
	}
	p.schema = schema.NewKeeper(schema.Broker(), p.probes, bool(s.ApplySchema), logging.For(env.Logger, "schema"))
	return p, nil
}

func (p *parts) close() {
	p.reads.Close()
	p.probes.Close()
}

// server makes the HTTP side.
func (p *parts) server(env daemon.Env, s *settings) (*httpd.Server, error) {
	front, err := page.New(env.Version)
	if err != nil {
		return nil, err
	}
	ping := func(ctx context.Context) error { return schema.Public(pg.Ping(ctx, p.probes)) }
	letters := deadletter.New(p.reads)
	found := &messages.Reader{
		Inspect: inspect.New(p.reads), Log: log.New(p.reads), DeadLetters: letters, Queues: admin.New(p.reads), Keys: p.keys,
	}
	api := &httpapi.API{DeadLetters: letters, Messages: found, Inspect: inspect.New(p.reads), Keys: p.keys, Timeout: readTimeout}
	return httpd.New(httpd.Options{
		Role: route.Console, Logger: env.Logger, Metrics: metrics.New(env.Service, env.Version),
		Health: health.New(health.Options{Version: env.Version, Ping: ping, Ready: []health.Check{
			{Name: "postgresql", Func: ping},
			{Name: "schema", Func: func(context.Context) error { return schema.Public(p.schema.Ready()) }},
		}}),
		Addr: s.Addr(), MaxBodyBytes: int64(s.MaxBodyBytes),
		DrainDelay: s.DrainDelay.Millis(), ShutdownTimeout: s.ShutdownTimeout.Millis(),
		Tenancy: bool(s.Tenancy.Header), Auth: auth.FromSettings(s.Auth, env.Logger), Handlers: api.Handlers(),
		Fallback: httpapi.Pages(front),
	})
}
