package group

import (
	"context"
	"time"

	"github.com/google/uuid"

	"queen.internal/pkg/pg"
)

// Extension is the outcome of a renewal.
type Extension struct {
	Renewed int
	Expires time.Time // earliest new expiry; zero when nothing was renewed
}

// LeaseKey names one cursor that a lease holds.
type LeaseKey struct{ Partition, Subscription int64 }

const extendSQL = `SELECT renewed, expires_at FROM queen.extend_lease($1, $2, $3, $4, $5, $6)`

// Extend moves the expiry of the lease's live cursors to seconds from now, never backwards. keys are the cursors the
// lease is known to hold; nil searches them all, which reads every cursor there is. Errors have a kind.
func (s *Store) Extend(ctx context.Context, tenant, lease uuid.UUID, seconds int, clockCap time.Time, keys []LeaseKey) (Extension, error) {
	var subscriptions, partitions []int64
	for _, key := range keys {
		subscriptions, partitions = append(subscriptions, key.Subscription), append(partitions, key.Partition)
	}
	var extension Extension
	var expires *time.Time
	err := s.pool.QueryRow(ctx, extendSQL, optionalUUID(&tenant), optionalUUID(&lease), seconds, optionalTime(clockCap), subscriptions, partitions).
		Scan(&extension.Renewed, &expires)
	if expires != nil {
		extension.Expires = *expires
	}
	return extension, pg.Wrap("extend lease", err)
}
