package pg_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/jackc/pgx/v5/pgxpool"

	"queen.internal/pkg/pg"
	"queen.internal/pkg/pgtest"
	"queen.internal/pkg/queue"
)

func backend(t *testing.T, conn *pgxpool.Conn) uint32 {
	t.Helper()
	return conn.Conn().PgConn().PID()
}

func acquire(t *testing.T, pool *pg.Pool) *pgxpool.Conn {
	t.Helper()
	conn, err := pool.Acquire(bounded(t))
	if err != nil {
		t.Fatal(err)
	}
	return conn
}

func TestSessionSettingsAreInForce(t *testing.T) {
	t.Parallel()
	cfg := pgtest.Empty(t).Config
	cfg.StatementTimeout, cfg.LockTimeout, cfg.IdleInTransactionTimeout = 7*time.Second, 1500*time.Millisecond, 9*time.Second
	pool := open(t, cfg)
	got := map[string]string{}
	want := map[string]string{
		"statement_timeout": "7s", "lock_timeout": "1500ms", "idle_in_transaction_session_timeout": "9s",
		"jit": "off", "plan_cache_mode": "force_generic_plan", "application_name": "pg test", "TimeZone": "UTC",
	}
	for name := range want {
		var value string
		if err := pool.QueryRow(bounded(t), `SELECT current_setting($1)`, name).Scan(&value); err != nil {
			t.Fatal(err)
		}
		got[name] = value
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Fatal(diff)
	}
}

func TestPoolSizeIsABound(t *testing.T) {
	t.Parallel()
	cfg := pgtest.Empty(t).Config
	cfg.PoolSize = 3
	if got := open(t, cfg).Config().MaxConns; got != 3 {
		t.Fatalf("pool of %d", got)
	}
	pool, err := pg.Open(t.Context(), cfg, pg.Options{Name: "lane", Size: 1})
	if err != nil {
		t.Fatal(err)
	}
	defer pool.Close()
	held := acquire(t, pool)
	defer held.Release()
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if err := pg.Ping(ctx, pool); queue.KindOf(err) != queue.KindUnavailable {
		t.Fatalf("an empty pool says %v (%v)", err, queue.KindOf(err))
	}
}

func TestAConnectionIsNotReusedAfterAStatementTimeout(t *testing.T) {
	t.Parallel()
	cfg := pgtest.Empty(t).Config
	cfg.StatementTimeout = 100 * time.Millisecond
	pool := open(t, cfg)
	conn := acquire(t, pool)
	first := backend(t, conn)
	_, err := conn.Exec(bounded(t), `SELECT pg_sleep(600)`)
	conn.Release()
	if !pg.Transient(err) || pg.Kind(err) != queue.KindUnavailable || pg.CommitUnknown(err) {
		t.Fatalf("%v: transient %v, kind %v, unknown %v", err, pg.Transient(err), pg.Kind(err), pg.CommitUnknown(err))
	}
	next := acquire(t, pool)
	defer next.Release()
	if backend(t, next) == first {
		t.Fatal("the timed out session was given out again")
	}
}

func TestASilentServerIsGivenUpByTheClient(t *testing.T) {
	t.Parallel()
	cfg := pgtest.Empty(t).Config
	cfg.StatementTimeout = 100 * time.Millisecond
	p, cfg := startProxy(t, cfg, "127.0.0.1:0")
	pool := open(t, cfg)
	conn := acquire(t, pool)
	p.silent.Store(true)
	_, err := conn.Exec(bounded(t), `SELECT 1`)
	p.silent.Store(false)
	p.cut() // the driver waits 15 s for the farewell of a connection it gave up
	conn.Release()
	if !errors.Is(err, context.DeadlineExceeded) || !pg.Transient(err) || !pg.CommitUnknown(err) {
		t.Fatalf("%v: transient %v, unknown %v", err, pg.Transient(err), pg.CommitUnknown(err))
	}
	if err := pg.Ping(bounded(t), pool); err != nil {
		t.Fatalf("after the silence: %v", err)
	}
}

func TestACutConnectionLeavesTheCommitUnknown(t *testing.T) {
	t.Parallel()
	db := pgtest.Empty(t)
	p, cfg := startProxy(t, db.Config, "127.0.0.1:0")
	pool := open(t, cfg)
	if _, err := db.Pool.Exec(bounded(t), `CREATE TABLE gate (n int)`); err != nil {
		t.Fatal(err)
	}
	// The gate keeps the statement under way until the connection is cut.
	tx, err := db.Pool.Begin(bounded(t))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := tx.Exec(bounded(t), `LOCK TABLE gate`); err != nil {
		t.Fatal(err)
	}
	conn := acquire(t, pool)
	defer conn.Release()
	done := make(chan error, 1)
	ctx := bounded(t)
	go func() {
		_, err := conn.Exec(ctx, `INSERT INTO gate VALUES (1)`)
		done <- err
	}()
	waitFor(t, db.Pool, `SELECT EXISTS (SELECT FROM pg_locks WHERE relation = 'gate'::regclass AND NOT granted)`)
	p.cut()
	if err := <-done; !pg.CommitUnknown(err) || !pg.Transient(err) {
		t.Fatalf("%v: unknown %v, transient %v", err, pg.CommitUnknown(err), pg.Transient(err))
	}
	if err := tx.Rollback(bounded(t)); err != nil {
		t.Fatal(err)
	}
}

func TestALockTimeoutLeavesTheConnectionUsable(t *testing.T) {
	t.Parallel()
	db := pgtest.Empty(t)
	cfg := db.Config
	cfg.LockTimeout = 50 * time.Millisecond
	pool := open(t, cfg)
	if _, err := db.Pool.Exec(bounded(t), `CREATE TABLE t (n int)`); err != nil {
		t.Fatal(err)
	}
	tx, err := db.Pool.Begin(bounded(t))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = tx.Rollback(bounded(t)) }()
	if _, err := tx.Exec(bounded(t), `LOCK TABLE t`); err != nil {
		t.Fatal(err)
	}
	conn := acquire(t, pool)
	defer conn.Release()
	if _, err := conn.Exec(bounded(t), `INSERT INTO t VALUES (1)`); !pg.Transient(err) || pg.CommitUnknown(err) {
		t.Fatalf("%v: transient %v, unknown %v", err, pg.Transient(err), pg.CommitUnknown(err))
	}
	if _, err := conn.Exec(bounded(t), `SELECT 1`); err != nil {
		t.Fatal(err)
	}
}

func TestAFrozenTransactionIsEndedByTheServer(t *testing.T) {
	t.Parallel()
	db := pgtest.Empty(t)
	cfg := db.Config
	cfg.IdleInTransactionTimeout = 50 * time.Millisecond
	pool := open(t, cfg)
	tx, err := pool.Begin(bounded(t))
	if err != nil {
		t.Fatal(err)
	}
	waitFor(t, db.Pool, `SELECT NOT EXISTS (SELECT FROM pg_stat_activity
		WHERE datname = current_database() AND application_name = 'pg test' AND state = 'idle in transaction')`)
	if _, err := tx.Exec(bounded(t), `SELECT 1`); !pg.Transient(err) {
		t.Fatalf("%v is not transient", err)
	}
	_ = tx.Rollback(bounded(t)) // gives the dead connection back
	if err := pg.Ping(bounded(t), pool); err != nil {
		t.Fatal(err)
	}
}

func TestAServerThatTurnsReadOnlyFlushesThePool(t *testing.T) {
	t.Parallel()
	db := pgtest.Empty(t)
	pool := open(t, db.Config)
	if _, err := db.Pool.Exec(bounded(t), `CREATE TABLE t (n int)`); err != nil {
		t.Fatal(err)
	}
	writer, idle := acquire(t, pool), acquire(t, pool)
	old := map[uint32]bool{backend(t, writer): true, backend(t, idle): true}
	idle.Release()
	if _, err := writer.Exec(bounded(t), `SET default_transaction_read_only = on`); err != nil {
		t.Fatal(err)
	}
	_, err := writer.Exec(bounded(t), `INSERT INTO t VALUES (1)`)
	writer.Release()
	if !pg.Transient(err) || pg.CommitUnknown(err) {
		t.Fatalf("%v: transient %v, unknown %v", err, pg.Transient(err), pg.CommitUnknown(err))
	}
	for range 2 {
		conn := acquire(t, pool)
		defer conn.Release()
		if old[backend(t, conn)] {
			t.Error("a connection from before the failover was given out")
		}
	}
}

func TestAReadOnlyDatabaseIsNotConnectedTo(t *testing.T) {
	t.Parallel()
	db := pgtest.Empty(t)
	if _, err := db.Pool.Exec(bounded(t), `ALTER DATABASE `+db.Config.Database+` SET default_transaction_read_only = on`); err != nil {
		t.Fatal(err)
	}
	pool := open(t, db.Config)
	if err := pg.Ping(bounded(t), pool); !pg.Transient(err) || pg.FatalAtBoot(err) || pg.CommitUnknown(err) {
		t.Fatalf("%v: transient %v, fatal %v, unknown %v", err, pg.Transient(err), pg.FatalAtBoot(err), pg.CommitUnknown(err))
	}
}

func TestATerminatedSessionIsReplaced(t *testing.T) {
	t.Parallel()
	db := pgtest.Empty(t)
	pool := open(t, db.Config)
	conn := acquire(t, pool)
	if _, err := db.Pool.Exec(bounded(t), `SELECT pg_terminate_backend($1, 60000)`, backend(t, conn)); err != nil {
		t.Fatal(err)
	}
	_, err := conn.Exec(bounded(t), `SELECT 1`)
	conn.Release()
	if !pg.Transient(err) || !pg.CommitUnknown(err) {
		t.Fatalf("%v: transient %v, unknown %v", err, pg.Transient(err), pg.CommitUnknown(err))
	}
	if err := pg.Ping(bounded(t), pool); err != nil {
		t.Fatal(err)
	}
}

func TestTheTimelineIsReadableWithoutSpecialRights(t *testing.T) {
	t.Parallel()
	tx := pgtest.Tx(t)
	role := "timeline_reader_" + queue.NewID().String()[24:]
	for _, sql := range []string{`CREATE ROLE ` + role, `SET LOCAL ROLE ` + role} {
		if _, err := tx.Exec(t.Context(), sql); err != nil {
			t.Fatal(err)
		}
	}
	var system, timeline int64
	if err := tx.QueryRow(t.Context(), pg.TimelineSQL).Scan(&system, &timeline); err != nil || system == 0 || timeline != 1 {
		t.Fatalf("system %d, timeline %d, %v", system, timeline, err)
	}
}

// waitFor asks the server until the answer is true: what another session is doing shows itself only to those who ask.
func waitFor(t *testing.T, pool *pg.Pool, question string) {
	t.Helper()
	for ctx := bounded(t); ; {
		var yes bool
		if err := pool.QueryRow(ctx, question).Scan(&yes); err != nil {
			t.Fatalf("%s: %v", question, err)
		}
		if yes {
			return
		}
	}
}
