package pgtest

import (
	"context"
	"crypto/rand"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"queen.internal/pkg/pg"
)

// Database is one test's own database.
type Database struct {
	// Pool has at most four connections and is closed at the end of the test.
	Pool *pgxpool.Pool
	// DSN is a connection string for programs that make their own connections.
	DSN string
	// Config is the same for code that uses pkg/pg.
	Config pg.Config
}

// DB returns a pool on a fresh database with the current schema. Both end with the test.
func DB(t testing.TB) *pgxpool.Pool {
	t.Helper()
	return New(t).Pool
}

// New is DB with the ways to connect again.
func New(t testing.TB) Database {
	t.Helper()
	source, err := template()
	if err != nil {
		t.Fatal(err)
	}
	return clone(t, source)
}

// Empty returns a database without any schema, for tests of what installs it.
func Empty(t testing.TB) Database {
	t.Helper()
	return clone(t, "template0")
}

// Tx returns a transaction on a database that many tests share; it is rolled back at the end of the test. It takes under
// a millisecond, but suits only code that needs neither a commit nor a second connection.
func Tx(t testing.TB) pgx.Tx {
	t.Helper()
	pool, err := rollbackPool()
	if err != nil {
		t.Fatal(err)
	}
	tx, err := pool.Begin(t.Context())
	if err != nil {
		t.Fatalf("begin on the shared test database: %v", err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), workLimit)
		defer cancel()
		_ = tx.Rollback(ctx) // a test may have ended it, or its connection; nothing was committed then either
	})
	return tx
}

// clone copies files rather than going through the log: 60 ms instead of several hundred.
func clone(t testing.TB, source string) Database {
	t.Helper()
	h, err := shared()
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), workLimit)
	defer cancel()
	name := freshName()
	if err := h.copyDatabase(ctx, source, name); err != nil {
		t.Fatalf("clone %s: %v", source, err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), workLimit)
		defer cancel()
		if err := h.execute(ctx, `DROP DATABASE IF EXISTS `+quote(name)+` WITH (FORCE)`); err != nil {
			t.Errorf("drop the test's database: %v", err)
		}
	})
	config := h.database(name)
	// The pool outlives this function, so it does not get its context.
	pool, err := pg.Open(context.WithoutCancel(ctx), config, pg.Options{Name: "test"})
	if err != nil {
		t.Fatalf("open the test's database: %v", err)
	}
	t.Cleanup(func() { closePool(t, pool) })
	return Database{Pool: pool, DSN: dsn(config), Config: config}
}

func (h *host) copyDatabase(ctx context.Context, source, name string) error {
	return h.execute(ctx, `CREATE DATABASE `+quote(name)+` TEMPLATE `+quote(source)+` STRATEGY file_copy`)
}

func freshName() string { return "queen_test_" + strings.ToLower(rand.Text()[:16]) }

// closePool turns a connection that was never given back into a failure; the pool's Close alone would wait for ever.
func closePool(t testing.TB, pool *pgxpool.Pool) {
	t.Helper()
	closed := make(chan struct{})
	go func() {
		pool.Close()
		close(closed)
	}()
	limit := time.NewTimer(15 * time.Second)
	defer limit.Stop()
	select {
	case <-closed:
	case <-limit.C:
		t.Errorf("%d connections of the test's pool were not given back", pool.Stat().AcquiredConns())
	}
}

// rollbackDatabase is the database of Tx; Main drops it.
type rollbackDatabase struct {
	name string
	pool *pgxpool.Pool
}

var (
	rollback     rollbackDatabase // written once by rollbackPool, read by Main after all tests
	rollbackPool = sync.OnceValues(func() (*pgxpool.Pool, error) {
		source, err := template()
		if err != nil {
			return nil, err
		}
		h, err := shared()
		if err != nil {
			return nil, err
		}
		ctx, cancel := context.WithTimeout(context.Background(), workLimit)
		defer cancel()
		name := freshName()
		if err := h.copyDatabase(ctx, source, name); err != nil {
			return nil, err
		}
		// Each test holds one connection, and as many tests run as there are processors.
		pool, err := pg.Open(context.Background(), h.database(name), pg.Options{Name: "test", Size: 2 * connectionsPerTest})
		rollback = rollbackDatabase{name: name, pool: pool}
		return pool, err
	})
)
