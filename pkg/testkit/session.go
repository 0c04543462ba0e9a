package testkit

import (
	"context"
	"crypto/rand"
	"fmt"
	"hash/fnv"
	"strings"
	"testing"

	"queen.internal/pkg/pg"
)

// Pool opens a pool of that many connections, whose sessions are called name, until the test ends.
func Pool(t testing.TB, cfg pg.Config, name string, size int) *pg.Pool {
	t.Helper()
	pool, err := pg.Open(context.WithoutCancel(t.Context()), cfg, pg.Options{Name: name, Size: size})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(pool.Close)
	return pool
}

// AwaitBlocked returns when a session of pool's database that is called name waits for a lock.
func AwaitBlocked(t testing.TB, pool *pg.Pool, name string) {
	t.Helper()
	awaitActivity(t, pool, "no session "+name+" waits for a lock", `EXISTS (SELECT FROM pg_stat_activity
		WHERE datname = current_database() AND application_name = $1 AND wait_event_type = 'Lock')`, name)
}

// AwaitGone returns when no session of pool's database is called name any more. What such a session counted is then in
// the server's statistics.
func AwaitGone(t testing.TB, pool *pg.Pool, name string) {
	t.Helper()
	awaitActivity(t, pool, "sessions "+name+" do not end", `NOT EXISTS (SELECT FROM pg_stat_activity
		WHERE datname = current_database() AND application_name = $1)`, name)
}

// awaitActivity looks again and again, at the server's pace, until the condition holds.
func awaitActivity(t testing.TB, pool *pg.Pool, otherwise, condition string, args ...any) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	for met := false; !met; {
		if err := pool.QueryRow(ctx, `SELECT `+condition+` FROM pg_sleep(0.005)`, args...).Scan(&met); err != nil {
			t.Fatalf("%s: %v", otherwise, err)
		}
	}
}

// Brake stops sessions called name on the server: each waits, in its transaction, where a trigger on table for event, such
// as "BEFORE INSERT" or "AFTER UPDATE", meets its first row, until release is called. The test's end releases too.
func Brake(t testing.TB, pool *pg.Pool, name, event, table string) (release func()) {
	t.Helper()
	function := "brake_" + strings.ToLower(rand.Text())
	key := advisoryKey(function)
	release = HoldKey(t, pool, key)
	for _, sql := range []string{
		fmt.Sprintf(`CREATE FUNCTION %s() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
			IF current_setting('application_name') = '%s' THEN PERFORM pg_advisory_xact_lock_shared(%d); END IF;
			RETURN NEW; END $$`, function, name, key),
		fmt.Sprintf(`CREATE TRIGGER %s %s ON %s FOR EACH ROW EXECUTE FUNCTION %s()`, function, event, table, function),
	} {
		if _, err := pool.Exec(t.Context(), sql); err != nil {
			t.Fatal(err)
		}
	}
	return release
}

// HoldKey takes an advisory lock exclusively, on a connection of pool that it keeps, until release is called or the test
// ends.
func HoldKey(t testing.TB, pool *pg.Pool, key int64) (release func()) {
	t.Helper()
	conn, err := pool.Acquire(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := conn.Exec(t.Context(), `SELECT pg_advisory_lock($1)`, key); err != nil {
		conn.Release()
		t.Fatal(err)
	}
	done := false
	release = func() {
		if done {
			return
		}
		done = true
		if _, err := conn.Exec(context.WithoutCancel(t.Context()), `SELECT pg_advisory_unlock($1)`, key); err != nil {
			t.Error(err)
		}
		conn.Release()
	}
	t.Cleanup(release)
	return release
}

// Deadlocks is how many the server has counted in pool's database. Sessions report with a delay, and at their end.
func Deadlocks(t testing.TB, pool *pg.Pool) (n int) {
	t.Helper()
	if err := pool.QueryRow(t.Context(), `SELECT deadlocks FROM pg_stat_database WHERE datname = current_database()`).Scan(&n); err != nil {
		t.Fatal(err)
	}
	return n
}

// StopCalls prepares queen.name, a function in PL/pgSQL, to be stopped: from hold on, each call of it by a session called
// session waits before the function's first statement, with the snapshot of its own statement taken and nothing locked,
// until what hold gave is called.
func StopCalls(t testing.TB, pool *pg.Pool, session, name string) (hold func() (release func())) {
	t.Helper()
	var text string
	err := pool.QueryRow(t.Context(), `SELECT pg_get_functiondef(oid) FROM pg_proc
		WHERE pronamespace = 'queen'::regnamespace AND proname = $1`, name).Scan(&text)
	if err != nil {
		t.Fatalf("find queen.%s: %v", name, err)
	}
	key, begin := advisoryKey(name+session), "\nBEGIN\n"
	if !strings.Contains(text, begin) {
		t.Fatalf("queen.%s does not BEGIN on a line of its own", name)
	}
	text = strings.Replace(text, begin, begin+fmt.Sprintf(
		"IF current_setting('application_name') = '%s' THEN PERFORM pg_advisory_xact_lock_shared(%d); END IF;\n", session, key), 1)
	if _, err := pool.Exec(t.Context(), text); err != nil {
		t.Fatalf("make queen.%s stop: %v", name, err)
	}
	return func() (release func()) {
		t.Helper()
		return HoldKey(t, pool, key)
	}
}

// advisoryKey is a key for pg_advisory_lock that belongs to name.
func advisoryKey(name string) int64 {
	sum := fnv.New32a()
	_, _ = sum.Write([]byte(name)) // never fails
	return int64(sum.Sum32())
}
