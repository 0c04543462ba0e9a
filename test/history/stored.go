package history

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"queen.internal/pkg/segment"
)

// Drained says whether the group's cursor stands at the end of every partition of the queue, of which there is one at
// least.
func Drained(ctx context.Context, db *pgxpool.Pool, queue, group string) (is bool, err error) {
	err = db.QueryRow(ctx, `SELECT coalesce(bool_and(c.committed = p.last_offset), false)
		FROM queen.queues q JOIN queen.partitions p ON p.queue_id = q.id
		LEFT JOIN queen.subscriptions s ON s.queue_id = q.id AND s.group_name = $2
		LEFT JOIN queen.cursors c ON c.subscription_id = s.id AND c.partition_id = p.id
		WHERE q.name = $1`, queue, group).Scan(&is)
	if err != nil {
		return false, fmt.Errorf("look for the cursors of %s: %w", group, err)
	}
	return is, nil
}

// ReadLog reads what is stored of a queue, from the tables, and says what is wrong with the segments.
func ReadLog(ctx context.Context, db *pgxpool.Pool, queue string) (map[Partition][]Entry, []Violation, error) {
	rows, err := db.Query(ctx, `SELECT p.name, g.base_offset, g.end_offset, g.created_at, g.codec, g.raw_bytes, g.payload
		FROM queen.queues q JOIN queen.partitions p ON p.queue_id = q.id JOIN queen.segments g ON g.partition_id = p.id
		WHERE q.name = $1 ORDER BY p.name, g.base_offset`, queue)
	if err != nil {
		return nil, nil, fmt.Errorf("read the log of %s: %w", queue, err)
	}
	defer rows.Close()
	log, created := make(map[Partition][]Entry), make(map[Partition]time.Time)
	var wrong []Violation
	for rows.Next() {
		partition := Partition{Queue: queue}
		var base, end int64
		var at time.Time
		var codec int16
		var rawBytes int
		var blob []byte
		if err := rows.Scan(&partition.Name, &base, &end, &at, &codec, &rawBytes, &blob); err != nil {
			return nil, nil, fmt.Errorf("read the log of %s: %w", queue, err)
		}
		if base != int64(len(log[partition])) || at.Before(created[partition]) {
			wrong = append(wrong, Violation{RuleLog, fmt.Sprintf("%v: a segment starts at %d, of %v; %d messages before, until %v",
				partition, base, at, len(log[partition]), created[partition])})
		}
		created[partition] = at
		messages, err := segment.Decode(codec, rawBytes, int(end-base+1), blob)
		if err != nil {
			return nil, nil, fmt.Errorf("%v, the segment at %d: %w", partition, base, err)
		}
		for _, m := range messages {
			log[partition] = append(log[partition], Entry{ID: m.ID.String(), Key: m.TransactionID})
		}
	}
	return log, wrong, rows.Err()
}
