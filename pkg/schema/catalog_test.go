package schema_test

import (
	"flag"
	"os"
	"testing"

	"github.com/google/go-cmp/cmp"

	"queen.internal/pkg/pg"
	"queen.internal/pkg/pgtest"
)

var update = flag.Bool("update", false, "write the golden files")

// catalogSQL lists what an installation leaves, one line each.
const catalogSQL = `
WITH entry(line) AS (
    SELECT format('table %s (%s)', c.relname, array_to_string(c.reloptions, ', '))
    FROM pg_class c WHERE c.relnamespace = 'queen'::regnamespace AND c.relkind = 'r'
  UNION ALL
    SELECT format('column %s.%s %s %s%s%s storage %s', c.relname, lpad(a.attnum::text, 2, '0'), a.attname, format_type(a.atttypid, a.atttypmod),
                  CASE WHEN a.attnotnull THEN ' not null' ELSE '' END,
                  coalesce(' default ' || pg_get_expr(d.adbin, d.adrelid), ''), a.attstorage)
    FROM pg_class c JOIN pg_attribute a ON a.attrelid = c.oid AND a.attnum > 0 AND NOT a.attisdropped
    LEFT JOIN pg_attrdef d ON d.adrelid = c.oid AND d.adnum = a.attnum
    WHERE c.relnamespace = 'queen'::regnamespace AND c.relkind = 'r'
  UNION ALL
    SELECT format('constraint %s.%s %s', c.relname, k.conname, pg_get_constraintdef(k.oid))
    FROM pg_constraint k JOIN pg_class c ON c.oid = k.conrelid WHERE k.connamespace = 'queen'::regnamespace
  UNION ALL
    SELECT format('index %s', indexdef) FROM pg_indexes WHERE schemaname = 'queen'
  UNION ALL
    SELECT format('function %s(%s) returns %s %s', p.proname, pg_get_function_arguments(p.oid), pg_get_function_result(p.oid), p.provolatile)
    FROM pg_proc p WHERE p.pronamespace = 'queen'::regnamespace
)
SELECT string_agg(line, E'\n' ORDER BY line COLLATE "C") || E'\n' FROM entry`

func catalog(t *testing.T, pool *pg.Pool) string {
	t.Helper()
	return value[string](t, pool, catalogSQL)
}

// The golden file shows in review what a change of the SQL means for tables and signatures, which other versions of the
// services still use. Write it anew with: go test ./schema -run Catalog -update
func TestCatalogIsTheReviewedOne(t *testing.T) {
	t.Parallel()
	const golden = "../../sql/broker/testdata/catalog.golden"
	got := catalog(t, pgtest.DB(t))
	if *update {
		if err := os.WriteFile(golden, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(golden)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), got); diff != "" {
		t.Fatalf("the catalog differs from %s; after review run go test ./schema -run Catalog -update in pkg:\n%s", golden, diff)
	}
}
