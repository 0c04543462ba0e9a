package schema_test

import (
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"

	"queen.internal/pkg/pg"
	"queen.internal/pkg/pgtest"
	"queen.internal/pkg/queue"
	"queen.internal/pkg/schema"
)

func TestErrorsNameFileAndLine(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		text string
		want string
	}{
		"SyntaxError":        {"-- é\nSELECT 1;\n\nSELECT 'é'\n  FROM FROM x;\n", "schema/020_b.sql:5: ERROR: syntax error"},
		"UnknownTable":       {"SELECT 1;\nSELECT *\n\nFROM\nqueen.nowhere;", `schema/020_b.sql:5: ERROR: relation "queen.nowhere" does not exist`},
		"FunctionBody":       {"\nCREATE FUNCTION queen.f() RETURNS int LANGUAGE plpgsql AS $$\nBEGIN\n  RETRUN 1;\nEND $$;", "schema/020_b.sql:4: ERROR: syntax error"},
		"WithoutAPosition":   {"\n\nSELECT 1 / 0;", "schema/020_b.sql:3: ERROR: division by zero"},
		"InAGroupOfDrops":    {"DROP TABLE IF EXISTS queen.x;\nDROP TABLE IF EXISTS queen.y;\nCREATE TABLE\nqueen.x (n nothing);", "schema/020_b.sql:4: ERROR: type \"nothing\""},
		"CannotBeSplit":      {"SELECT 1;\nSELECT 'a", "schema/020_b.sql: line 2: text after ' has no end"},
		"UnqualifiedIsError": {"\nCREATE TABLE x (n int);", "schema/020_b.sql:2: ERROR: no schema has been selected to create in"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			pool := pgtest.Empty(t).Pool
			files := map[string]string{"schema/010_a.sql": "CREATE TABLE IF NOT EXISTS queen.a (n int);", "schema/020_b.sql": tc.text}
			err := corpus(1, files).Apply(bounded(t), pool, quiet())
			if err == nil || !strings.Contains(err.Error(), tc.want) {
				t.Fatalf("got %v, want %q", err, tc.want)
			}
			// What came before stays, and the repaired files go over it.
			files["schema/020_b.sql"] = "SELECT 1;"
			apply(t, corpus(1, files), pool)
		})
	}
}

func TestEveryStatementIsATransactionOfItsOwn(t *testing.T) {
	t.Parallel()
	pool := pgtest.Empty(t).Pool
	c := corpus(1, map[string]string{"schema/010_a.sql": `
		CREATE TABLE queen.a (n int);
		CREATE INDEX CONCURRENTLY IF NOT EXISTS a_n ON queen.a (n);
		INSERT INTO queen.a VALUES (1);
		SELECT 1 / 0;
		INSERT INTO queen.a VALUES (2);`})
	var statement *schema.StatementError
	if err := c.Apply(bounded(t), pool, quiet()); !errors.As(err, &statement) || statement.Line != 5 {
		t.Fatalf("got %v", err)
	}
	if n := value[int](t, pool, `SELECT sum(n) FROM queen.a`); n != 1 {
		t.Fatalf("the rows add up to %d, want the one before the error", n)
	}
}

func TestDropsShareTheTransactionOfTheNextStatement(t *testing.T) {
	t.Parallel()
	pool := pgtest.Empty(t).Pool
	create := "CREATE OR REPLACE FUNCTION queen.f() RETURNS int LANGUAGE sql AS $$ SELECT 1 $$;"
	apply(t, corpus(1, map[string]string{"procedures/f.sql": create}), pool)

	broken := "DROP FUNCTION IF EXISTS queen.f(int);\nDROP FUNCTION IF EXISTS queen.f();\nCREATE FUNCTION queen.f() RETURNS nothing LANGUAGE sql AS $$ SELECT 2 $$;"
	if err := corpus(2, map[string]string{"procedures/f.sql": broken}).Apply(bounded(t), pool, quiet()); err == nil {
		t.Fatal("the broken function was installed")
	}
	if n := value[int](t, pool, `SELECT queen.f()`); n != 1 {
		t.Fatalf("the function answers %d", n)
	}
	apply(t, corpus(2, map[string]string{"procedures/f.sql": strings.Replace(broken, "nothing", "int", 1)}), pool)
	if n := value[int](t, pool, `SELECT queen.f()`); n != 2 {
		t.Fatalf("the new function answers %d", n)
	}
}

// alter needs the strongest lock on queen.a.
func alter(version int) schema.Corpus {
	return corpus(version, map[string]string{
		"schema/010_a.sql": "CREATE TABLE IF NOT EXISTS queen.a (n int);",
		"schema/020_a.sql": fmt.Sprintf("\nALTER TABLE queen.a ADD COLUMN IF NOT EXISTS v%d int;", version),
	})
}

func hold(t *testing.T, pool *pg.Pool, sql string) pgx.Tx {
	t.Helper()
	tx, err := pool.Begin(bounded(t))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := tx.Exec(bounded(t), sql); err != nil {
		t.Fatal(err)
	}
	return tx
}

func TestAStatementGivesWayUntilItsLockIsFree(t *testing.T) {
	t.Parallel()
	pool := pgtest.Empty(t).Pool
	apply(t, alter(1), pool)
	traffic := hold(t, pool, `INSERT INTO queen.a VALUES (1)`)
	gaveWay := false
	log := &records{seen: func(message string) {
		if message == "schema apply gives way" && !gaveWay {
			gaveWay = true
			if err := traffic.Commit(bounded(t)); err != nil {
				t.Error(err)
			}
		}
	}}
	if err := alter(2).Apply(bounded(t), pool, slog.New(log)); err != nil {
		t.Fatal(err)
	}
	if !gaveWay {
		t.Fatal("the statement never met the lock")
	}
	if n := value[int](t, pool, `SELECT count(*) FROM queen.a WHERE v2 IS NULL`); n != 1 {
		t.Fatalf("%d rows, want the one of the traffic", n)
	}
}

func TestALockThatStaysIsReportedWithItsHolder(t *testing.T) {
	t.Parallel()
	pool := pgtest.Empty(t).Pool
	apply(t, alter(1), pool)
	traffic := hold(t, pool, `SELECT n FROM queen.a /* the report */`)
	defer func() { _ = traffic.Rollback(bounded(t)) }()
	err := alter(2).Apply(bounded(t), pool, quiet())
	want := fmt.Sprintf("pid %d test idle in transaction", traffic.Conn().PgConn().PID())
	if err == nil || !strings.Contains(err.Error(), "schema/020_a.sql:2:") || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), "the report") {
		t.Fatalf("got %v, want %q", err, want)
	}
	if pg.Kind(err) != queue.KindUnavailable {
		t.Fatalf("kind %v", pg.Kind(err))
	}
}

func TestAnExistingIndexIsSkippedWithoutALock(t *testing.T) {
	t.Parallel()
	pool := pgtest.Empty(t).Pool
	files := map[string]string{"schema/010_a.sql": "CREATE TABLE IF NOT EXISTS queen.a (n int);\nCREATE UNIQUE INDEX IF NOT EXISTS a_n\n  ON queen.a (n);"}
	apply(t, corpus(1, files), pool)
	traffic := hold(t, pool, `INSERT INTO queen.a VALUES (1)`)
	defer func() { _ = traffic.Rollback(bounded(t)) }()
	log := &records{}
	files["schema/020_b.sql"] = "SELECT 1;"
	if err := corpus(1, files).Apply(bounded(t), pool, slog.New(log)); err != nil || log.contain("gives way") {
		t.Fatalf("%v, logged %q", err, log.list)
	}
}

func TestAnInvalidIndexIsBuiltAgain(t *testing.T) {
	t.Parallel()
	pool := pgtest.Empty(t).Pool
	files := map[string]string{"schema/010_a.sql": "CREATE TABLE IF NOT EXISTS queen.a (n int);"}
	apply(t, corpus(1, files), pool)
	exec(t, pool, `INSERT INTO queen.a VALUES (1), (1)`)
	files["schema/020_index.sql"] = "CREATE UNIQUE INDEX CONCURRENTLY IF NOT EXISTS a_n ON queen.a (n);"
	if err := corpus(2, files).Apply(bounded(t), pool, quiet()); err == nil {
		t.Fatal("a unique index over equal rows was built")
	}
	const valid = `SELECT coalesce((SELECT indisvalid FROM pg_index WHERE indexrelid = to_regclass('queen.a_n')), false)`
	if value[bool](t, pool, valid) {
		t.Fatal("the broken build left a valid index")
	}
	exec(t, pool, `TRUNCATE queen.a`)
	apply(t, corpus(2, files), pool)
	if !value[bool](t, pool, valid) {
		t.Fatal("the index is not valid")
	}
}
