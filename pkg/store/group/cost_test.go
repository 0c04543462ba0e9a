package group_test

import (
	"encoding/json"
	"fmt"
	"testing"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"queen.internal/pkg/pgtest"
	"queen.internal/pkg/queue"
	"queen.internal/pkg/store/group"
)

// A claim, an ack and an append must read as many pages with a hundred thousand partitions and a million messages beside
// theirs as with next to nothing, also on plans that were made while the tables were empty. Pages are counted by EXPLAIN
// on the procedure's call, which includes those of the statements inside. Nothing here is timed.
func TestCostDoesNotGrowWithPartitionsAndBacklog(t *testing.T) {
	t.Parallel()
	pool := pgtest.DB(t)
	conn, err := pool.Acquire(t.Context()) // one session, so that its plans are from the beginning
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Release()
	m := &meter{T: t, conn: conn.Conn()}

	m.exec(`INSERT INTO queen.queues (tenant, name, namespace, task) VALUES ($1, 'q', 'q', '')`, [16]byte(queue.DefaultTenant))
	m.exec(`INSERT INTO queen.partitions (queue_id, name) SELECT 1, 'p' || g FROM generate_series(1, 10) g`)
	m.exec(`SELECT * FROM queen.subscribe($1, 'q', 'g', 'all', NULL)`, [16]byte(queue.DefaultTenant))
	for range 10 { // a plan is kept after some calls
		m.round(1)
	}
	small := m.round(1)

	m.exec(`INSERT INTO queen.partitions (queue_id, name) SELECT 1, 'p' || g FROM generate_series(11, 100000) g`)
	// Beside and in front of partition 2: a million messages in segments of a thousand, and their hashes.
	m.exec(`INSERT INTO queen.segments SELECT 2, g * 1000, g * 1000 + 999, clock_timestamp(), 1, 100, 0, '\x00' FROM generate_series(0, 999) g`)
	m.exec(`INSERT INTO queen.dedup SELECT 2, g * 1000, g * 1000 + 999, clock_timestamp(), g, array_fill(gen_random_uuid(), ARRAY[1000]) FROM generate_series(0, 999) g`)
	m.exec(`UPDATE queen.partitions SET last_offset = 999999, last_tag = 999, last_created_at = clock_timestamp() WHERE id = 2`)
	m.exec(`INSERT INTO queen.cursors (subscription_id, partition_id, committed) SELECT 1, g, -1 FROM generate_series(100, 100000) g`)

	for name, partition := range map[string]int64{"beside": 1, "behind": 2} {
		large := m.round(partition)
		for call, pages := range small {
			// Deeper indexes cost a page or two for each look-up; a walk would cost thousands.
			if large[call] > 3*pages+60 {
				t.Errorf("%s a large backlog: %s reads %d pages, %d before", name, call, large[call], pages)
			}
		}
		t.Logf("%s: pages %v, before %v", name, large, small)
	}
}

// meter counts the pages that calls read.
type meter struct {
	*testing.T
	conn *pgx.Conn
	tag  int64
}

func (m *meter) exec(sql string, args ...any) {
	m.Helper()
	if _, err := m.conn.Exec(m.Context(), sql, args...); err != nil {
		m.Fatal(err)
	}
}

// pages runs a call under EXPLAIN and returns how many pages it read, from memory or not.
func (m *meter) pages(sql string, args ...any) int {
	m.Helper()
	var text []byte
	if err := m.conn.QueryRow(m.Context(), `EXPLAIN (ANALYZE, BUFFERS, TIMING OFF, FORMAT JSON) `+sql, args...).Scan(&text); err != nil {
		m.Fatal(err)
	}
	var plans []struct {
		Plan struct {
			Hit  int `json:"Shared Hit Blocks"`
			Read int `json:"Shared Read Blocks"`
		}
	}
	if err := json.Unmarshal(text, &plans); err != nil {
		m.Fatal(err)
	}
	return plans[0].Plan.Hit + plans[0].Plan.Read
}

// round appends a message to the partition with a voucher for all before it, claims from the partition and acks.
func (m *meter) round(partition int64) map[string]int {
	m.Helper()
	var uid, subscription uuid.UUID
	var lastOffset, lastTag, base int64
	err := m.conn.QueryRow(m.Context(), `SELECT p.uid, s.uid, p.last_offset, coalesce(p.last_tag, 0),
			coalesce((SELECT max(base_offset) FROM queen.dedup WHERE partition_id = p.id), 0)
		FROM queen.partitions p, queen.subscriptions s WHERE p.id = $1`, partition).Scan(&uid, &subscription, &lastOffset, &lastTag, &base)
	if err != nil {
		m.Fatal(err)
	}
	m.tag++
	transaction := fmt.Sprint("cost ", partition, " ", m.tag)
	hash := [16]byte(queue.TransactionHash(transaction))
	lease := [16]byte(queue.NewID())
	cost := map[string]int{
		"append": m.pages(`SELECT * FROM queen.append(ARRAY[$1::bigint], ARRAY[$2::uuid], ARRAY[$3::bigint], ARRAY[1], ARRAY[10], ARRAY[0::smallint],
			ARRAY['\x00'::bytea], ARRAY[$4::uuid], true, false, ARRAY[false], ARRAY[0::bigint], ARRAY['-infinity'::timestamptz],
			ARRAY[$5::bigint], ARRAY[$6::bigint], ARRAY[$7::bigint])`, partition, [16]byte(uid), 5000+m.tag, hash, base, lastOffset, lastTag),
	}
	m.exec(`INSERT INTO queen.cursors (subscription_id, partition_id, committed) VALUES (1, $1, $2)
		ON CONFLICT ON CONSTRAINT cursors_pkey DO UPDATE SET committed = excluded.committed`, partition, lastOffset)
	cost["claim"] = m.pages(`SELECT * FROM queen.claim(1, $1, ARRAY[$2::bigint], $3, 60, 10, 1, 1000000, false, NULL, true)`, [16]byte(subscription), partition, lease)
	cost["ack"] = m.pages(`SELECT * FROM queen.ack($1, 'g', NULL, ARRAY[$2::uuid], ARRAY[$3::uuid], ARRAY[1], ARRAY[$4::uuid], ARRAY[0::smallint], ARRAY[NULL::bigint],
		ARRAY[NULL::bigint], ARRAY[NULL::bigint], ARRAY[NULL::bigint], ARRAY[NULL::uuid], ARRAY[NULL::timestamptz], ARRAY[NULL::text], ARRAY[NULL::bytea], ARRAY[NULL::text])`,
		[16]byte(queue.DefaultTenant), [16]byte(uid), lease, hash)
	var committed int64
	if err := m.conn.QueryRow(m.Context(), `SELECT committed FROM queen.cursors WHERE subscription_id = 1 AND partition_id = $1`, partition).Scan(&committed); err != nil {
		m.Fatal(err)
	}
	if committed != lastOffset+1 {
		m.Fatalf("the round did not do its work: the cursor is at %d, want %d", committed, lastOffset+1)
	}
	return cost
}

// The answer to an ack may get lost, and the same ack comes again when the group has a long log behind it and before it.
func TestCostOfAnAckMadeAgainDoesNotGrowWithTheLog(t *testing.T) {
	t.Parallel()
	b := setup(t)
	conn, err := b.pool.Acquire(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Release()
	m := &meter{T: t, conn: conn.Conn()}
	p := b.push("p")
	log := func(first int) {
		b.exec(`INSERT INTO queen.dedup SELECT $1, $2 + g * 1000, $2 + g * 1000 + 999, clock_timestamp(), g, array_fill(gen_random_uuid(), ARRAY[1000])
			FROM generate_series(0, 199) g`, p, first)
		b.exec(`UPDATE queen.partitions SET last_offset = last_offset + 200000 WHERE id = $1`, p)
	}
	log(0)
	b.push("p", "x")
	sub := b.subscribe("g", all)
	b.exec(`INSERT INTO queen.cursors (subscription_id, partition_id, committed) VALUES ($1, $2, 199999)`, sub.ID, p)
	lease, c := b.take(sub, 1, p)
	if r := b.ack("g", c, &lease, "x"); !r.LeaseReleased {
		t.Fatalf("%+v", r)
	}
	log(200001)
	if r := b.ack("g", c, &lease, "x"); r.Items[0] != group.Noop {
		t.Errorf("%+v", r)
	}
	pages := 0
	for range 3 { // the first calls read the catalog, too
		pages = m.pages(`SELECT * FROM queen.ack($1, 'g', NULL, ARRAY[$2::uuid], ARRAY[$3::uuid], ARRAY[1], ARRAY[$4::uuid], ARRAY[0::smallint], ARRAY[NULL::bigint],
		ARRAY[NULL::bigint], ARRAY[NULL::bigint], ARRAY[NULL::bigint], ARRAY[NULL::uuid], ARRAY[NULL::timestamptz], ARRAY[NULL::text], ARRAY[NULL::bytea], ARRAY[NULL::text])`,
			[16]byte(queue.DefaultTenant), [16]byte(c.PartitionUUID), [16]byte(lease), [16]byte(queue.TransactionHash("x")))
	}
	if pages > 300 {
		t.Errorf("it reads %d pages", pages)
	}
}
