package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"golang.org/x/sync/errgroup"

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
	"queen.internal/pkg/store/task"
	"queen.internal/services/maintainer/internal/claim"
	cycle "queen.internal/services/maintainer/internal/retention"
	"queen.internal/services/maintainer/internal/tasks"
)

// run is the service.
//
//	claim: one goroutine a task --> retention, sweep --> store/{task,retention} --+--> pool --> PostgreSQL
//	httpd: probes, metrics --> schema keeper -------------------------------------+
func run(ctx context.Context, env daemon.Env) error {
	s := defaults()
	if err := config.Load(&s); err != nil {
		return err
	}
	config.LogEffective(env.Logger, &s, s.blocks(env.Version)...)
	if env.Flags[flagOnce] {
		return once(ctx, env, s)
	}
	return serve(ctx, env, s, func(string) {})
}

// serve works until ctx ends. It calls listening once, with the base URL, when requests are answered.
func serve(ctx context.Context, env daemon.Env, s settings, listening func(url string)) error {
	pool, keeper, err := open(ctx, env, s)
	if err != nil {
		return err
	}
	ping := func(ctx context.Context) error { return schema.Public(pg.Ping(ctx, pool)) }
	measured := metrics.New(env.Service, env.Version)
	worker := workerOf(env, s, pool, cycle.NewMeter(measured.Registerer()))
	worker.Meter = claim.NewMeter(measured.Registerer())
	server, err := httpd.New(httpd.Options{
		Role: route.Maintainer, Logger: env.Logger, Metrics: measured,
		Health: health.New(health.Options{Version: env.Version, Ping: ping, Ready: []health.Check{
			{Name: "postgresql", Func: ping},
			{Name: "schema", Func: func(context.Context) error { return schema.Public(keeper.Ready()) }},
		}}),
		Addr: s.Addr(), MaxBodyBytes: int64(s.MaxBodyBytes),
		DrainDelay: s.DrainDelay.Millis(), ShutdownTimeout: s.ShutdownTimeout.Millis(),
		Auth: auth.FromSettings(s.Auth, env.Logger),
	})
	if err != nil {
		pool.Close()
		return err
	}
	group := daemon.Group{Logger: env.Logger}
	group.Add(daemon.Component{Name: "pool", Stop: func(context.Context) error { pool.Close(); return nil }})
	group.Add(daemon.Component{Name: "schema", Run: keeper.Run})
	group.Add(daemon.Component{Name: "tasks", Run: func(ctx context.Context) error {
		select {
		case <-keeper.Current():
			return worker.Run(ctx)
		case <-ctx.Done():
			return nil
		}
	}})
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

// workerOf is what works the tasks.
func workerOf(env daemon.Env, s settings, pool *pg.Pool, meter *cycle.Meter) *claim.Worker {
	o := s.options()
	o.Meter = meter
	return &claim.Worker{Store: task.New(pool), Holder: s.ServerID, Logger: env.Logger, Tasks: tasks.List(pool, o)}
}

// open makes the pool, which the caller closes, and the schema's keeper. Nothing connects yet.
func open(ctx context.Context, env daemon.Env, s settings) (*pg.Pool, *schema.Keeper, error) {
	pool, err := pg.Open(ctx, pg.FromSettings(s.Postgres), pg.Options{
		Name: "queen-" + env.Service, Logger: logging.For(env.Logger, "postgres"),
		Size: max(int(s.PoolSize), int(s.Parallelism)+2), // each worker, another task, and a probe
	})
	if err != nil {
		return nil, nil, err
	}
	return pool, schema.NewKeeper(schema.Broker(), pool, bool(s.ApplySchema), logging.For(env.Logger, "schema")), nil
}

// flagOnce makes the maintainer a job for a cron table or a function instead of a service.
const flagOnce = "once"

// onceWait is how long the schema may take to get current: another process may be installing it. Whoever started the
// job starts it again.
const onceWait = time.Minute

// errDone ends the keeper after the work.
var errDone = errors.New("done")

// once works every task that is due and prints how many there were. Unlike the service it does not wait for a database
// that is down.
func once(ctx context.Context, env daemon.Env, s settings) error {
	pool, keeper, err := open(ctx, env, s)
	if err != nil {
		return err
	}
	defer pool.Close()
	if err := pg.Ping(ctx, pool); err != nil {
		if pg.FatalAtBoot(err) {
			return pg.BootError(pool, err)
		}
		return fmt.Errorf("reach the database at %s:%d: %s", s.Host, s.Postgres.Port, pg.Reason(err))
	}
	if err := current(ctx, keeper); err != nil {
		return err
	}
	return workOnce(ctx, env, workerOf(env, s, pool, nil))
}

// workOnce prints a line for each task that was due, and a last one that counts them. The error is that of the first task
// that failed; what another maintainer works at this moment is not due.
func workOnce(ctx context.Context, env daemon.Env, worker *claim.Worker) error {
	due, failed := 0, 0
	var printing error
	failure := worker.Once(ctx, func(name string, o claim.Outcome, err error) {
		due++
		line := name + ":"
		for _, a := range o.Told {
			line += " " + a.String()
		}
		if err != nil {
			failed++
			line += " failed: " + pg.Reason(err)
		} else {
			line += " done"
		}
		_, wrote := fmt.Fprintln(env.Stdout, line)
		printing = errors.Join(printing, wrote)
	})
	_, wrote := fmt.Fprintf(env.Stdout, "%d tasks due, %d failed\n", due, failed)
	if failure != nil {
		return fmt.Errorf("%d of %d tasks failed: %s", failed, due, pg.Reason(failure))
	}
	return errors.Join(printing, wrote)
}

// current waits for the schema.
func current(ctx context.Context, keeper *schema.Keeper) error {
	limited, cancel := context.WithTimeout(ctx, onceWait)
	defer cancel()
	work, working := errgroup.WithContext(limited)
	work.Go(func() error { return keeper.Run(working) })
	work.Go(func() error {
		select {
		case <-keeper.Current():
			return errDone // ends the keeper too
		case <-working.Done():
			return keeper.Ready()
		}
	})
	if err := work.Wait(); !errors.Is(err, errDone) {
		return err
	}
	return nil
}
