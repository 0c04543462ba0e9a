package schema_test

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/fstest"
	"time"

	"queen.internal/pkg/pg"
	"queen.internal/pkg/pgtest"
	"queen.internal/pkg/schema"
)

func TestMain(m *testing.M) {
	schema.Hurry()
	pgtest.Main(m, pgtest.CheckLeaks)
}

// bounded has a deadline far above what any test here needs.
func bounded(t *testing.T) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	t.Cleanup(cancel)
	return ctx
}

// corpus makes a corpus of files, which are installed by name.
func corpus(version int, files map[string]string) schema.Corpus {
	names := slices.Sorted(maps.Keys(files))
	tree := fstest.MapFS{}
	sum := sha256.New()
	for _, name := range names {
		tree[name] = &fstest.MapFile{Data: []byte(files[name])}
		fmt.Fprintf(sum, "%q%q", name, files[name])
	}
	return schema.Corpus{Files: tree, Names: names, Version: version, Hash: hex.EncodeToString(sum.Sum(nil))}
}

// counting leaves a row for each time it is installed.
func counting(version int) schema.Corpus {
	return corpus(version, map[string]string{
		"schema/010_runs.sql": `CREATE TABLE IF NOT EXISTS queen.runs (version int NOT NULL);`,
		"schema/020_run.sql":  fmt.Sprintf(`INSERT INTO queen.runs VALUES (%d);`, version),
	})
}

func exec(t *testing.T, pool *pg.Pool, sql string) {
	t.Helper()
	if _, err := pool.Exec(bounded(t), sql); err != nil {
		t.Fatalf("%s: %v", sql, err)
	}
}

// value is the one value that a question has.
func value[T any](t *testing.T, pool *pg.Pool, question string) T {
	t.Helper()
	var v T
	if err := pool.QueryRow(bounded(t), question).Scan(&v); err != nil {
		t.Fatalf("%s: %v", question, err)
	}
	return v
}

func apply(t *testing.T, c schema.Corpus, pool *pg.Pool) {
	t.Helper()
	if err := c.Apply(bounded(t), pool, quiet()); err != nil {
		t.Fatal(err)
	}
}

func quiet() *slog.Logger { return slog.New(slog.DiscardHandler) }

// records collects log lines and passes each message on.
type records struct {
	seen func(message string)

	mu   sync.Mutex
	list []string
}

func (r *records) Enabled(context.Context, slog.Level) bool { return true }

func (r *records) Handle(_ context.Context, record slog.Record) error {
	line := record.Level.String() + " " + record.Message
	record.Attrs(func(a slog.Attr) bool {
		line += " " + a.String()
		return true
	})
	r.mu.Lock()
	r.list = append(r.list, line)
	r.mu.Unlock()
	if r.seen != nil {
		r.seen(record.Message)
	}
	return nil
}

func (r *records) WithAttrs([]slog.Attr) slog.Handler { return r }

func (r *records) WithGroup(string) slog.Handler { return r }

func (r *records) contain(part string) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.ContainsFunc(r.list, func(line string) bool { return strings.Contains(line, part) })
}
