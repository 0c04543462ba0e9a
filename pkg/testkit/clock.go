package testkit

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"testing"
	"time"

	"queen.internal/pkg/pg"
	"queen.internal/pkg/pgserver"
	"queen.internal/pkg/pgtest"
	"queen.internal/pkg/schema"
)

// clockVariable set to "required" fails tests that would have to simulate steps of the clock.
const clockVariable = "TEST_FAKETIME"

// ClockDatabase is a database with the current schema whose clock a test may move. Where libfaketime is installed it is
// on a server of its own that runs under it; elsewhere a step of the clock is simulated by moving all stored times the
// other way, which is the same to whoever compares the two.
type ClockDatabase struct {
	Config pg.Config
	Pool   *pg.Pool
	file   string // where libfaketime reads the offset; empty: simulated
	offset time.Duration
}

// NewClockDatabase returns a database at the right time. It ends with the test.
func NewClockDatabase(t testing.TB) *ClockDatabase {
	t.Helper()
	library := faketime()
	if library == "" && os.Getenv(clockVariable) == "required" {
		t.Fatal(advice)
	}
	return newClockDatabase(t, library)
}

const advice = "libfaketime is not installed (Debian: apt-get install faketime)"

func newClockDatabase(t testing.TB, library string) *ClockDatabase {
	t.Helper()
	if library == "" {
		t.Log(advice + ": steps of the clock are simulated on the stored times")
		db := pgtest.New(t)
		return &ClockDatabase{Config: db.Config, Pool: db.Pool}
	}
	d := &ClockDatabase{file: filepath.Join(sharedFolder(t), "offset")}
	d.write(t)
	d.start(t, library)
	return d
}

// Real says that the server's own clock steps.
func (d *ClockDatabase) Real() bool { return d.file != "" }

// Step moves the clock.
func (d *ClockDatabase) Step(t testing.TB, by time.Duration) {
	t.Helper()
	d.offset += by
	if d.file == "" {
		d.shift(t, -by)
		return
	}
	d.write(t)
	var now time.Time
	if err := d.Pool.QueryRow(t.Context(), `SELECT clock_timestamp()`).Scan(&now); err != nil {
		t.Fatal(err)
	}
	if off := time.Until(now) - d.offset; off.Abs() > time.Minute {
		t.Fatalf("the server's clock is %v off after a step of %v", off, by)
	}
}

// write replaces the file at once, so that no reader sees half of it.
func (d *ClockDatabase) write(t testing.TB) {
	t.Helper()
	text := fmt.Sprintf("%+d\n", int64(d.offset/time.Second))
	if err := os.WriteFile(d.file+".new", []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(d.file+".new", d.file); err != nil {
		t.Fatal(err)
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

// start runs a server under the library, through stand-ins for the two programs that pgserver starts.
func (d *ClockDatabase) start(t testing.TB, library string) {
	t.Helper()
	binaries, err := pgserver.Find()
	if err != nil {
		t.Fatal(err)
	}
	programs := sharedFolder(t)
	// No cache: each reading looks into the file. The monotonic clock stays, as in a step of the real one.
	preload := fmt.Sprintf("exec env LD_PRELOAD=%s FAKETIME_TIMESTAMP_FILE=%s FAKETIME_NO_CACHE=1 FAKETIME_DONT_FAKE_MONOTONIC=1 "+
		"NO_FAKE_STAT=1 FAKETIME_DISABLE_SHM=1 %s/postgres \"$@\"", library, d.file, binaries.Folder)
	for name, line := range map[string]string{"postgres": preload, "initdb": fmt.Sprintf("exec %s/initdb \"$@\"", binaries.Folder)} {
		if err := os.WriteFile(filepath.Join(programs, name), []byte("#!/bin/sh\n"+line+"\n"), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	server, err := pgserver.Start(ctx, pgserver.Options{Throwaway: true, Binaries: pgserver.Binaries{Folder: programs, Major: binaries.Major}})
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

// faketime is where Debian, Red Hat or a build from source put the library; empty where it is not.
func faketime() string {
	for _, pattern := range []string{"/usr/lib/*/faketime", "/usr/lib/faketime", "/usr/lib64/faketime", "/usr/local/lib/faketime"} {
		found, _ := filepath.Glob(pattern + "/libfaketime.so.1") // the patterns are constants and well formed
		if len(found) > 0 {
			return found[0]
		}
	}
	return ""
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
