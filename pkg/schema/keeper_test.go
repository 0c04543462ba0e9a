package schema_test

import (
	"context"
	"log/slog"
	"strings"
	"testing"

	"queen.internal/pkg/pg"
	"queen.internal/pkg/pgtest"
	"queen.internal/pkg/queue"
	"queen.internal/pkg/schema"
)

// running is a Keeper whose Run is under way.
type running struct {
	*schema.Keeper
	stop func() error // ends Run and returns its error; may be called once
}

func start(t *testing.T, c schema.Corpus, pool *pg.Pool, apply bool, logger *slog.Logger) running {
	t.Helper()
	ctx, cancel := context.WithCancel(bounded(t))
	k := schema.NewKeeper(c, pool, apply, logger)
	done := make(chan error, 1)
	go func() { done <- k.Run(ctx) }()
	t.Cleanup(cancel)
	return running{k, func() error {
		cancel()
		return <-done
	}}
}

// become waits until the schema is current.
func (r running) become(t *testing.T) {
	t.Helper()
	select {
	case <-r.Current():
	case <-bounded(t).Done():
		t.Fatalf("not current: %v", r.Ready())
	}
	if err := r.Ready(); err != nil {
		t.Fatalf("current, but %v", err)
	}
	if err := r.stop(); err != nil {
		t.Fatal(err)
	}
}

// signal is a log that tells when a message came.
func signal(message string) (*records, <-chan struct{}) {
	came := make(chan struct{}, 1)
	return &records{seen: func(m string) {
		if m == message {
			select {
			case came <- struct{}{}:
			default:
			}
		}
	}}, came
}

func TestKeeperInstallsWhatItOwns(t *testing.T) {
	t.Parallel()
	pool := pgtest.Empty(t).Pool
	log := &records{}
	start(t, counting(1), pool, true, slog.New(log)).become(t)
	if runs := value[int](t, pool, `SELECT count(*) FROM queen.runs`); runs != 1 {
		t.Fatalf("installed %d times", runs)
	}
	if !log.contain("INFO schema is current version=1") || log.contain("WARN") {
		t.Fatalf("logged %q", log.list)
	}
	start(t, counting(1), pool, true, quiet()).become(t)
	if runs := value[int](t, pool, `SELECT count(*) FROM queen.runs`); runs != 1 {
		t.Fatalf("installed again, %d times", runs)
	}
}

func TestKeeperWaitsForTheOwnerAndNamesTheMissingVersion(t *testing.T) {
	t.Parallel()
	db := pgtest.Empty(t)
	role := "guest_" + queue.NewID().String()[24:]
	exec(t, db.Pool, `CREATE ROLE `+role+` LOGIN PASSWORD 'guest'`)
	apply(t, counting(1), db.Pool)
	exec(t, db.Pool, `GRANT USAGE ON SCHEMA queen TO `+role)
	exec(t, db.Pool, `GRANT SELECT ON ALL TABLES IN SCHEMA queen TO `+role)
	t.Cleanup(func() {
		for _, sql := range []string{`DROP OWNED BY ` + role, `DROP ROLE ` + role} {
			if _, err := db.Pool.Exec(context.Background(), sql); err != nil {
				t.Error(err)
			}
		}
	})
	cfg := db.Config
	cfg.User, cfg.Password = role, "guest"
	guest, err := pg.Open(t.Context(), cfg, pg.Options{Name: "guest"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(guest.Close)

	log, waiting := signal("waiting for the schema")
	k := start(t, counting(2), guest, true, slog.New(log))
	<-waiting
	const want = "schema version 2 is missing: the database has 1; this database role does not own it, waiting for its owner"
	if err := k.Ready(); err == nil || err.Error() != want {
		t.Fatalf("readiness says %v, want %s", err, want)
	}
	apply(t, counting(2), db.Pool)
	k.become(t)
}

func TestKeeperInstallsNothingWhenToldSo(t *testing.T) {
	t.Parallel()
	pool := pgtest.Empty(t).Pool
	log, waiting := signal("waiting for the schema")
	k := start(t, counting(1), pool, false, slog.New(log))
	<-waiting
	if err := k.Ready(); err == nil || !strings.Contains(err.Error(), "schema version 1 is missing: none is installed; QUEEN_APPLY_SCHEMA is off") {
		t.Fatalf("readiness says %v", err)
	}
	if value[bool](t, pool, `SELECT to_regnamespace('queen') IS NOT NULL`) {
		t.Fatal("the catalog was touched")
	}
	apply(t, counting(1), pool)
	k.become(t)
}

func TestKeeperWaitsForADatabaseThatIsAway(t *testing.T) {
	t.Parallel()
	db, admin := pgtest.Empty(t), pgtest.Empty(t).Pool
	exec(t, admin, `ALTER DATABASE `+db.Config.Database+` ALLOW_CONNECTIONS false`)
	log, waiting := signal("waiting for the database")
	k := start(t, counting(1), db.Pool, true, slog.New(log))
	if err := k.Ready(); err == nil {
		t.Fatal("ready before the database was asked")
	}
	<-waiting
	if err := k.Ready(); err == nil || !strings.Contains(err.Error(), "not currently accepting connections") {
		t.Fatalf("readiness says %v", err)
	}
	exec(t, admin, `ALTER DATABASE `+db.Config.Database+` ALLOW_CONNECTIONS true`)
	k.become(t)
}

func TestKeeperEndsWhenTheFirstConnectionIsRefused(t *testing.T) {
	t.Parallel()
	cfg := pgtest.Empty(t).Config
	for name, change := range map[string]func(*pg.Config){
		"WrongPassword": func(c *pg.Config) { c.Password = "not-the-password" },
		"NoDatabase":    func(c *pg.Config) { c.Database = "no_such_database" },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			cfg := cfg
			change(&cfg)
			pool, err := pg.Open(t.Context(), cfg, pg.Options{})
			if err != nil {
				t.Fatal(err)
			}
			defer pool.Close()
			err = schema.NewKeeper(counting(1), pool, true, quiet()).Run(bounded(t))
			if !pg.FatalAtBoot(err) || strings.Contains(err.Error(), "\n") {
				t.Fatalf("got %v", err)
			}
		})
	}
}

func TestKeeperOutlivesAnInstallationThatIsRefused(t *testing.T) {
	t.Parallel()
	pool := pgtest.Empty(t).Pool
	c := corpus(1, map[string]string{"schema/010_a.sql": "\nCREATE TABLE IF NOT EXISTS queen.b (n queen.missing);"})
	log, failed := signal("schema apply failed")
	k := start(t, c, pool, true, slog.New(log))
	<-failed
	if err := k.Ready(); err == nil || !strings.Contains(err.Error(), "schema/010_a.sql:2: ERROR") {
		t.Fatalf("readiness says %v", err)
	}
	exec(t, pool, `CREATE TYPE queen.missing AS ENUM ('a')`)
	k.become(t)
}

func TestKeeperWarnsOfAServerThatForgets(t *testing.T) {
	t.Parallel()
	db := pgtest.Empty(t)
	exec(t, db.Pool, `ALTER DATABASE `+db.Config.Database+` SET synchronous_commit = off`)
	forgetful, err := pg.Open(t.Context(), db.Config, pg.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(forgetful.Close)
	log, warned := signal("synchronous_commit is off: a crash of PostgreSQL loses messages that were acknowledged")
	k := start(t, counting(1), forgetful, true, slog.New(log))
	select {
	case <-warned:
	case <-bounded(t).Done():
		t.Fatalf("logged %q", log.list)
	}
	if err := k.stop(); err != nil {
		t.Fatal(err)
	}
}

func TestKeeperStopsAtAnyMoment(t *testing.T) {
	t.Parallel()
	pool := pgtest.Empty(t).Pool
	for _, moment := range []string{"schema apply begins", "schema apply done", "schema is current"} {
		log, came := signal(moment)
		c := counting(1)
		c.Hash = moment // another text each time, so that each is an installation
		k := start(t, c, pool, true, slog.New(log))
		<-came
		if err := k.stop(); err != nil {
			t.Fatalf("stopped at %q: %v", moment, err)
		}
	}
	start(t, counting(1), pool, true, quiet()).become(t)
}
