package deadletter

import (
	"context"
	"errors"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"

	"queen.internal/pkg/pg"
)

// Found is a dead letter and the message it was.
type Found struct {
	Letter
	MessageOffset int64
	MessageID     uuid.UUID
	CreatedAt     time.Time // of the message
}

const findSQL = `SELECT id, queue_name, partition_uid, partition_name, group_name, transaction_id, error, retry_count, failed_at, payload,
	message_offset, message_id, created_at
FROM queen.find_dead_letter($1, $2, $3, $4)`

// ByID finds a dead letter of a tenant. Errors have a kind.
func (s *Store) ByID(ctx context.Context, tenant, id uuid.UUID) (Found, bool, error) {
	return s.find(ctx, wireUUID(tenant), wireUUID(id), pgtype.UUID{}, nil)
}

// Newest finds the dead letter of a message that failed last, of whichever group. Errors have a kind.
func (s *Store) Newest(ctx context.Context, tenant, partition uuid.UUID, transactionID string) (Found, bool, error) {
	return s.find(ctx, wireUUID(tenant), pgtype.UUID{}, wireUUID(partition), &transactionID)
}

func (s *Store) find(ctx context.Context, tenant, id, partition pgtype.UUID, transactionID *string) (f Found, found bool, err error) {
	err = s.pool.QueryRow(ctx, findSQL, tenant, id, partition, transactionID).Scan(&f.ID, &f.Queue, &f.PartitionID, &f.Partition, &f.Group,
		&f.TransactionID, &f.Error, &f.RetryCount, &f.FailedAt, &f.Payload, &f.MessageOffset, &f.MessageID, &f.CreatedAt)
	if errors.Is(err, pgx.ErrNoRows) {
		return f, false, nil
	}
	return f, err == nil, pg.Wrap("find dead letter", err)
}
