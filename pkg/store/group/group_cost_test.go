package group_test

import (
	"testing"

	"queen.internal/pkg/pgtest"
	"queen.internal/pkg/queue"
)

// A page of a seek, of a clean-up and of a count must read as many pages of the database in a queue of a hundred thousand
// partitions, with a long log, as in one that is hardly larger than the page; counted as in
// TestCostDoesNotGrowWithPartitionsAndBacklog.
func TestCostOfAPageDoesNotGrowWithTheQueue(t *testing.T) {
	t.Parallel()
	pool := pgtest.DB(t)
	conn, err := pool.Acquire(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Release()
	m := &meter{T: t, conn: conn.Conn()}

	m.exec(`INSERT INTO queen.queues (tenant, name, namespace, task) VALUES ($1, 'q', 'q', '')`, [16]byte(queue.DefaultTenant))
	m.exec(`INSERT INTO queen.partitions (queue_id, name, last_offset) SELECT 1, 'p' || g, 999999 FROM generate_series(1, 120) g`)
	m.exec(`INSERT INTO queen.segments SELECT g, 0, 999, clock_timestamp(), 1, 100, 0, '\x00' FROM generate_series(1, 120) g`)
	m.exec(`SELECT * FROM queen.subscribe($1, 'q', 'g', 'all', NULL)`, [16]byte(queue.DefaultTenant))
	m.exec(`SELECT * FROM queen.subscribe($1, 'q', 'h', 'all', NULL)`, [16]byte(queue.DefaultTenant))
	var subscription [16]byte
	if err := m.conn.QueryRow(t.Context(), `SELECT uid FROM queen.subscriptions WHERE id = 1`).Scan(&subscription); err != nil {
		t.Fatal(err)
	}
	round := func(after int64) map[string]int {
		cost := map[string]int{
			"seek to the end":  m.pages(`SELECT * FROM queen.seek_page(1, $1, $2, 1000000, 100, NULL)`, subscription, after),
			"seek to a time":   m.pages(`SELECT * FROM queen.seek_page(1, $1, $2, 1000000, 100, clock_timestamp() - interval '50 min')`, subscription, after),
			"seek in one":      m.pages(`SELECT * FROM queen.seek_partition($1, 'q', 'p' || ($2::bigint + 1), 'g', clock_timestamp() - interval '50 min')`, [16]byte(queue.DefaultTenant), after),
			"depth":            m.pages(`SELECT * FROM queen.depth($1, 'q', NULL, $2, 100, 100)`, [16]byte(queue.DefaultTenant), after),
			"depth of a group": m.pages(`SELECT * FROM queen.depth($1, 'q', 'g', $2, 100, 0)`, [16]byte(queue.DefaultTenant), after),
		}
		m.exec(`INSERT INTO queen.cursors (subscription_id, partition_id, committed) SELECT 77, g, -1 FROM generate_series($1::bigint + 1, $1 + 100) g`, after)
		cost["drop"] = m.pages(`SELECT * FROM queen.drop_cursors(77, $1, 100)`, after)
		m.exec(`DELETE FROM queen.cursors WHERE subscription_id = 77`)
		return cost
	}
	for range 8 { // a plan is kept after some calls
		round(0)
	}
	small := round(0)

	m.exec(`INSERT INTO queen.partitions (queue_id, name, last_offset) SELECT 1, 'p' || g, 999999 FROM generate_series(121, 100000) g`)
	m.exec(`INSERT INTO queen.cursors (subscription_id, partition_id, committed) SELECT s, g, 5 FROM generate_series(1, 2) s, generate_series(1000, 100000) g ON CONFLICT DO NOTHING`)
	// The hundred partitions behind the first have a long log of wide segments, a second apart.
	m.exec(`DELETE FROM queen.segments`)
	m.exec(`INSERT INTO queen.segments SELECT p, g * 1000, g * 1000 + 999, clock_timestamp() - make_interval(hours => 1, secs => -g), 1, 100, 0, '\x00'
		FROM generate_series(1, 100) p, generate_series(0, 999) g`)
	for name, after := range map[string]int64{"in front": 0, "in the middle": 50000} {
		large := round(after)
		for call, pages := range small {
			// Deeper indexes cost some pages for each of a hundred look-ups, a long log ten probes for each of a hundred
			// partitions; a walk over either would cost tens of thousands.
			most := 4*pages + 400
			if after == 0 && call == "seek to a time" {
				most += 100 * 12 * 5
			}
			if large[call] > most {
				t.Errorf("%s: %s reads %d pages, %d before", name, call, large[call], pages)
			}
		}
		t.Logf("%s: pages %v, before %v", name, large, small)
	}
}
