package main

import (
	"context"
	"errors"
	"os"
	"path/filepath"
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
	"queen.internal/pkg/modes"
	"queen.internal/pkg/pg"
	"queen.internal/pkg/route"
	"queen.internal/pkg/schema"
	"queen.internal/pkg/store/admin"
	"queen.internal/pkg/store/deadletter"
	"queen.internal/pkg/store/log"
	"queen.internal/pkg/wire"
	"queen.internal/services/ingest/internal/batch"
	"queen.internal/services/ingest/internal/fitness"
	"queen.internal/services/ingest/internal/httpapi"
	"queen.internal/services/ingest/internal/known"
	"queen.internal/services/ingest/internal/lanes"
	"queen.internal/services/ingest/internal/outage"
	"queen.internal/services/ingest/internal/replay"
	"queen.internal/services/ingest/internal/room"
	"queen.internal/services/ingest/internal/sealing"
)

// run is the service:
//
//	        requests                              flushes                     one call each
//	httpd ----------> httpapi > sealing > batch ----------> outage > appendlog > store/log -----> pool > PostgreSQL
//	  |                  |         |                          |          |                           |
//	health               |       known                      spool        +-> mesh: hints to deliver  |
//	                     +----------- schema keeper: "not yet", until it is current -----------------+
//
// Started from right to left, stopped from left to right: no new requests, then what was accepted is committed or spooled,
// then the spools and the connections close.
func run(ctx context.Context, env daemon.Env) error {
	s := defaults()
	if err := config.Load(&s); err != nil {
		return err
	}
	config.LogEffective(env.Logger, &s, s.blocks(env.Version)...)
	return serve(ctx, env, s, func(string) {})
}

// stopSlack is beside what the parts of a stop are allowed to take.
const stopSlack = 6 * time.Second

// serve works until ctx ends. It calls listening once, with the base URL, when requests are answered.
func serve(ctx context.Context, env daemon.Env, s settings, listening func(url string)) error {
	keys, err := s.Encryption.Keys(env.Logger)
	if err != nil {
		return err
	}
	var appends *appendlog.Log
	lineage := pg.NewLineage(func() { appends.Forget() }) // called by connections, which there are none of before it is made
	connections, err := lanes.Open(ctx, pg.FromSettings(s.Postgres), s.connections(), logging.For(env.Logger, "pool"), lineage)
	if err != nil {
		return err
	}
	keeper := schema.NewKeeper(schema.Broker(), connections.Push, bool(s.ApplySchema), logging.For(env.Logger, "schema"))

	registry := metrics.New("ingest", env.Version)
	bounds, measured := s.bounds(), batch.NewMetrics(registry.Registerer())
	bounds.Flushed = measured.Flushed
	store := log.New(connections.Push)
	hints, err := mesh.New(mesh.Options{
		Settings: s.Mesh, Role: string(route.Ingest), Version: env.Version, Host: s.BindAddr, PoolSize: int(s.PoolSize),
		Fingerprint: keeper.Fingerprint, Timeline: lineage.Timeline, Logger: env.Logger, Registerer: registry.Registerer(),
	})
	if err != nil {
		return errors.Join(err, connections.Close(ctx))
	}
	bounds.Peers = func() int { return hints.Alive(string(route.Ingest)) }
	newLog := appendlog.New
	if !s.DedupCache {
		newLog = appendlog.NewForgetful
	}
	appends = newLog(store, func(committed []appendlog.Announcement) { hints.Announce(appendlog.Hints(committed)...) })
	appends.OnQueue(func(tenant uuid.UUID, queue string) { hints.AnnounceConfig(tenant, queue, false) })
	folder, err := s.Spool.open(hints.ID(), os.TempDir(), logging.For(env.Logger, "spool"))
	if err != nil {
		return errors.Join(err, connections.Close(ctx))
	}
	queues := known.Open(filepath.Join(s.Dir, "queues.json"), store.FlaggedQueues, keeper.Current(), logging.For(env.Logger, "spool"))
	var guard *outage.Guard
	switches := modes.Open(modes.Options{
		Pool: connections.Probe, Mesh: hints, Current: keeper.Current(), Path: filepath.Join(s.Dir, "modes.json"),
		Obeys: mesh.PushMaintenance, Registerer: registry.Registerer(), Logger: env.Logger,
		Changed: func() {
			if guard != nil { // what the file has comes before
				guard.HeldChanged()
			}
		},
	})
	appendable := func() error { return fitness.Appends(keeper, switches) }
	guard = outage.New(outage.Options{
		Log: appends, Folder: folder, Keys: keys, Ping: connections.Ping, Back: connections.Back, Fallen: connections.Fallen, Forget: store.ForgetSpool, NoSpool: queues.NoSpool,
		Ready: appendable, Held: func() bool { return switches.On(mesh.PushMaintenance) },
		BatchMessages: int(s.BatchMessages), Pace: s.PaceMillis.Millis(), BarrierMax: s.BarrierMax.Millis(), Logger: logging.For(env.Logger, "spool"),
	})
	batcher := batch.New(guard, bounds)
	guard.Over(batcher)
	guard.Watch(registry.Registerer())
	measured.Watch(batcher, appends.Remembered)
	gate := sealing.New(keys, store.Flags, sealing.Away{Down: guard.Away, Encrypted: queues.Encrypted}, batcher.Push)
	hints.OnConfig(func(string, mesh.Config) { queues.Refresh() })

	api := &httpapi.API{
		Push: fitness.Informed(gate.Push, keeper, switches, guard), Room: room.New(bounds.QueuedBytes, bounds.RoomWait), Queues: admin.New(connections.Push), Forget: gate.Forget, Ready: keeper.Ready, KeyPresent: keys.CanSeal(),
		Changed: func(tenant uuid.UUID, name string, deleted bool) {
			queues.Refresh()
			hints.AnnounceConfig(tenant, name, deleted)
		},
		Buffers: func(ctx context.Context) wire.Buffers {
			state := guard.Status()
			return wire.Buffers{Pending: state.Pending, Failed: state.Counters.Failed, DBHealthy: state.Up && connections.Ping(ctx) == nil}
		},
		Files: guard.Files, SpoolRoom: guard.Room, Modes: switches,
		DeadLetters: deadletter.New(connections.Push), Replays: &replay.Mover{Log: appends, Flags: store.Flags, Keys: keys},
	}
	server, err := httpd.New(httpd.Options{
		Role: route.Ingest, Logger: env.Logger, Metrics: registry,
		Health: health.New(health.Options{
			Version: env.Version, Ping: connections.Ping,
			Ready: []health.Check{{Name: "push", Func: func(ctx context.Context) error { return fitness.Pushes(ctx, connections, guard, appendable) }}},
		}),
		Addr: s.Addr(), MaxBodyBytes: int64(s.MaxBodyBytes),
		DrainDelay: s.DrainDelay.Millis(), ShutdownTimeout: s.ShutdownTimeout.Millis(),
		Tenancy: bool(s.Tenancy.Header), Auth: auth.FromSettings(s.Auth, env.Logger), Handlers: api.Handlers(), Mesh: hints,
	})
	if err != nil {
		return errors.Join(err, connections.Close(ctx))
	}

	group := daemon.Group{
		Logger:      env.Logger,
		StopTimeout: s.DrainDelay.Millis() + s.ShutdownTimeout.Millis() + bounds.DrainTime + stopSlack,
	}
	group.Add(daemon.Component{Name: "pool", Stop: connections.Close})
	group.Add(daemon.Component{Name: "mesh", Run: hints.Run})
	group.Add(daemon.Component{Name: "schema", Run: keeper.Run})
	group.Add(daemon.Component{Name: "queues", Run: queues.Run})
	group.Add(daemon.Component{Name: "modes", Run: switches.Run})
	group.Add(daemon.Component{Name: "spool", Start: func(context.Context) error { return guard.Start() }, Run: guard.Run})
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
