package deadletter_test

import (
	"encoding/json"
	"testing"

	"github.com/google/uuid"

	"queen.internal/pkg/pgtest"
)

// A page, a purge's step and a removal read as many pages of the database with a hundred and sixty thousand dead letters as with few,
// also on plans that were made while the table was empty. Pages are counted by EXPLAIN on the procedure's call, which
// includes those of the statements inside. Nothing here is timed.
func TestCostDoesNotGrowWithDeadLetters(t *testing.T) {
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
	exec(`INSERT INTO queen.queues (tenant, name, namespace, task) SELECT $1, 'q' || g, 'q', '' FROM generate_series(1, 20) g`, [16]byte(tenant))
	exec(`INSERT INTO queen.partitions (queue_id, name) SELECT 1 + g % 20, 'p' || g / 20 FROM generate_series(0, 199) g`)
	var uid uuid.UUID
	if err := conn.QueryRow(t.Context(), `SELECT uid FROM queen.partitions WHERE id = 1`).Scan(&uid); err != nil {
		t.Fatal(err)
	}
	file := func(from, to int) {
		t.Helper()
		// Of each queue half the letters are one group's, and one in ten a rare one's.
		exec(`INSERT INTO queen.dlq
			SELECT gen_random_uuid(), 1 + g % 20, 1 + g % 200, g, $3::timestamptz + g * interval '1 ms', $3, 0, gen_random_uuid(),
				CASE WHEN g % 200 < 20 THEN 'rare' ELSE 'g' || g / 20 % 2 END, g::text, 'why', '1'
			FROM generate_series($1::int, $2::int) g`, from, to, epoch)
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
	const list = `SELECT * FROM queen.list_dead_letters($1, $2, $3, $4, NULL, NULL, 100, $5, 1000000)`
	id := [16]byte(tenant)
	measure := func(transaction string) map[string]int {
		t.Helper()
		return map[string]int{
			"tenant":              pages(list, id, nil, nil, nil, 0),
			"tenant, second page": pages(list, id, nil, nil, nil, 100),
			"queue":               pages(list, id, "q1", nil, nil, 0),
			"partition":           pages(list, id, nil, "p1", nil, 0),
			"rare group":          pages(list, id, nil, nil, "rare", 0),
			"group of a queue":    pages(list, id, "q1", nil, "rare", 0),
			"purge step":          pages(`SELECT * FROM queen.purge_dead_letters($1, 'q2', 'rare', NULL, 10)`, id),
			"removal":             pages(`SELECT queen.remove_dead_letters($1, $2, $3)`, id, [16]byte(uid), transaction),
		}
	}
	for range 8 { // a plan is kept after some calls
		measure("0")
	}
	file(0, 23_999)
	small := measure("200")
	file(24_000, 160_000)
	for call, n := range measure("100200") {
		if n > 2*small[call]+200 {
			t.Errorf("%s reads %d pages among a hundred and sixty thousand, %d among few", call, n, small[call])
		}
		t.Logf("%s: %d pages, before %d", call, n, small[call])
	}
}
