package admin

import (
	"context"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5/pgtype"

	"queen.internal/pkg/pg"
	"queen.internal/pkg/queue"
)

// Queue is a queue with the options in force.
type Queue struct {
	ID      uuid.UUID // of this queue; another one under the same name has another
	Options queue.Options
}

// optionColumns are the columns of a queue's row that hold its options, in the order of optionFields.
const optionColumns = `namespace, task, priority, lease_seconds, retry_limit, retry_delay_ms, max_size, ttl_seconds,
	dead_letter_queue, dead_letter_after_retries, delayed_processing_seconds, window_buffer_seconds, retention_seconds,
	completed_retention_seconds, retention_enabled, encryption_enabled, max_wait_seconds, min_pop_wait_ms, dedup_window_seconds,
	retention_sink_hold, retention_sink_hold_max_seconds, delivery_limit, redelivery_delay_seconds, spool_enabled`

func optionFields(o *queue.Options) []any {
	return []any{
		&o.Namespace, &o.Task, &o.Priority, &o.LeaseSeconds, &o.RetryLimit, &o.RetryDelayMillis, &o.MaxSize, &o.TTLSeconds,
		&o.DeadLetterQueue, &o.DeadLetterAfterRetries, &o.DelayedProcessingSeconds, &o.WindowBufferSeconds, &o.RetentionSeconds,
		&o.CompletedRetentionSeconds, &o.RetentionEnabled, &o.EncryptionEnabled, &o.MaxWaitSeconds, &o.MinPopWaitMillis, &o.DedupWindowSeconds,
		&o.RetentionSinkHold, &o.RetentionSinkHoldMaxSeconds, &o.DeliveryLimit, &o.RedeliveryDelaySeconds, &o.Spool,
	}
}

const configureSQL = `SELECT uid, ` + optionColumns + `
FROM queen.configure_queue($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16, $17, $18, $19, $20, $21, $22,
	$23, $24, $25, $26)`

// Configure changes the options of a queue that change speaks of, which must be settled, and creates the queue when there
// is none. Repeating it is harmless. Errors have a kind.
func (s *Store) Configure(ctx context.Context, tenant uuid.UUID, name string, change queue.Options) (Queue, error) {
	c := &change
	var q Queue
	err := s.pool.QueryRow(ctx, configureSQL, pgtype.UUID{Bytes: tenant, Valid: true}, name, c.Namespace, c.Task, c.Priority,
		c.LeaseSeconds, c.RetryLimit, c.RetryDelayMillis, c.MaxSize, c.TTLSeconds, c.DeadLetterQueue, c.DeadLetterAfterRetries,
		c.DelayedProcessingSeconds, c.WindowBufferSeconds, c.RetentionSeconds, c.CompletedRetentionSeconds, c.RetentionEnabled,
		c.EncryptionEnabled, c.MaxWaitSeconds, c.MinPopWaitMillis, c.DedupWindowSeconds, c.RetentionSinkHold,
		c.RetentionSinkHoldMaxSeconds, c.DeliveryLimit, c.RedeliveryDelaySeconds, c.Spool,
	).Scan(append([]any{&q.ID}, optionFields(&q.Options)...)...)
	return q, pg.Wrap("configure queue", err)
}
