// Package deadletter calls the procedures that list and remove dead letters. It is their only caller; what each does is
// written in sql/broker/procedures. Filing one is the business of acks and claims, in pkg/store/group; putting one back
// into a queue is an append, in pkg/appendlog. The package keeps no state.
package deadletter

import (
	"context"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5/pgtype"

	"queen.internal/pkg/pg"
)

// Store calls the procedures on a pool, one borrowed connection a call. It is safe for concurrent use.
type Store struct{ pool *pg.Pool }

// New returns a Store on pool, which the caller closes.
func New(pool *pg.Pool) *Store { return &Store{pool: pool} }

const removeSQL = `SELECT queen.remove_dead_letters($1, $2, $3)`

// Remove removes the dead letters of one message, those of all groups, and says how many there were. A partition of
// another tenant has none. Errors have a kind.
func (s *Store) Remove(ctx context.Context, tenant, partition uuid.UUID, transactionID string) (int, error) {
	var removed int
	err := s.pool.QueryRow(ctx, removeSQL, wireUUID(tenant), wireUUID(partition), transactionID).Scan(&removed)
	return removed, pg.Wrap("remove dead letters", err)
}

func wireUUID(id uuid.UUID) pgtype.UUID { return pgtype.UUID{Bytes: id, Valid: true} }

// optional is the parameter for a filter: NULL when it is empty.
func optional(text string) *string {
	if text == "" {
		return nil
	}
	return &text
}
