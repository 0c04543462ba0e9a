package schema_test

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sync/errgroup"

	"queen.internal/pkg/pg"
	"queen.internal/pkg/pgtest"
	"queen.internal/pkg/schema"
)

func TestFreshInstallIsCompleteAndCurrent(t *testing.T) {
	t.Parallel()
	pool := pgtest.Empty(t).Pool
	var missing *schema.MissingError
	if err := schema.Check(bounded(t), pool, quiet()); !errors.As(err, &missing) {
		t.Fatalf("an empty database is said to be %v", err)
	}
	if err := schema.Apply(bounded(t), pool, quiet()); err != nil {
		t.Fatal(err)
	}
	log := &records{}
	if err := schema.Check(bounded(t), pool, slog.New(log)); err != nil || log.contain("WARN") {
		t.Fatalf("after the installation: %v, logged %q", err, log.list)
	}
}

// What an installation of another text does to a database that has everything already.
func TestReinstallingTheSameFilesChangesNoCatalogEntry(t *testing.T) {
	t.Parallel()
	pool := pgtest.DB(t)
	before := catalog(t, pool)
	c := schema.Broker()
	c.Hash = strings.Repeat("0", 64)
	apply(t, c, pool)
	if after := catalog(t, pool); before != after {
		t.Fatalf("the catalog differs:\n%s\n--- after\n%s", before, after)
	}
}

func TestApplyDoesNothingWhenTheFingerprintMatches(t *testing.T) {
	t.Parallel()
	pool := pgtest.Empty(t).Pool
	c := counting(1)
	apply(t, c, pool)
	before := value[string](t, pool, `SELECT applied_at::text FROM queen.schema_version`)

	// Not even the lock is asked for: another installer holds it all the while.
	holder, err := pool.Acquire(bounded(t))
	if err != nil {
		t.Fatal(err)
	}
	defer holder.Release()
	if _, err := holder.Exec(bounded(t), `SELECT pg_advisory_lock($1)`, int64(schema.LockKey)); err != nil {
		t.Fatal(err)
	}
	apply(t, c, pool)
	if runs := value[int](t, pool, `SELECT count(*) FROM queen.runs`); runs != 1 {
		t.Fatalf("installed %d times", runs)
	}
	if after := value[string](t, pool, `SELECT applied_at::text FROM queen.schema_version`); after != before {
		t.Fatalf("recorded again: %s, before %s", after, before)
	}
	if _, err := holder.Exec(bounded(t), `SELECT pg_advisory_unlock($1)`, int64(schema.LockKey)); err != nil {
		t.Fatal(err)
	}
}

// applyAtOnce installs c three times at the same moment, each time as a process of its own would.
func applyAtOnce(t *testing.T, c schema.Corpus, cfg pg.Config) {
	t.Helper()
	cfg.PoolSize = 1
	ctx := bounded(t)
	var g errgroup.Group
	for range 3 {
		pool, err := pg.Open(t.Context(), cfg, pg.Options{Name: "installer"})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(pool.Close)
		g.Go(func() error { return c.Apply(ctx, pool, quiet()) })
	}
	if err := g.Wait(); err != nil {
		t.Fatal(err)
	}
}

func TestSeveralProcessesAtOnceInstallTheBroker(t *testing.T) {
	t.Parallel()
	db := pgtest.Empty(t)
	applyAtOnce(t, schema.Broker(), db.Config)
	if diff := cmp.Diff(catalog(t, pgtest.DB(t)), catalog(t, db.Pool)); diff != "" {
		t.Fatalf("not what one process installs:\n%s", diff)
	}
}

func TestSeveralProcessesAtOnceInstallOnce(t *testing.T) {
	t.Parallel()
	db := pgtest.Empty(t)
	applyAtOnce(t, counting(1), db.Config)
	if runs := value[int](t, db.Pool, `SELECT count(*) FROM queen.runs`); runs != 1 {
		t.Fatalf("installed %d times", runs)
	}
	if held := value[bool](t, db.Pool, `SELECT EXISTS (SELECT FROM pg_locks WHERE locktype = 'advisory'
		AND database = (SELECT oid FROM pg_database WHERE datname = current_database()))`); held {
		t.Fatal("the installers' lock is still held")
	}
}

func TestAnInstallerWaitsForAnotherUntilItsContextEnds(t *testing.T) {
	t.Parallel()
	pool := pgtest.Empty(t).Pool
	holder, err := pool.Acquire(bounded(t))
	if err != nil {
		t.Fatal(err)
	}
	defer holder.Release()
	if _, err := holder.Exec(bounded(t), `SELECT pg_advisory_lock($1)`, int64(schema.LockKey)); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(bounded(t))
	defer cancel()
	log := &records{seen: func(message string) {
		if strings.Contains(message, "another process installs") {
			cancel()
		}
	}}
	if err := counting(1).Apply(ctx, pool, slog.New(log)); !errors.Is(err, context.Canceled) {
		t.Fatalf("got %v", err)
	}
	if _, err := holder.Exec(bounded(t), `SELECT pg_advisory_unlock($1)`, int64(schema.LockKey)); err != nil {
		t.Fatal(err)
	}
}

func TestVersionsMeet(t *testing.T) {
	t.Parallel()
	type world struct {
		*testing.T
		pool *pg.Pool
		log  *records
	}
	// interrupted begins to install version and fails half-way.
	interrupted := func(w world, version int) {
		w.Helper()
		c := corpus(version, map[string]string{"schema/010_broken.sql": "SELECT 1 / 0"})
		if err := c.Apply(bounded(w.T), w.pool, quiet()); err == nil {
			w.Fatal("the broken corpus was installed")
		}
	}
	for name, tc := range map[string]struct {
		before  func(w world)
		version int
		applied bool   // the binary's files were installed
		works   bool   // the binary can work on what is there
		state   string // afterwards
		logged  string
	}{
		"NewerReplacesOlder":     {func(w world) { apply(w.T, counting(1), w.pool) }, 2, true, true, "2 complete", "schema apply done"},
		"OlderLeavesNewerAlone":  {func(w world) { apply(w.T, counting(3), w.pool) }, 2, false, true, "3 complete", "schema is newer than this binary"},
		"SameVersionOtherText":   {func(w world) { apply(w.T, corpus(2, nil), w.pool) }, 2, true, true, "2 complete", "schema apply done"},
		"OwnInterruptionHeals":   {func(w world) { interrupted(w, 2) }, 2, true, true, "2 complete", "schema apply done"},
		"OlderInterruptionHeals": {func(w world) { interrupted(w, 1) }, 2, true, true, "2 complete", "schema apply done"},
		"NewerInterruptedOverUsable": {func(w world) {
			apply(w.T, counting(2), w.pool)
			interrupted(w, 3)
			exec(w.T, w.pool, `TRUNCATE queen.runs`)
		}, 2, false, true, "2 3", "schema is newer than this binary"},
		"NewerInterruptedOverNothing": {func(w world) { interrupted(w, 3) }, 2, false, false, "0 3", ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := world{t, pgtest.Empty(t).Pool, &records{}}
			tc.before(w)
			err := counting(tc.version).Apply(bounded(t), w.pool, slog.New(w.log))
			var missing *schema.MissingError
			if tc.works != (err == nil) || !tc.works && !errors.As(err, &missing) {
				t.Fatalf("apply: %v", err)
			}
			if err := counting(tc.version).Check(bounded(t), w.pool, quiet()); tc.works != (err == nil) {
				t.Fatalf("check: %v", err)
			}
			applied := value[bool](t, w.pool, `SELECT to_regclass('queen.runs') IS NOT NULL`) &&
				value[bool](t, w.pool, `SELECT EXISTS (SELECT FROM queen.runs WHERE version = 2)`)
			if applied != tc.applied {
				t.Errorf("installed: %v, want %v", applied, tc.applied)
			}
			if state := value[string](t, w.pool, `SELECT concat_ws(' ', version, coalesce(installing::text, 'complete')) FROM queen.schema_version`); state != tc.state {
				t.Errorf("state %q, want %q", state, tc.state)
			}
			if !w.log.contain(tc.logged) && tc.logged != "" {
				t.Errorf("logged %q, want %q", w.log.list, tc.logged)
			}
		})
	}
}

func TestMissingErrorNamesTheVersions(t *testing.T) {
	t.Parallel()
	for want, err := range map[string]*schema.MissingError{
		"schema version 2 is missing: none is installed":                                       {Need: 2},
		"schema version 2 is missing: the database has 1":                                      {Need: 2, Have: 1},
		"schema version 2 is missing: the database has 1, the installation of 2 has not ended": {Need: 2, Have: 1, Installing: 2},
		"schema version 2 is missing: none is installed, the installation of 3 has not ended":  {Need: 2, Installing: 3},
	} {
		if got := err.Error(); got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}
