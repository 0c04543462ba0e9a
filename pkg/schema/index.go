package schema

import (
	"context"
	"fmt"
	"regexp"

	"github.com/jackc/pgx/v5"
)

var createIndex = regexp.MustCompile(`(?i)^CREATE\s+(?:UNIQUE\s+)?INDEX\s+(?:CONCURRENTLY\s+)?IF\s+NOT\s+EXISTS\s+([a-z_][a-z0-9_]*)\s+ON\s`)

// indexName is the index that a CREATE INDEX … IF NOT EXISTS names, empty for any other text.
func indexName(text string) string {
	if m := createIndex.FindStringSubmatch(text); m != nil {
		return m[1]
	}
	return ""
}

// indexDone says whether an index is there and usable. The server's own IF NOT EXISTS looks only after it has locked the
// table against writes, and takes an index for present that a broken concurrent build left behind; such a rest is
// removed here, so that the statement builds it again.
func (i *installer) indexDone(ctx context.Context, name string) (bool, error) {
	var valid bool
	err := i.conn.QueryRow(ctx, `SELECT x.indisvalid FROM pg_index x JOIN pg_class c ON c.oid = x.indexrelid
WHERE c.relnamespace = 'queen'::regnamespace AND c.relname = lower($1)`, name).Scan(&valid)
	switch {
	case err == pgx.ErrNoRows:
		return false, nil
	case err != nil:
		return false, fmt.Errorf("look for index %s: %w", name, err)
	case valid:
		return true, nil
	}
	i.logger.WarnContext(ctx, "schema apply rebuilds an invalid index", "index", name)
	return false, i.exec(ctx, "DROP INDEX CONCURRENTLY IF EXISTS queen."+pgx.Identifier{name}.Sanitize())
}

// reportInvalidIndexes warns of what no statement of the corpus could repair.
func (i *installer) reportInvalidIndexes(ctx context.Context) error {
	rows, err := i.conn.Query(ctx, `SELECT c.relname FROM pg_index x JOIN pg_class c ON c.oid = x.indexrelid
WHERE c.relnamespace = 'queen'::regnamespace AND NOT x.indisvalid ORDER BY 1`)
	if err != nil {
		return err
	}
	names, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil {
		return err
	}
	for _, name := range names {
		i.logger.WarnContext(ctx, "index is invalid, drop it or REINDEX it", "index", name)
	}
	return nil
}
