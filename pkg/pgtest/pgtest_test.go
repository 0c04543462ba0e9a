package pgtest_test

import (
	"testing"

	"queen.internal/pkg/pgtest"
)

func TestMain(m *testing.M) { pgtest.Main(m, pgtest.CheckLeaks) }

func TestDB(t *testing.T) {
	t.Parallel()

	t.Run("ComesWithTheSchema", func(t *testing.T) {
		t.Parallel()
		var found bool
		err := pgtest.DB(t).QueryRow(t.Context(), `SELECT to_regclass('queen.schema_version') IS NOT NULL`).Scan(&found)
		if err != nil || !found {
			t.Fatalf("queen.schema_version found: %v, %v", found, err)
		}
	})

	t.Run("IsNotSharedWithAnotherTest", func(t *testing.T) {
		t.Parallel()
		first, second := pgtest.DB(t), pgtest.DB(t)
		if _, err := first.Exec(t.Context(), `CREATE TABLE mark (n int)`); err != nil {
			t.Fatal(err)
		}
		var found bool
		if err := second.QueryRow(t.Context(), `SELECT to_regclass('mark') IS NOT NULL`).Scan(&found); err != nil || found {
			t.Fatalf("the other test's table found: %v, %v", found, err)
		}
	})

	t.Run("IsDroppedAtTheEndOfItsTest", func(t *testing.T) {
		t.Parallel()
		name := ""
		t.Run("Owner", func(t *testing.T) { // its end is what the rest waits for
			name = pgtest.New(t).Config.Database
		})
		var found bool
		err := pgtest.DB(t).QueryRow(t.Context(), `SELECT EXISTS (SELECT FROM pg_database WHERE datname = $1)`, name).Scan(&found)
		if err != nil || found || name == "" {
			t.Fatalf("database %q still there: %v, %v", name, found, err)
		}
	})
}

func TestEmptyHasNoSchema(t *testing.T) {
	t.Parallel()
	var found bool
	err := pgtest.Empty(t).Pool.QueryRow(t.Context(), `SELECT to_regnamespace('queen') IS NOT NULL`).Scan(&found)
	if err != nil || found {
		t.Fatalf("schema queen found: %v, %v", found, err)
	}
}

func TestTxRollsBack(t *testing.T) {
	t.Parallel()
	t.Run("Writer", func(t *testing.T) { // its end is what the rest waits for
		if _, err := pgtest.Tx(t).Exec(t.Context(), `CREATE TABLE passing (n int)`); err != nil {
			t.Fatal(err)
		}
	})
	var found bool
	if err := pgtest.Tx(t).QueryRow(t.Context(), `SELECT to_regclass('passing') IS NOT NULL`).Scan(&found); err != nil || found {
		t.Fatalf("table of a rolled back transaction found: %v, %v", found, err)
	}
}
