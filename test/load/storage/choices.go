package main

import (
	"context"
	"fmt"
	"math/rand/v2"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/klauspost/compress/zstd"

	"queen.internal/pkg/segment"
)

// choice is one way to do a thing. setup creates its tables in the search path's schema; step does one unit of work as
// worker and returns the messages it stored or read.
type choice struct {
	name  string
	setup []string
	step  func(ctx context.Context, pool *pgxpool.Pool, r *rand.Rand, worker int) (int, error)
}

// set is choices for one question; the first is the yardstick of the others.
type set struct {
	question string
	workers  int
	choices  []choice
}

const partitions = 256

var encoder = func() *zstd.Encoder {
	e, err := zstd.NewWriter(nil, zstd.WithEncoderLevel(zstd.SpeedFastest), zstd.WithEncoderConcurrency(4))
	if err != nil {
		panic(err)
	}
	return e
}()

// segmentTable is a table of segments whose payload column has the given properties, which ALTER TABLE understands in
// every supported version.
func segmentTable(name, with string, column ...string) []string {
	statements := []string{fmt.Sprintf(`CREATE TABLE %s (partition_id bigint, base_offset bigint, end_offset bigint,
		created_at timestamptz, payload bytea, PRIMARY KEY (partition_id, base_offset)) %s`, name, with)}
	for _, property := range column {
		statements = append(statements, fmt.Sprintf(`ALTER TABLE %s ALTER COLUMN payload SET %s`, name, property))
	}
	return statements
}

// insertBlind appends without any allocation, to compare payload forms alone.
func insertBlind(table string, perRow int, form func([]segment.Message) []byte) func(context.Context, *pgxpool.Pool, *rand.Rand, int) (int, error) {
	sql := fmt.Sprintf(`INSERT INTO %s VALUES ($1, $2, $2::bigint + $3::integer - 1, clock_timestamp(), $4)`, table)
	return func(ctx context.Context, pool *pgxpool.Pool, r *rand.Rand, _ int) (int, error) {
		_, err := pool.Exec(ctx, sql, r.Int64N(partitions), r.Int64N(1<<60), perRow, form(messages(r, perRow)))
		return perRow, err
	}
}

func compressed(msgs []segment.Message) []byte { return encoder.EncodeAll(plain(msgs), nil) }

func payloadForms() set {
	return set{question: "form of a 100-message payload", workers: 4, choices: []choice{
		{"none, TOASTed", segmentTable("form_none", "", "STORAGE EXTERNAL"), insertBlind("form_none", 100, plain)},
		{"lz4 by PostgreSQL, TOASTed", segmentTable("form_lz4", "", "STORAGE EXTENDED", "COMPRESSION lz4"), insertBlind("form_lz4", 100, plain)},
		{"pglz by PostgreSQL, TOASTed", segmentTable("form_pglz", "", "STORAGE EXTENDED", "COMPRESSION pglz"), insertBlind("form_pglz", 100, plain)},
		{"zstd in the service, TOASTed", segmentTable("form_zstd", "", "STORAGE EXTERNAL"), insertBlind("form_zstd", 100, compressed)},
		{"zstd in the service, inline up to a page", segmentTable("form_inline", "WITH (toast_tuple_target = 8160)", "STORAGE EXTERNAL"), insertBlind("form_inline", 100, compressed)},
	}}
}

func smallForms() set {
	return set{question: "form of a 10-message payload", workers: 4, choices: []choice{
		{"none, TOASTed", segmentTable("small_none", "", "STORAGE EXTERNAL"), insertBlind("small_none", 10, plain)},
		{"lz4 by PostgreSQL", segmentTable("small_lz4", "", "STORAGE EXTENDED", "COMPRESSION lz4"), insertBlind("small_lz4", 10, plain)},
		{"zstd in the service", segmentTable("small_zstd", "", "STORAGE EXTERNAL"), insertBlind("small_zstd", 10, compressed)},
		{"zstd in the service, inline up to a page", segmentTable("small_inline", "WITH (toast_tuple_target = 8160)", "STORAGE EXTERNAL"), insertBlind("small_inline", 10, compressed)},
	}}
}

func segmentSizes() set {
	s := set{question: "messages in a segment (zstd)", workers: 4}
	for _, n := range []int{100, 1, 10, 1000} {
		table := fmt.Sprintf("size_%d", n)
		s.choices = append(s.choices, choice{fmt.Sprint(n), segmentTable(table, "", "STORAGE EXTERNAL"), insertBlind(table, n, compressed)})
	}
	return s
}
