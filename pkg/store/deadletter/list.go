package deadletter

import (
	"context"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"queen.internal/pkg/pg"
)

// Filter narrows a listing; what is empty or zero does not.
type Filter struct {
	Queue, Partition, Group string
	From, Before            time.Time // of the failure; Before itself is not in it
}

// Page says which part of a listing is wanted.
type Page struct {
	Limit, Offset int
	MaxBytes      int64 // of all payloads together; the first one is given whatever its size
}

// Letter is one dead letter.
type Letter struct {
	ID            uuid.UUID
	Queue         string
	PartitionID   uuid.UUID
	Partition     string
	Group         string
	TransactionID string
	Error         string
	RetryCount    int
	FailedAt      time.Time
	Payload       []byte // as it was stored, maybe sealed; nil when the page had no room for it
}

const listSQL = `SELECT id, queue_name, partition_uid, partition_name, group_name, transaction_id, error, retry_count, failed_at, payload
FROM queen.list_dead_letters($1, $2, $3, $4, $5, $6, $7, $8, $9)`

// List gives a page of a tenant's dead letters, newest failure first, and whether there are more behind it. Errors have a
// kind.
func (s *Store) List(ctx context.Context, tenant uuid.UUID, f Filter, p Page) (letters []Letter, more bool, err error) {
	// One row beyond the page tells that there are more.
	rows, err := s.pool.Query(ctx, listSQL, wireUUID(tenant), optional(f.Queue), optional(f.Partition), optional(f.Group),
		optionalTime(f.From), optionalTime(f.Before), p.Limit+1, p.Offset, p.MaxBytes)
	if err != nil {
		return nil, false, pg.Wrap("list dead letters", err)
	}
	letters, err = pgx.CollectRows(rows, func(row pgx.CollectableRow) (Letter, error) {
		var l Letter
		err := row.Scan(&l.ID, &l.Queue, &l.PartitionID, &l.Partition, &l.Group, &l.TransactionID, &l.Error, &l.RetryCount,
			&l.FailedAt, &l.Payload)
		return l, err
	})
	if err != nil {
		return nil, false, pg.Wrap("list dead letters", err)
	}
	if len(letters) > p.Limit {
		return letters[:p.Limit], true, nil
	}
	return letters, false, nil
}

func optionalTime(t time.Time) *time.Time {
	if t.IsZero() {
		return nil
	}
	return &t
}
