package inspect_test

import (
	"encoding/json"
	"math"
	"testing"
	"time"

	"github.com/google/uuid"
	"pgregory.net/rapid"

	"queen.internal/pkg/pgtest"
	"queen.internal/pkg/queue"
	"queen.internal/pkg/store/inspect"
)

func TestMain(m *testing.M) { pgtest.Main(m, pgtest.CheckLeaks) }

var epoch = time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)

// The offset that is found by halving is the one that is found by looking at every row, also when the oldest rows and
// rows in the middle are gone.
func TestHashedOffsetAt_IsTheFirstAtOrAfter(t *testing.T) {
	t.Parallel()
	tx := pgtest.Tx(t)
	ctx := t.Context()
	if _, err := tx.Exec(ctx, `INSERT INTO queen.queues (tenant, name, namespace, task) VALUES ($1, 'offset_at', '', '')`, [16]byte(queue.DefaultTenant)); err != nil {
		t.Fatal(err)
	}
	rapid.Check(t, func(t *rapid.T) {
		var partition, end int64
		if err := tx.QueryRow(ctx, `INSERT INTO queen.partitions (queue_id, name) SELECT id, gen_random_uuid()::text FROM queen.queues WHERE name = 'offset_at'
			RETURNING id`).Scan(&partition); err != nil {
			t.Fatal(err)
		}
		type row struct {
			base int64
			at   int
		}
		var rows []row
		last := 0
		for range rapid.IntRange(0, 12).Draw(t, "rows") {
			n := int64(rapid.IntRange(1, 5).Draw(t, "messages"))
			last += rapid.IntRange(0, 2).Draw(t, "seconds")
			if rapid.IntRange(0, 4).Draw(t, "kept") > 0 {
				rows = append(rows, row{end, last})
				if _, err := tx.Exec(ctx, `INSERT INTO queen.dedup VALUES ($1, $2, $3, $4, 1, array_fill(gen_random_uuid(), ARRAY[$5::int]))`,
					partition, end, end+n-1, epoch.Add(time.Duration(last)*time.Second), n); err != nil {
					t.Fatal(err)
				}
			}
			end += n
		}
		if _, err := tx.Exec(ctx, `UPDATE queen.partitions SET last_offset = $2, last_created_at = $3, log_start = $4 WHERE id = $1`,
			partition, end-1, epoch.Add(time.Duration(last)*time.Second), rapid.Int64Range(0, end).Draw(t, "log start")); err != nil {
			t.Fatal(err)
		}
		for second := -1; second <= last+1; second++ {
			want := end
			for i := len(rows) - 1; i >= 0 && rows[i].at >= second; i-- {
				want = rows[i].base
			}
			var got int64
			if err := tx.QueryRow(ctx, `SELECT queen.hashed_offset_at($1, $2)`, partition, epoch.Add(time.Duration(second)*time.Second)).Scan(&got); err != nil {
				t.Fatal(err)
			}
			if got != want {
				t.Fatalf("second %d is at %d, want %d, in %v behind which is %d", second, got, want, rows, end)
			}
		}
	})
}

// The searches of a listing read as many pages of the database beside a hundred thousand partitions and behind half a
// million runs as beside nothing, on plans that were made while the tables were empty. Pages are counted by EXPLAIN on
// the procedure's call. Nothing here is timed.
func TestCostDoesNotGrowWithTheLog(t *testing.T) {
	t.Parallel()
	pool := pgtest.DB(t)
	conn, err := pool.Acquire(t.Context()) // one session, so that its plans are from the beginning
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Release()
	exec := func(sql string, args ...any) {
		t.Helper()
		if _, err := conn.Exec(t.Context(), sql, args...); err != nil {
			t.Fatal(err)
		}
	}
	pages := func(sql string, args ...any) int {
		t.Helper()
		var text []byte
		if err := conn.QueryRow(t.Context(), `EXPLAIN (ANALYZE, BUFFERS, TIMING OFF, FORMAT JSON) `+sql, args...).Scan(&text); err != nil {
			t.Fatal(err)
		}
		var plans []struct {
			Plan struct {
				Hit  int `json:"Shared Hit Blocks"`
				Read int `json:"Shared Read Blocks"`
			}
		}
		if err := json.Unmarshal(text, &plans); err != nil {
			t.Fatal(err)
		}
		return plans[0].Plan.Hit + plans[0].Plan.Read
	}
	tenant := [16]byte(queue.DefaultTenant)
	exec(`INSERT INTO queen.queues (tenant, name, namespace, task) SELECT $1, 'q' || g, 'n', '' FROM generate_series(1, 10) g`, tenant)
	exec(`INSERT INTO queen.partitions (queue_id, name, last_offset, last_created_at) SELECT 1 + g % 10, 'p' || g, 99, $1::timestamptz + interval '1 d' FROM generate_series(0, 99) g`, epoch)
	exec(`INSERT INTO queen.dedup SELECT 1, g, g, $1::timestamptz + interval '1 d', g, ARRAY[gen_random_uuid()] FROM generate_series(0, 99) g`, epoch)
	day := epoch.Add(24 * time.Hour)
	measure := func() map[string]int {
		t.Helper()
		return map[string]int{
			"partitions of the tenant":  pages(`SELECT * FROM queen.recent_partitions($1, NULL, NULL, NULL, NULL, $2, 50)`, tenant, day),
			"partitions of a queue":     pages(`SELECT * FROM queen.recent_partitions($1, 'q1', NULL, NULL, NULL, $2, 50)`, tenant, day),
			"a named partition":         pages(`SELECT * FROM queen.recent_partitions($1, 'q1', 'p0', NULL, NULL, $2, 50)`, tenant, day),
			"the newest runs":           pages(`SELECT * FROM queen.recent_runs(ARRAY[1::bigint], $1, NULL, 50)`, day),
			"runs of long ago":          pages(`SELECT * FROM queen.recent_runs(ARRAY[1::bigint], $1, $2, 50)`, epoch, epoch.Add(time.Hour)),
			"a page of a search":        pages(`SELECT * FROM queen.find_transaction(1, gen_random_uuid(), $1, 50)`, int64(math.MaxInt64)),
			"dead letters of a message": pages(`SELECT * FROM queen.dead_offsets(ARRAY[1::bigint], ARRAY[7::bigint])`),
			"a message's partition":     pages(`SELECT * FROM queen.find_partition($1, $2)`, tenant, [16]byte(uuid.Max)),
		}
	}
	for range 8 { // a plan is kept after some calls
		measure()
	}
	small := measure()
	exec(`INSERT INTO queen.partitions (queue_id, name, last_offset, last_created_at) SELECT 1 + g % 10, 'p' || g, 0, $1 FROM generate_series(100, 100000) g`, epoch)
	exec(`DELETE FROM queen.dedup`)
	exec(`INSERT INTO queen.dedup SELECT 1, g, g, $1::timestamptz + g * interval '173 ms', g, ARRAY[gen_random_uuid()] FROM generate_series(0, 500000) g`, epoch)
	exec(`UPDATE queen.partitions SET last_offset = 500000, last_created_at = $1::timestamptz + 500000 * interval '173 ms' WHERE id = 1`, epoch)
	exec(`INSERT INTO queen.dlq SELECT gen_random_uuid(), 1, 1, g, $1, $1, 0, gen_random_uuid(), 'g', g::text, '', '1' FROM generate_series(0, 100000) g`, epoch)
	for call, n := range measure() {
		if n > 3*small[call]+400 {
			t.Errorf("%s reads %d pages in a large log, %d in a small one", call, n, small[call])
		}
		t.Logf("%s: %d pages, before %d", call, n, small[call])
	}
}

// A partition that nobody has written to is in no listing, and neither is one that a search does not reach.
func TestWrittenSince_TakesTheLatest(t *testing.T) {
	t.Parallel()
	pool := pgtest.DB(t)
	if _, err := pool.Exec(t.Context(), `INSERT INTO queen.queues (tenant, name, namespace, task) VALUES ($1, 'q', 'n', 't')`, [16]byte(queue.DefaultTenant)); err != nil {
		t.Fatal(err)
	}
	if _, err := pool.Exec(t.Context(), `INSERT INTO queen.partitions (queue_id, name, last_offset, last_created_at)
		SELECT 1, g::text, 0, $1::timestamptz + g * interval '1 min' FROM generate_series(1, 5) g`, epoch); err != nil {
		t.Fatal(err)
	}
	if _, err := pool.Exec(t.Context(), `INSERT INTO queen.partitions (queue_id, name) VALUES (1, 'empty')`); err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct {
		filter inspect.Filter
		from   time.Time
		limit  int
		want   string
	}{
		{inspect.Filter{}, epoch, 10, "54321"},
		{inspect.Filter{}, epoch, 2, "54"},
		{inspect.Filter{Queue: "q", Namespace: "n", Task: "t"}, epoch.Add(3 * time.Minute), 10, "543"},
		{inspect.Filter{Partition: "2"}, epoch, 10, "2"},
		{inspect.Filter{Partition: "2"}, epoch.Add(3 * time.Minute), 10, ""},
		{inspect.Filter{Partition: "empty"}, epoch, 10, ""},
		{inspect.Filter{Task: "x"}, epoch, 10, ""},
	} {
		found, err := inspect.New(pool).WrittenSince(t.Context(), queue.DefaultTenant, test.filter, test.from, test.limit)
		if err != nil {
			t.Fatal(err)
		}
		got := ""
		for _, w := range found {
			got += w.Name
		}
		if got != test.want {
			t.Errorf("%+v since %v: %q, want %q", test.filter, test.from, got, test.want)
		}
	}
}
