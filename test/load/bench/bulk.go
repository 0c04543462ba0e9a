package main

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"queen.internal/test/load/internal/traffic"
)

// analyzedFrom is how many new partitions are worth telling the planner at once.
const analyzedFrom = 10_000

// bulkFill gives a fresh queue that many partitions, each a copy of one segment that was pushed: a batch of messages. A
// push of everything would take longer than what is measured. Ledgers do not know these messages.
func (b *bench) bulkFill(ctx context.Context, count, batch int) (traffic.Target, error) {
	l, err := b.ledger(1, 1, 1)
	if err != nil {
		return traffic.Target{}, err
	}
	t := b.straight()
	p := traffic.Producers{Target: t, Ledger: l, Count: 1, Batch: batch, Limit: int64(batch)}
	if err := once(ctx, p.Produce); err != nil {
		return t, fmt.Errorf("push the first segment: %w", err)
	}
	start := time.Now()
	err = b.query(ctx, func(ctx context.Context, conn *pgx.Conn) error {
		return pgx.BeginFunc(ctx, conn, func(tx pgx.Tx) error { return copySegment(ctx, tx, t.Queue, count) })
	})
	if err == nil && count >= analyzedFrom {
		err = b.exec(ctx, `VACUUM ANALYZE queen.partitions, queen.segments, queen.dedup`)
	}
	b.say("filled %d partitions with %d messages each in %.0f s", count, batch, time.Since(start).Seconds())
	return t, err
}

// copySegment adds partitions to a queue until it has count of them, with the segment and the hashes of its first one.
func copySegment(ctx context.Context, tx pgx.Tx, queue string, count int) error {
	for _, sql := range []string{
		`INSERT INTO queen.partitions (queue_id, last_offset, last_tag, last_created_at, name)
			SELECT p.queue_id, p.last_offset, p.last_tag, p.last_created_at, 'p' || lpad(n::text, 7, '0')
			FROM queen.partitions p JOIN queen.queues q ON q.id = p.queue_id, generate_series(1, $2::integer - 1) n
			WHERE q.name = $1 AND q.deleted_at IS NULL`,
		`INSERT INTO queen.segments (partition_id, base_offset, end_offset, created_at, tag, raw_bytes, codec, payload)
			SELECT o.id, s.base_offset, s.end_offset, s.created_at, s.tag, s.raw_bytes, s.codec, s.payload
			FROM queen.queues q JOIN queen.partitions o ON o.queue_id = q.id JOIN queen.partitions f ON f.queue_id = q.id AND f.name = 'p0000000'
			JOIN queen.segments s ON s.partition_id = f.id
			WHERE q.name = $1 AND q.deleted_at IS NULL AND o.id <> f.id AND $2::integer > 1`,
		`INSERT INTO queen.dedup (partition_id, base_offset, end_offset, created_at, tag, hashes)
			SELECT o.id, d.base_offset, d.end_offset, d.created_at, d.tag, d.hashes
			FROM queen.queues q JOIN queen.partitions o ON o.queue_id = q.id JOIN queen.partitions f ON f.queue_id = q.id AND f.name = 'p0000000'
			JOIN queen.dedup d ON d.partition_id = f.id
			WHERE q.name = $1 AND q.deleted_at IS NULL AND o.id <> f.id AND $2::integer > 1`,
	} {
		if _, err := tx.Exec(ctx, sql, queue, count); err != nil {
			return fmt.Errorf("fill partitions: %.50s: %w", sql, err)
		}
	}
	return nil
}
