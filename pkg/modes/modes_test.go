package modes_test

import (
	"context"
	"log/slog"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"queen.internal/pkg/config"
	"queen.internal/pkg/mesh"
	"queen.internal/pkg/modes"
	"queen.internal/pkg/pg"
	"queen.internal/pkg/pgtest"
	"queen.internal/pkg/testkit"
)

func TestMain(m *testing.M) { pgtest.Main(m, pgtest.CheckLeaks) }

// bench is a database and the processes of a cell, which hear nothing of each other but what the test passes on.
type bench struct {
	*testing.T
	database pgtest.Database
	proxy    *testkit.Proxy
	pool     *pg.Pool // the test's own
	current  chan struct{}
}

func setup(t *testing.T) *bench {
	b := &bench{T: t, database: pgtest.New(t), current: make(chan struct{})}
	b.pool = testkit.Pool(t, b.database.Config, "test", 1)
	b.proxy, _ = testkit.Between(t, b.database.Config)
	return b
}

// process is a keeper, and the mesh that it tells.
type process struct {
	*modes.Keeper
	mesh    *mesh.Mesh
	changed chan struct{}
}

// start makes a process that reaches the database through the proxy. file is its file, if it has one.
func (b *bench) start(file string) *process {
	b.Helper()
	cfg := b.database.Config
	cfg.Host, cfg.Port = "127.0.0.1", b.proxy.Port()
	settings := config.NewMesh()
	settings.SyncEnabled = false
	m, err := mesh.New(mesh.Options{Settings: settings, Role: "test", Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		b.Fatal(err)
	}
	p := &process{mesh: m, changed: make(chan struct{}, 100)}
	p.Keeper = modes.Open(modes.Options{
		Pool: testkit.Pool(b.T, cfg, "process", 2), Mesh: m, Current: b.current, Path: file, Timeout: patience,
		Changed: func() { p.changed <- struct{}{} }, Logger: slog.New(slog.DiscardHandler),
	})
	return p
}

// patience is a safety net for what must happen, not a measure of it.
const patience = 30 * time.Second

// setInVain turns a switch while the database is away.
func (b *bench) setInVain(p *process, name string, on bool) {
	b.Helper()
	b.proxy.Next(testkit.CutStatement, "offer_switch")
	b.set(p, name, on, false)
}

const push, pop = mesh.PushMaintenance, mesh.PopMaintenance

func (b *bench) set(p *process, name string, on, wantStored bool) {
	b.Helper()
	if stored, err := p.Set(b.Context(), name, on); err != nil || stored != wantStored {
		b.Fatalf("stored %t: %v", stored, err)
	}
}

func (b *bench) refresh(ps ...*process) {
	b.Helper()
	for _, p := range ps {
		if err := p.Refresh(b.Context()); err != nil {
			b.Fatal(err)
		}
	}
}

func (b *bench) is(p *process, name string, want bool) {
	b.Helper()
	began := false
	select {
	case <-p.Began(name):
		began = true
	default:
	}
	if p.On(name) != want || began != want {
		b.Errorf("%s is on: %t (has begun: %t)", name, p.On(name), began)
	}
}

// row is what the table says of a key.
func (b *bench) row(key string) (value string, version int64) {
	b.Helper()
	if err := b.pool.QueryRow(b.Context(), `SELECT value::text, version FROM queen.system_state WHERE key = $1`, key).Scan(&value, &version); err != nil {
		b.Fatal(err)
	}
	return value, version
}

func (b *bench) exec(sql string, args ...any) {
	b.Helper()
	if _, err := b.pool.Exec(b.Context(), sql, args...); err != nil {
		b.Fatal(err)
	}
}

func TestASwitchIsStoredAndReadByOthers(t *testing.T) {
	t.Parallel()
	b := setup(t)
	first, second := b.start(""), b.start("")
	b.is(first, push, false)
	b.set(first, push, true, true)
	b.is(first, push, true)
	if value, _ := b.row("maintenance_mode"); value != `{"enabled": true}` {
		t.Error(value)
	}
	b.is(second, push, false)
	b.refresh(second)
	b.is(second, push, true)
	b.is(second, pop, false)
	b.set(second, push, false, true)
	b.set(second, pop, true, true)
	b.refresh(first)
	b.is(first, push, false)
	b.is(first, pop, true)
	if value, _ := b.row("pop_maintenance_mode"); value != `{"enabled": true}` {
		t.Error(value)
	}
	if got := first.mesh.Switches(); len(got) != 2 || !got[0].On || got[1].On { // by name: pop, push
		t.Errorf("the mesh is told %+v", got)
	}
}

func TestTheMeshIsBelievedWhenItIsNewer(t *testing.T) {
	t.Parallel()
	b := setup(t)
	first, second := b.start(""), b.start("")
	b.set(first, pop, true, true)
	_, version := b.row("pop_maintenance_mode")
	second.Heard(mesh.Switch{Name: pop, On: true, Version: version})
	b.is(second, pop, true)
	second.Heard(mesh.Switch{Name: pop, Version: version})
	second.Heard(mesh.Switch{Name: pop, Version: version - 1})
	second.Heard(mesh.Switch{Name: "of a later release", On: true, Version: 1})
	b.is(second, pop, true)
	b.refresh(second)
	b.is(second, pop, true)
}

func TestWhatIsSetDuringAnOutageIsStoredAfterIt(t *testing.T) {
	t.Parallel()
	b := setup(t)
	first, second := b.start(""), b.start("")
	b.set(first, push, false, true)
	b.refresh(second)
	b.setInVain(first, push, true)
	b.is(first, push, true)
	told := first.mesh.Switches()
	if len(told) != 1 || !told[0].On {
		t.Fatalf("the mesh is told %+v", told)
	}
	b.proxy.Next(testkit.CutStatement, "read_switches")
	if err := first.Refresh(t.Context()); err == nil {
		t.Error("the database has answered")
	}
	b.is(first, push, true)
	b.proxy.Next(testkit.CutStatement, "offer_switch")
	if err := first.Refresh(t.Context()); err == nil {
		t.Error("the database has taken it")
	}
	b.is(first, push, true)
	b.refresh(first)
	b.is(first, push, true)
	if value, version := b.row("maintenance_mode"); value != `{"enabled": true}` || version != told[0].Version {
		t.Error(value, version)
	}
	b.refresh(second)
	b.is(second, push, true)
}

// It may have been stored although nobody was told.
func TestALostAnswerIsLookedUp(t *testing.T) {
	t.Parallel()
	b := setup(t)
	p := b.start("")
	b.proxy.Next(testkit.DropAnswer, "offer_switch")
	b.set(p, pop, true, false)
	value, version := b.row("pop_maintenance_mode")
	b.refresh(p)
	b.is(p, pop, true)
	if now, later := b.row("pop_maintenance_mode"); now != value || later != version {
		t.Error(now, later)
	}
}

// Whoever heard of it writes it, should the process that was asked have died meanwhile.
func TestPeersStoreWhatADeadProcessCouldNot(t *testing.T) {
	t.Parallel()
	b := setup(t)
	dies, lives := b.start(""), b.start("")
	b.refresh(dies, lives)
	b.setInVain(dies, pop, true)
	lives.Heard(dies.mesh.Switches()[0])
	b.refresh(lives)
	if value, _ := b.row("pop_maintenance_mode"); value != `{"enabled": true}` {
		t.Error(value)
	}
}

func TestALaterSwitchWinsOverOneOfTheOutage(t *testing.T) {
	t.Parallel()
	b := setup(t)
	cut, other := b.start(""), b.start("")
	b.refresh(cut, other)
	b.setInVain(cut, push, true)
	b.set(other, push, true, true)
	b.set(other, push, false, true)
	b.refresh(cut)
	b.is(cut, push, false)
	if value, _ := b.row("maintenance_mode"); value != `{"enabled": false}` {
		t.Error(value)
	}
}

func TestAProcessStartsWithItsFileAndWithoutADatabase(t *testing.T) {
	t.Parallel()
	b := setup(t)
	file := filepath.Join(t.TempDir(), "modes.json")
	first := b.start(file)
	b.set(first, push, true, true)
	b.setInVain(first, pop, true)
	second := b.start(file)
	b.is(second, push, true)
	b.is(second, pop, true)
	if !second.Known(push) || !second.Known(pop) {
		t.Error("what the file has is not known")
	}
	// What the database has not got yet is told to others, and to the database.
	if got := second.mesh.Switches(); len(got) != 1 || got[0].Name != pop {
		t.Errorf("the mesh is told %+v", got)
	}
	b.refresh(second)
	if value, _ := b.row("pop_maintenance_mode"); value != `{"enabled": true}` {
		t.Error(value)
	}
}

func TestAFileThatIsNoneCountsAsNone(t *testing.T) {
	t.Parallel()
	b := setup(t)
	file := filepath.Join(t.TempDir(), "modes.json")
	if err := os.WriteFile(file, []byte(`[{"key":"maintenance_mode","enab`), 0o600); err != nil {
		t.Fatal(err)
	}
	p := b.start(file)
	if p.Known(push) {
		t.Error("half a file is believed")
	}
	b.set(p, push, true, true)
	b.is(b.start(file), push, true)
}

// A file, or a process that has seen more, does not overrule a database that was restored.
func TestARestoredDatabaseCounts(t *testing.T) {
	t.Parallel()
	for name, restarted := range map[string]bool{"restarted": true, "running": false} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := setup(t)
			file := filepath.Join(t.TempDir(), "modes.json")
			p, other := b.start(file), b.start("")
			b.set(p, push, true, true)
			value, dumped := b.row("maintenance_mode")
			b.set(p, push, false, true)
			b.refresh(other)
			b.exec(`UPDATE queen.system_state SET value = $1, version = $2 WHERE key = 'maintenance_mode'`, value, dumped)
			if restarted {
				p = b.start(file)
				b.is(p, push, false)
			}
			b.refresh(p)
			b.is(p, push, true)
			b.refresh(other)
			b.is(other, push, true)
			if now, version := b.row("maintenance_mode"); now != value || version <= dumped {
				t.Error("the row is not the newest", now, version)
			}
			b.set(other, push, false, true)
			b.refresh(p)
			b.is(p, push, false)
		})
	}
}

func TestARowWrittenByHandCounts(t *testing.T) {
	t.Parallel()
	b := setup(t)
	p := b.start("")
	b.refresh(p)
	b.exec(`INSERT INTO queen.system_state (key, value) VALUES ('pop_maintenance_mode', '{"enabled":true}')`)
	b.refresh(p)
	b.is(p, pop, true)
	b.exec(`UPDATE queen.system_state SET value = '{"enabled":false}'`)
	b.refresh(p)
	b.is(p, pop, false)
	b.exec(`DELETE FROM queen.system_state`)
	b.refresh(p)
	b.is(p, pop, false)
}

func TestAClockThatIsAheadDoesNotWin(t *testing.T) {
	t.Parallel()
	b := setup(t)
	p := b.start("")
	ahead := time.Now().Add(24 * time.Hour).UnixMicro()
	b.exec(`INSERT INTO queen.system_state (key, value, version) VALUES ('maintenance_mode', '{"enabled":false}', $1)`, ahead)
	b.set(p, push, true, true)
	if value, version := b.row("maintenance_mode"); value != `{"enabled": true}` || version <= ahead {
		t.Error(value, version)
	}
}

func TestManyWhoTurnASwitchAgree(t *testing.T) {
	t.Parallel()
	b := setup(t)
	processes := []*process{b.start(""), b.start(""), b.start("")}
	var turning sync.WaitGroup
	for i, p := range processes {
		turning.Go(func() {
			for n := range 10 {
				// An error says that the others were quicker, several times.
				_, _ = p.Set(b.Context(), push, (i+n)%2 == 0)
			}
		})
	}
	turning.Wait()
	b.refresh(processes...)
	b.refresh(processes...)
	for _, p := range processes {
		b.is(p, push, processes[0].On(push))
	}
}

func TestAwaitAsksOnlyOnce(t *testing.T) {
	t.Parallel()
	b := setup(t)
	p := b.start("")
	b.exec(`INSERT INTO queen.system_state (key, value) VALUES ('pop_maintenance_mode', '{"enabled":true}')`)
	b.proxy.Next(testkit.CutStatement, "read_switches")
	if err := p.Await(t.Context(), pop); err == nil || p.Known(pop) {
		t.Error("it is known without having been told")
	}
	if err := p.Await(t.Context(), pop); err != nil {
		t.Fatal(err)
	}
	b.is(p, pop, true)
	asked := b.proxy.Count("read_switches")
	if err := p.Await(t.Context(), pop); err != nil || b.proxy.Count("read_switches") != asked {
		t.Error("it asks again", err)
	}
}

func TestRunReadsOnceTheSchemaIsThereAndStoresWhatIsHeard(t *testing.T) {
	t.Parallel()
	b := setup(t)
	file := filepath.Join(t.TempDir(), "modes.json")
	p := b.start(file)
	b.exec(`INSERT INTO queen.system_state (key, value) VALUES ('pop_maintenance_mode', '{"enabled":true}')`)
	ctx, stop := context.WithCancel(t.Context())
	var running sync.WaitGroup
	running.Go(func() {
		if err := p.Run(ctx); err != nil {
			t.Error(err)
		}
	})
	close(b.current)
	<-p.changed
	b.is(p, pop, true)
	before := b.proxy.Count("offer_switch")
	p.Heard(mesh.Switch{Name: push, On: true, Version: time.Now().UnixMicro()})
	b.proxy.AwaitCount(t, "offer_switch", before+1)
	stop()
	running.Wait()
	b.refresh(p)
	if value, _ := b.row("maintenance_mode"); value != `{"enabled": true}` {
		t.Error(value)
	}
	if data, err := os.ReadFile(file); err != nil || len(data) == 0 {
		t.Error("nothing is kept", err)
	}
}
