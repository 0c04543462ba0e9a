package history_test

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"queen.internal/pkg/segment"
	"queen.internal/test/history"
)

func (l *load) connect() *pgxpool.Pool {
	pool, err := pgxpool.New(context.Background(), l.cell.Stack.DSN())
	if err != nil {
		l.Fatal(err)
	}
	l.Cleanup(pool.Close)
	return pool
}

// drained says whether the group's cursor stands at the end of every partition.
func (l *load) drained(db *pgxpool.Pool, group string) (is bool) {
	if err := db.QueryRow(l.Context(), `SELECT coalesce(bool_and(c.committed = p.last_offset), false)
		FROM queen.queues q JOIN queen.partitions p ON p.queue_id = q.id
		LEFT JOIN queen.subscriptions s ON s.queue_id = q.id AND s.group_name = $2
		LEFT JOIN queen.cursors c ON c.subscription_id = s.id AND c.partition_id = p.id
		WHERE q.name = $1`, l.queue, group).Scan(&is); err != nil {
		l.Error(err)
		return true
	}
	return is
}

// readLog reads what is stored, from the tables.
func (l *load) readLog() {
	l.history.Log = make(map[history.Partition][]history.Entry)
	rows, err := l.connect().Query(l.Context(), `SELECT p.name, g.base_offset, g.end_offset, g.created_at, g.codec, g.raw_bytes, g.payload
		FROM queen.queues q JOIN queen.partitions p ON p.queue_id = q.id JOIN queen.segments g ON g.partition_id = p.id
		WHERE q.name = $1 ORDER BY p.name, g.base_offset`, l.queue)
	if err != nil {
		l.Fatal(err)
	}
	defer rows.Close()
	created := make(map[history.Partition]time.Time)
	for rows.Next() {
		partition := history.Partition{Queue: l.queue}
		var base, end int64
		var at time.Time
		var codec int16
		var rawBytes int
		var blob []byte
		if err := rows.Scan(&partition.Name, &base, &end, &at, &codec, &rawBytes, &blob); err != nil {
			l.Fatal(err)
		}
		entries := l.history.Log[partition]
		if base != int64(len(entries)) || at.Before(created[partition]) {
			l.Errorf("%v: a segment starts at %d, of %v; %d messages before, until %v", partition, base, at, len(entries), created[partition])
		}
		created[partition] = at
		messages, err := segment.Decode(codec, rawBytes, int(end-base+1), blob)
		if err != nil {
			l.Fatal(err)
		}
		for _, m := range messages {
			entries = append(entries, history.Entry{ID: m.ID.String(), Key: m.TransactionID})
		}
		l.history.Log[partition] = entries
	}
	if err := rows.Err(); err != nil {
		l.Fatal(err)
	}
}
