package main

import (
	"context"
	"log/slog"

	"queen.internal/pkg/appendlog"
	"queen.internal/pkg/auth"
	"queen.internal/pkg/config"
	"queen.internal/pkg/daemon"
	"queen.internal/pkg/health"
	"queen.internal/pkg/httpd"
	"queen.internal/pkg/logging"
	"queen.internal/pkg/mesh"
	"queen.internal/pkg/metrics"
	"queen.internal/pkg/modes"
	"queen.internal/pkg/pg"
	"queen.internal/pkg/route"
	"queen.internal/pkg/schema"
	"queen.internal/pkg/seal"
	"queen.internal/pkg/store/deadletter"
	"queen.internal/pkg/store/group"
	"queen.internal/pkg/store/log"
	"queen.internal/services/deliver/internal/ack"
	"queen.internal/services/deliver/internal/announce"
	"queen.internal/services/deliver/internal/commit"
	"queen.internal/services/deliver/internal/giveback"
	"queen.internal/services/deliver/internal/groups"
	"queen.internal/services/deliver/internal/httpapi"
	"queen.internal/services/deliver/internal/lanes"
	"queen.internal/services/deliver/internal/lease"
	"queen.internal/services/deliver/internal/live"
	"queen.internal/services/deliver/internal/measure"
	"queen.internal/services/deliver/internal/pop"
	"queen.internal/services/deliver/internal/ready"
	"queen.internal/services/deliver/internal/segments"
	"queen.internal/services/deliver/internal/transaction"
	"queen.internal/services/deliver/internal/wait"
)

// run is deliver from its settings to its stop.
//
//	GET /pop...  -> httpapi -> pop.Engine -> ready.Index -> candidates (reads lane)
//	                              |   |          ^   |
//	                              |   |          |   +-> wait.Lot: parked polls, backstop
//	                              |   +-> claim (claims lane), segments (reads lane)
//	                              +-> lease.Clock, lease.Registry
//	                              |      ^           |
//	         answer not written -> giveback.Giver (claims lane) -> announce.Announcer -> ready.Index
//	                                     ^           |
//	POST /ack... -> httpapi -> ack.Service (claims lane) -> announce.Announcer -> ready.Index
//	                              ^
//	POST /transaction -> httpapi -> transaction.Service -> appendlog.Log (transactions lane) -> announce.Announcer
//	seek, delete... -> httpapi -> groups.Service (claims lane; depth: reads lane) -> announce.Announcer -> ready.Index
func run(ctx context.Context, env daemon.Env) error {
	s := defaults()
	if err := config.Load(&s); err != nil {
		return err
	}
	config.LogEffective(env.Logger, &s, s.blocks(env.Version)...)
	return deliver(ctx, env, &s, func(string) {})
}

// deliver is run with these settings; listening is told the base URL once requests are taken.
func deliver(ctx context.Context, env daemon.Env, s *settings, listening func(url string)) error {
	p, err := open(ctx, env, s)
	if err != nil {
		return err
	}
	server, err := p.server(env, s)
	if err != nil {
		p.lanes.Close()
		return err
	}
	return p.serve(ctx, env, server, listening)
}

// parts is what deliver consists of.
type parts struct {
	lanes        *lanes.Lanes
	schema       *schema.Keeper
	metrics      *metrics.Registry
	lot          *wait.Lot
	index        *ready.Index
	news         *announce.Announcer
	mesh         *mesh.Mesh
	modes        *modes.Keeper
	pops         *pop.Engine
	acks         *ack.Service
	returns      *giveback.Giver
	transactions *transaction.Service
	appends      *appendlog.Log
	live         *live.Service
}

// open makes the parts. Nothing is started and nothing connects.
func open(ctx context.Context, env daemon.Env, s *settings) (*parts, error) {
	keys, err := s.Encryption.Keys(env.Logger)
	if err != nil {
		return nil, err
	}
	p := &parts{metrics: metrics.New(env.Service, env.Version)}
	lineage := pg.NewLineage(func() { p.news.FailedOver(); p.appends.Forget() }) // when the parts are made: called by connections
	p.lanes, err = lanes.Open(ctx, pg.FromSettings(s.Postgres), env.Service, env.Logger, lanes.Divide(int(s.PoolSize)), lineage)
	if err != nil {
		return nil, err
	}
	p.schema = schema.NewKeeper(schema.Broker(), p.lanes.Probes, bool(s.ApplySchema), logging.For(env.Logger, "schema"))
	p.mesh, err = mesh.New(mesh.Options{
		Settings: s.Mesh, Role: string(route.Deliver), Version: env.Version, Host: s.BindAddr, PoolSize: int(s.PoolSize),
		Fingerprint: p.schema.Fingerprint, Timeline: lineage.Timeline, Logger: env.Logger, Registerer: p.metrics.Registerer(),
	})
	if err != nil {
		p.lanes.Close()
		return nil, err
	}
	p.modes = modes.Open(modes.Options{Pool: p.lanes.Probes, Mesh: p.mesh, Current: p.schema.Current(), Obeys: mesh.PopMaintenance, Registerer: p.metrics.Registerer(), Logger: env.Logger})
	counters := measure.NewCounters(p.metrics.Registerer())
	clock := lease.NewClock(counters.Leapt(logging.For(env.Logger, "clock")))
	leases := lease.NewRegistry(s.remembered())
	store := group.New(p.lanes.Claims)
	p.lot = wait.New(wait.Options{MaxParked: int(s.MaxWaiters), Workers: searchers, Intervals: s.intervals(), Logger: logging.For(env.Logger, "pop")})
	p.index = ready.New(group.New(p.lanes.Reads), p.lot, ready.Options{
		Limit: int(s.RingLimit), Refresh: s.WaitMax.Millis(), Timeout: callTimeout, IdleDrop: s.RingIdle.Millis(), Clock: clock.Bounds, Sweep: s.Sweep.Millis(),
		Doubt: !bool(s.Hotlist), Watch: p.mesh.Watch, Unwatch: p.mesh.Unwatch,
		Self: p.mesh.ID(), Took: announce.Took(p.mesh), Declined: announce.Declined(p.mesh),
	})
	p.news = announce.New(p.index, p.mesh, group.New(p.lanes.Reads))
	p.news.Listen()
	p.returns = giveback.New(giveback.Options{Groups: store, News: p.news, Clock: clock, Leases: leases, Logger: logging.For(env.Logger, "pop"), Timeout: callTimeout, Returned: counters.Returned})
	commits := commit.New(commit.Options{Groups: store, Clock: clock, Parallel: sharedCommits, Timeout: callTimeout, Commits: counters.Commits, Calls: counters.Shared})
	recent := segments.New(segments.Options{Log: log.New(p.lanes.Reads), Bytes: int64(s.SegmentCache), Parallel: sharedReads, Timeout: callTimeout, Lookups: counters.Segments})
	p.pops = pop.New(pop.Options{
		Groups: store, Commits: commits, Segments: recent, Index: p.index, Clock: clock, Leases: leases,
		Logger: logging.For(env.Logger, "pop"), Timeout: callTimeout, Keys: keys, Returns: p.returns,
		Claims: counters.Claims, Delivered: counters.Delivered, Unopened: counters.Unopened,
	})
	p.acks = ack.New(ack.Options{Groups: store, Commits: commits, News: p.news, Clock: clock, Leases: leases, Timeout: callTimeout, Outcomes: counters.Acks})
	p.transactions = p.openTransactions(s, clock, keys, counters)
	p.live = live.New(live.Options{Groups: store, Reads: group.New(p.lanes.Reads), News: p.news, Clock: clock, Leases: leases, Timeout: callTimeout})
	measure.Watch(p.metrics.Registerer(), p.lot, p.index, leases, recent, p.lanes.ByName())
	return p, nil
}

// openTransactions makes the route that acks and pushes at once.
func (p *parts) openTransactions(s *settings, clock *lease.Clock, keys *seal.Keys, counters *measure.Counters) *transaction.Service {
	p.appends = s.appendLog(log.New(p.lanes.Transactions), p.news.Appended)
	p.appends.OnQueue(p.news.Created)
	return transaction.New(transaction.Options{
		Log: p.appends, Groups: group.New(p.lanes.Transactions), Acks: p.acks, Clock: clock, Keys: keys,
		Timeout: transactionTimeout, Outcomes: counters.Transactions,
	})
}

// server makes the HTTP side.
func (p *parts) server(env daemon.Env, s *settings) (*httpd.Server, error) {
	ping := func(ctx context.Context) error { return schema.Public(pg.Ping(ctx, p.lanes.Probes)) }
	checks := health.New(health.Options{Version: env.Version, Ping: ping, Ready: []health.Check{
		{Name: "postgresql", Func: ping},
		{Name: "schema", Func: func(context.Context) error { return schema.Public(p.schema.Ready()) }},
	}})
	api := &httpapi.API{
		Pops: p.pops, Acks: p.acks, Returns: p.returns, Transactions: p.transactions, Live: p.live, News: p.news, Modes: p.modes, Defaults: s.popDefaults(),
		Groups: groups.New(groups.Options{
			Groups: group.New(p.lanes.Claims), Reads: group.New(p.lanes.Reads), News: p.news, Logger: logging.For(env.Logger, "groups"), Timeout: callTimeout,
		}),
		DeadLetters: deadletter.New(p.lanes.Reads), Timeout: callTimeout, // a purge is nobody's claim
	}
	return httpd.New(httpd.Options{
		Role: route.Deliver, Logger: env.Logger, Metrics: p.metrics, Health: checks,
		Addr: s.Addr(), MaxBodyBytes: int64(s.MaxBodyBytes), DrainDelay: s.DrainDelay.Millis(), ShutdownTimeout: s.ShutdownTimeout.Millis(),
		Tenancy: bool(s.Header), Auth: auth.FromSettings(s.Auth, env.Logger), Handlers: api.Handlers(), Mesh: p.mesh,
	})
}

// serve starts the parts in order and stops them in reverse: the server drains first, so the searchers outlive every
// parked poll and the pools every call.
func (p *parts) serve(ctx context.Context, env daemon.Env, server *httpd.Server, listening func(url string)) error {
	g := daemon.Group{Logger: env.Logger}
	g.Add(daemon.Component{Name: "postgres", Stop: func(context.Context) error { p.lanes.Close(); return nil }})
	g.Add(daemon.Component{Name: "mesh", Run: p.mesh.Run})
	g.Add(daemon.Component{Name: "schema", Run: p.schema.Run})
	g.Add(daemon.Component{Name: "modes", Run: p.modes.Run})
	g.Add(daemon.Component{Name: "rings", Run: p.index.Run})
	g.Add(daemon.Component{Name: "parked polls", Run: p.lot.Run})
	g.Add(daemon.Component{
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
	return g.Run(ctx)
}
