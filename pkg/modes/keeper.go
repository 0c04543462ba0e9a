package modes

import (
	"cmp"
	"context"
	"log/slog"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"golang.org/x/sync/singleflight"

	"queen.internal/pkg/logging"
	"queen.internal/pkg/mesh"
	"queen.internal/pkg/pg"
	"queen.internal/pkg/store/state"
)

// mode is a switch that is obeyed: its name on the mesh, and the key of its row, which others know as well.
type mode struct{ name, key, says, metric, help string }

var all = []mode{
	{
		mesh.PushMaintenance, "maintenance_mode", "push maintenance",
		"queen_maintenance_mode_enabled", "1 while pushes go to the spool because somebody said so.",
	},
	{
		mesh.PopMaintenance, "pop_maintenance_mode", "pop maintenance",
		"queen_pop_maintenance_mode_enabled", "1 while pops find nothing because somebody said so.",
	},
}

const (
	refreshEvery = 5 * time.Second        // the rows are read that often
	callTime     = 2 * time.Second        // of one call to the database: somebody waits, and goes on without it
	retryEvery   = 500 * time.Millisecond // while they cannot be, or something is to be written
	setAttempts  = 5                      // of a switch that others turn as well
)

// Options are what a Keeper works with. Every field must be set, except where it says otherwise.
type Options struct {
	Pool    *pg.Pool
	Mesh    *mesh.Mesh
	Current <-chan struct{} // closed when the database has the schema
	Path    string          // of the file; empty: nothing is kept
	Timeout time.Duration   // of one call to the database; 0: two seconds
	Changed func()          // called after a switch has turned, outside of locks; nil: nobody asks
	Logger  *slog.Logger

	Obeys      string                // the switch whose gauge is exported
	Registerer prometheus.Registerer // nil: none is
}

// Keeper is one process's copy. Make it with Open and work it with Run.
type Keeper struct {
	o       Options
	store   *state.Store
	wake    chan struct{} // capacity 1
	reads   singleflight.Group
	setting chan struct{} // a token: who has it may turn switches
	saving  chan struct{} // a token: who has it may write the file
	saved   []byte        // what the file has; under saving

	mu     sync.Mutex
	copies map[string]*held // by name; each mode has one
}

// held is the copy of a switch.
type held struct {
	on      bool
	version int64
	stored  bool          // the database has had this
	known   bool          // somebody has told, be it the file
	began   chan struct{} // closed while it is on
}

// Open returns a Keeper that knows what the file has, if there is one, and hears what the mesh tells. Call it before the
// mesh runs.
func Open(o Options) *Keeper {
	if o.Timeout == 0 {
		o.Timeout = callTime
	}
	o.Logger = logging.For(o.Logger, "maintenance")
	k := &Keeper{
		o: o, store: state.New(o.Pool), wake: make(chan struct{}, 1), setting: make(chan struct{}, 1), saving: make(chan struct{}, 1), copies: map[string]*held{},
	}
	k.setting <- struct{}{}
	k.saving <- struct{}{}
	for _, m := range all {
		k.copies[m.name] = &held{began: make(chan struct{})}
	}
	k.export()
	k.load()
	o.Mesh.OnSwitch(k.Heard)
	return k
}

// On says whether a switch is on, as far as is known.
func (k *Keeper) On(name string) bool { return k.copy(name).on }

// Known says whether anything has told how a switch is.
func (k *Keeper) Known(name string) bool { return k.copy(name).known }

// Began is closed while a switch is on, and when it comes on.
func (k *Keeper) Began(name string) <-chan struct{} { return k.copy(name).began }

func (k *Keeper) copy(name string) held {
	k.mu.Lock()
	defer k.mu.Unlock()
	return *k.copies[name]
}

// export registers the gauge of the switch that this process obeys.
func (k *Keeper) export() {
	for _, m := range all {
		if m.name == k.o.Obeys && k.o.Registerer != nil {
			k.o.Registerer.MustRegister(prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: m.metric, Help: m.help}, func() float64 {
				if k.On(m.name) {
					return 1
				}
				return 0
			}))
		}
	}
}

// Heard takes what a peer tells of a switch. It never waits.
func (k *Keeper) Heard(s mesh.Switch) {
	if k.take(s.Name, "mesh", func(h *held) bool {
		if s.Version <= h.version {
			return false
		}
		h.on, h.version, h.stored, h.known = s.On, s.Version, false, true
		return true
	}) {
		k.nudge() // the file, and the row
	}
}

// take lets change have the copy of a switch, when there is such a one, and tells of what came of it. It says whether
// change has changed something.
func (k *Keeper) take(name, from string, change func(*held) bool) bool {
	k.mu.Lock()
	h := k.copies[name]
	if h == nil {
		k.mu.Unlock()
		return false
	}
	before := h.on
	changed := change(h)
	if turned := h.on != before; turned {
		if h.on {
			close(h.began)
		} else {
			h.began = make(chan struct{})
		}
	}
	after := *h
	k.mu.Unlock()
	if after.on != before {
		k.tell(name, from, after)
	}
	return changed
}

func (k *Keeper) tell(name, from string, now held) {
	for _, m := range all {
		if m.name == name && now.on {
			k.o.Logger.Warn(m.says+" is on", "from", from, "version", now.version)
		} else if m.name == name {
			k.o.Logger.Info(m.says+" is off", "from", from, "version", now.version)
		}
	}
	if k.o.Changed != nil {
		k.o.Changed()
	}
}

func (k *Keeper) nudge() {
	select {
	case k.wake <- struct{}{}:
	default:
	}
}

// later is a version above another one, and above those that others gave at earlier times.
func later(version int64) int64 { return max(version+1, time.Now().UnixMicro()) }

// Run reads the rows now and then, writes what is not in them, and keeps the file, until ctx ends.
func (k *Keeper) Run(ctx context.Context) error {
	k.connect(ctx)
	timer := time.NewTimer(0)
	defer timer.Stop()
	current := k.o.Current
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-current:
			current = nil // it stays closed
		case <-k.wake:
		case <-timer.C:
		}
		pause := refreshEvery
		if current == nil {
			err := k.Refresh(ctx)
			if err != nil || k.unstored() {
				pause = retryEvery
			}
		}
		k.save()
		timer.Reset(pause)
	}
}

// connect has the connection made while the schema is still being looked at: to make one takes longer than to ask.
func (k *Keeper) connect(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, k.o.Timeout)
	defer cancel()
	if err := pg.Ping(ctx, k.o.Pool); err != nil {
		k.o.Logger.DebugContext(ctx, "connect to read the switches of the cell", "err", err)
	}
}

// unstored says whether there is something that the database is not known to have.
func (k *Keeper) unstored() bool {
	for _, m := range all {
		if !k.copy(m.name).stored {
			return true
		}
	}
	return false
}

// Await returns once it is known how a switch is, or with why that cannot be told: an error with a kind.
func (k *Keeper) Await(ctx context.Context, name string) error {
	if k.Known(name) {
		return nil
	}
	return k.Refresh(ctx)
}

// Refresh reads the rows and settles differences. Its error, which has a kind, means that copies may be old.
func (k *Keeper) Refresh(ctx context.Context) error {
	_, err, _ := k.reads.Do("rows", func() (any, error) { return nil, k.refresh(ctx) })
	return err
}

func (k *Keeper) refresh(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), k.o.Timeout)
	defer cancel()
	before := map[string]held{}
	keys := make([]string, 0, len(all))
	for _, m := range all {
		before[m.name], keys = k.copy(m.name), append(keys, m.key)
	}
	rows, err := k.store.Switches(ctx, keys)
	if err != nil {
		k.o.Logger.DebugContext(ctx, "read the switches of the cell", "err", err)
		return err
	}
	var failed error
	for _, m := range all {
		k.meet(m, rows[m.key], before[m.name])
		if now := k.copy(m.name); !now.stored {
			_, err := k.offer(ctx, m, now)
			failed = cmp.Or(failed, err)
		}
		k.announce(m)
	}
	return failed
}

// meet compares the copy of a switch with its row. before is the copy as it was before the row was read.
func (k *Keeper) meet(m mode, row state.Switch, before held) {
	foreign := false
	k.take(m.name, "database", func(h *held) bool {
		switch {
		case row.Version > h.version, row.Version == h.version && row.On == h.on:
			h.on, h.version, h.stored, h.known = row.On, row.Version, true, true
		case row.Version == h.version, before.stored && before.version == h.version:
			// Written by hand, or by an older state of the database.
			foreign = row.On != h.on
			h.on, h.version, h.stored, h.known = row.On, later(h.version), false, true
		default:
			h.known = true // and what the row lacks is offered
		}
		return true
	})
	if foreign {
		k.o.Logger.Warn("the database has another "+m.says+" than it had, which holds now", "on", row.On, "version", row.Version)
	}
}

// offer brings a copy to the database and takes what that has instead, if it is later.
func (k *Keeper) offer(ctx context.Context, m mode, mine held) (row state.Switch, err error) {
	row, err = k.store.Offer(ctx, m.key, state.Switch{On: mine.on, Version: mine.version})
	if err != nil {
		return row, err
	}
	k.take(m.name, "database", func(h *held) bool {
		if row.Version < h.version {
			return false // it was turned meanwhile
		}
		h.on, h.version, h.stored, h.known = row.On, row.Version, true, true
		return true
	})
	return row, nil
}

func (k *Keeper) announce(m mode) {
	if now := k.copy(m.name); now.version > 0 {
		k.o.Mesh.AnnounceSwitch(mesh.Switch{Name: m.name, On: now.on, Version: now.version})
	}
}
