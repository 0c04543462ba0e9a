package main

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"time"

	"queen.internal/pkg/config"
	"queen.internal/pkg/daemon"
	"queen.internal/pkg/health"
	"queen.internal/pkg/httpd"
	"queen.internal/pkg/logging"
	"queen.internal/pkg/metrics"
	"queen.internal/pkg/route"
	"queen.internal/services/gateway/internal/forward"
	"queen.internal/services/gateway/internal/httpapi"
)

// run is the gateway in edge mode:
//
//	clients -> httpd -> httpapi: which role -> forward: which address -> ingest, deliver, maintainer, console
//	             |                                |
//	           health                  probes, name look-ups, leases given back
//
// It keeps nothing: any number of edges stand before one cell.
func run(ctx context.Context, env daemon.Env) error {
	s := defaults()
	if err := config.Load(&s); err != nil {
		return err
	}
	config.LogEffective(env.Logger, &s, s.blocks(env.Version)...)
	return serve(ctx, env, s, func(string) {})
}

// stopSlack is beside what the server's stop may take: leases on their way back, probes under way.
const stopSlack = 8 * time.Second

// serve works until ctx ends. It calls listening once, with the base URL, when requests are answered.
func serve(ctx context.Context, env daemon.Env, s settings, listening func(url string)) error {
	bases, err := s.bases()
	if err != nil {
		return err
	}
	options := forward.Default(logging.For(env.Logger, "edge"))
	options.Bases = bases
	forwarder := forward.New(options)
	registry := metrics.New(env.Service, env.Version)
	if err := registry.Registerer().Register(forwarder); err != nil {
		return err
	}
	server, err := newServer(env, s, forwarder, registry)
	if err != nil {
		return err
	}
	group := daemon.Group{
		Logger:      env.Logger,
		StopTimeout: s.DrainDelay.Millis() + s.ShutdownTimeout.Millis() + stopSlack,
	}
	group.Add(daemon.Component{Name: "forward", Start: forwarder.Start, Run: forwarder.Run})
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
		Run: func(ctx context.Context) error {
			// Polls that are parked at deliver on behalf of our clients hold the drain up as long as they please.
			defer context.AfterFunc(ctx, forwarder.Drain)()
			return server.Run(ctx)
		},
	})
	return group.Run(ctx)
}

func newServer(env daemon.Env, s settings, forwarder *forward.Forwarder, registry *metrics.Registry) (*httpd.Server, error) {
	api := &httpapi.API{Forwarder: forwarder}
	options := httpd.Options{
		Role: httpapi.Role, Logger: env.Logger, Metrics: registry,
		Health: health.New(health.Options{
			Version: env.Version,
			Ping:    func(ctx context.Context) error { return healthy(ctx, forwarder) },
			Ready:   []health.Check{{Name: "services", Func: func(context.Context) error { return reachable(forwarder) }}},
		}),
		Addr: s.Addr(), MaxBodyBytes: int64(s.MaxBodyBytes),
		DrainDelay: s.DrainDelay.Millis(), ShutdownTimeout: s.ShutdownTimeout.Millis(),
		Foreign:     api.Foreign,
		ConnContext: func(ctx context.Context, _ net.Conn) context.Context { return forward.WithPin(ctx) },
	}
	if len(s.Console) > 0 {
		options.Fallback = api.Console
	}
	return httpd.New(options)
}

// healthy says whether the cell can take a message and hand it out: one ingest and one deliver are healthy.
func healthy(ctx context.Context, f *forward.Forwarder) error {
	deliver := make(chan error, 1)
	go func() { deliver <- f.Healthy(ctx, route.Deliver) }()
	ingest := f.Healthy(ctx, route.Ingest)
	return errors.Join(ingest, <-deliver)
}

// reachable keeps an edge in its balancer as long as it has anything to do: with one role gone it still does the job of
// the other.
func reachable(f *forward.Forwarder) error {
	ingest, deliver := f.Reachable(route.Ingest), f.Reachable(route.Deliver)
	if ingest != nil && deliver != nil {
		return errors.New("neither an ingest nor a deliver service is reachable")
	}
	return nil
}
