package main

import (
	"context"
	"fmt"
	"math/rand/v2"

	"github.com/jackc/pgx/v5/pgxpool"
)

// allocator is a partition table beside a segment table, with one function that appends to it.
func allocator(name, body string) []string {
	return append(segmentTable(name+"_s", "", "STORAGE EXTERNAL"),
		fmt.Sprintf(`CREATE TABLE %s_p (id bigint PRIMARY KEY, last_offset bigint NOT NULL DEFAULT -1) WITH (fillfactor = 70)`, name),
		fmt.Sprintf(`INSERT INTO %s_p SELECT g FROM generate_series(0, %d) g`, name, partitions-1),
		fmt.Sprintf(`CREATE FUNCTION %s(p_id bigint, p_n integer, p_payload bytea) RETURNS void LANGUAGE plpgsql AS $f$
			DECLARE v_base bigint; BEGIN %s END $f$`, name, body),
	)
}

func call(name string, perRow int) func(context.Context, *pgxpool.Pool, *rand.Rand, int) (int, error) {
	sql := fmt.Sprintf(`SELECT %s($1, $2, $3)`, name)
	return func(ctx context.Context, pool *pgxpool.Pool, r *rand.Rand, _ int) (int, error) {
		_, err := pool.Exec(ctx, sql, r.Int64N(partitions), perRow, compressed(messages(r, perRow)))
		return perRow, err
	}
}

func insertAt(name string) string {
	return fmt.Sprintf(`INSERT INTO %s_s VALUES (p_id, v_base, v_base + p_n - 1, clock_timestamp(), p_payload);`, name)
}

func updated(name, lock string) string {
	return fmt.Sprintf(`PERFORM FROM %[1]s_p WHERE id = p_id %[2]s;
		UPDATE %[1]s_p SET last_offset = last_offset + p_n WHERE id = p_id RETURNING last_offset - p_n + 1 INTO v_base; %[3]s`, name, lock, insertAt(name))
}

func probed(name, lock string) string {
	return fmt.Sprintf(`%[2]s;
		v_base := coalesce((SELECT end_offset + 1 FROM %[1]s_s WHERE partition_id = p_id ORDER BY base_offset DESC LIMIT 1), 0); %[3]s`, name, lock, insertAt(name))
}

func allocations() set {
	rowLock := func(name, mode string) string { return fmt.Sprintf(`PERFORM FROM %s_p WHERE id = p_id %s`, name, mode) }
	return set{question: "offset and lock, 10 messages a push", workers: 4, choices: []choice{
		{"last_offset updated under FOR NO KEY UPDATE", allocator("upd_nku", updated("upd_nku", "FOR NO KEY UPDATE")), call("upd_nku", 10)},
		{"last_offset updated under FOR UPDATE", allocator("upd_fu", updated("upd_fu", "FOR UPDATE")), call("upd_fu", 10)},
		{"last_offset updated, the update itself locks", allocator("upd_bare", fmt.Sprintf(
			`UPDATE upd_bare_p SET last_offset = last_offset + p_n WHERE id = p_id RETURNING last_offset - p_n + 1 INTO v_base; %s`, insertAt("upd_bare"))), call("upd_bare", 10)},
		{"backward probe under FOR NO KEY UPDATE", allocator("probe_nku", probed("probe_nku", rowLock("probe_nku", "FOR NO KEY UPDATE"))), call("probe_nku", 10)},
		{"backward probe under an advisory lock", allocator("probe_adv", probed("probe_adv", "PERFORM pg_advisory_xact_lock(p_id)")), call("probe_adv", 10)},
	}}
}

// lookups asks what a consumer asks again and again: whether something lies past its cursor.
func lookups() set {
	name := "look"
	sql := map[string]string{
		"last_offset of the row": `SELECT last_offset FROM look_p WHERE id = $1`,
		"backward probe":         `SELECT end_offset FROM look_s WHERE partition_id = $1 ORDER BY base_offset DESC LIMIT 1`,
	}
	read := func(statement string) func(context.Context, *pgxpool.Pool, *rand.Rand, int) (int, error) {
		return func(ctx context.Context, pool *pgxpool.Pool, r *rand.Rand, _ int) (int, error) {
			var last int64
			return 1, pool.QueryRow(ctx, statement, r.Int64N(partitions)).Scan(&last)
		}
	}
	fill := fmt.Sprintf(`INSERT INTO look_s SELECT p, o * 100, o * 100 + 99, now(), '\x00' FROM generate_series(0, %d) p, generate_series(0, 999) o`, partitions-1)
	return set{question: "end of a partition, reads", workers: 4, choices: []choice{
		{"last_offset of the row", append(allocator(name, updated(name, "FOR NO KEY UPDATE")), fill, `VACUUM ANALYZE look_s`), read(sql["last_offset of the row"])},
		{"backward probe", nil, read(sql["backward probe"])},
	}}
}
