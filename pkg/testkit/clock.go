package testkit

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"testing"
	"time"

	"queen.internal/pkg/pg"
	"queen.internal/pkg/pgserver"
	"queen.internal/pkg/pgtest"
	"queen.internal/pkg/schema"
	"queen.internal/pkg/testkit/faketime"
)

// clockVariable set to "required" fails tests that would have to simulate steps of the clock.
const clockVariable = "TEST_FAKETIME"

// ClockDatabase is a database with the current schema whose clock a test may move. Where libfaketime is installed it is
// on a server of its own that runs under it; elsewhere a step of the clock is simulated by moving all stored times the
// other way, which is the same to whoever compares the two.
type ClockDatabase struct {
	Config pg.Config
	Pool   *pg.Pool
	clock  *faketime.Clock // nil: simulated
	offset time.Duration
}

// NewClockDatabase returns a database at the right time. It ends with the test.
func NewClockDatabase(t testing.TB) *ClockDatabase {
	t.Helper()
	if !faketime.Installed() && os.Getenv(clockVariable) == "required" {
		t.Fatal(faketime.ErrNotInstalled)
	}
	return newClockDatabase(t, faketime.Installed())
}

func newClockDatabase(t testing.TB, real bool) *ClockDatabase {
	t.Helper()
	if !real {
		t.Logf("%v: steps of the clock are simulated on the stored times", faketime.ErrNotInstalled)
		db := pgtest.New(t)
		return &ClockDatabase{Config: db.Config, Pool: db.Pool}
	}
	d := &ClockDatabase{}
	d.start(t)
	return d
}

// Real says that the server's own clock steps.
func (d *ClockDatabase) Real() bool { return d.clock != nil }

// Step moves the clock.
func (d *ClockDatabase) Step(t testing.TB, by time.Duration) {
	t.Helper()
	d.offset += by
	if d.clock == nil {
		d.shift(t, -by)
		return
	}
	if err := d.clock.Set(d.offset); err != nil {
		t.Fatal(err)
	}
	var now time.Time
	if err := d.Pool.QueryRow(t.Context(), `SELECT clock_timestamp()`).Scan(&now); err != nil {
		t.Fatal(err)
	}
	if off := time.Until(now) - d.offset; off.Abs() > time.Minute {
		t.Fatalf("the server's clock is %v off after a step of %v", off, by)
	}
}

// shift moves every time that is stored; what is generated from one follows.
func (d *ClockDatabase) shift(t testing.TB, by time.Duration) {
	t.Helper()
	_, err := d.Pool.Exec(t.Context(), fmt.Sprintf(`DO $$
		DECLARE v_table record;
		BEGIN
			FOR v_table IN
				SELECT a.attrelid::regclass AS name, string_agg(format('%%1$I = %%1$I + interval ''%d us''', a.attname), ', ') AS sets
				FROM pg_attribute a JOIN pg_class c ON c.oid = a.attrelid
				WHERE c.relnamespace = 'queen'::regnamespace AND c.relkind = 'r' AND a.atttypid = 'timestamptz'::regtype AND NOT a.attisdropped
					AND a.attgenerated = ''
				GROUP BY a.attrelid
			LOOP
				EXECUTE format('UPDATE %%s SET %%s', v_table.name, v_table.sets);
			END LOOP;
		END $$`, by.Microseconds()))
	if err != nil {
		t.Fatal(err)
	}
}

// start runs a server under libfaketime.
func (d *ClockDatabase) start(t testing.TB) {
	t.Helper()
	clock, binaries, err := faketime.New(sharedFolder(t))
	if err != nil {
		t.Fatal(err)
	}
	d.clock = clock
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	server, err := pgserver.Start(ctx, pgserver.Options{Throwaway: true, Binaries: binaries})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := server.Stop(context.Background()); err != nil {
			t.Error(err)
		}
	})
	d.Config = pg.Config{
		Host: "127.0.0.1", Port: server.Port(), User: "postgres", Password: server.Password(), Database: "postgres", PoolSize: 4,
	}
	d.Pool = Pool(t, d.Config, "test", d.Config.PoolSize)
	if err := schema.Apply(ctx, d.Pool, slog.New(slog.DiscardHandler)); err != nil {
		t.Fatal(err)
	}
}

// sharedFolder is a folder of the test that the server's account can read.
func sharedFolder(t testing.TB) string {
	t.Helper()
	folder, err := os.MkdirTemp("", "queen-clock-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := os.RemoveAll(folder); err != nil {
			t.Error(err)
		}
	})
	if err := os.Chmod(folder, 0o755); err != nil {
		t.Fatal(err)
	}
	return folder
}
