// Package group calls the procedures of consumer groups: subscriptions, candidates, claims, acks and leases. It is their
// only caller; what each decides is written in sql/broker/procedures. It keeps no state.
package group

import (
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5/pgtype"

	"queen.internal/pkg/pg"
	"queen.internal/pkg/store/log"
)

// Store calls the procedures on a pool, one borrowed connection a call. It is safe for concurrent use.
type Store struct {
	pool *pg.Pool
	log  *log.Store
	page int // cursors that one call of a registration writes
}

// New returns a Store on pool, which the caller closes.
func New(pool *pg.Pool) *Store { return &Store{pool: pool, log: log.New(pool), page: seedPage} }

// optionalTime is the parameter for t: NULL when t is zero.
func optionalTime(t time.Time) *time.Time {
	if t.IsZero() {
		return nil
	}
	return &t
}

// optionalInt is the parameter for n: NULL when n is not positive.
func optionalInt(n int) *int {
	if n <= 0 {
		return nil
	}
	return &n
}

// uuids is a uuid[] parameter in the form the driver encodes without reflection.
type uuids = pgtype.FlatArray[pgtype.UUID]

func optionalUUID(id *uuid.UUID) pgtype.UUID {
	if id == nil {
		return pgtype.UUID{}
	}
	return pgtype.UUID{Bytes: *id, Valid: true}
}

func uuidArray(ids []uuid.UUID) uuids {
	array := make(uuids, len(ids))
	for i := range ids {
		array[i] = optionalUUID(&ids[i])
	}
	return array
}
