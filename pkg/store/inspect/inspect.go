// Package inspect calls the procedures by which people look at messages: those that no consumer's work depends on. It is
// their only caller; what each does is written in sql/broker/procedures. Every call is bounded, and what may take many is
// in the hands of the caller. The package keeps no state and changes nothing.
package inspect

import (
	"context"
	"errors"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"

	"queen.internal/pkg/pg"
)

// Store calls the procedures on a pool, one borrowed connection a call. It is safe for concurrent use.
type Store struct{ pool *pg.Pool }

// New returns a Store on pool, which the caller closes.
func New(pool *pg.Pool) *Store { return &Store{pool: pool} }

// Partition is where a message is.
type Partition struct {
	ID      int64
	Name    string
	QueueID int64
	Queue   string
}

const partitionSQL = `SELECT partition_id, partition_name, queue_id, queue_name FROM queen.find_partition($1, $2)`

// Partition finds a partition by the wire's id. It is not found when it does not exist, is another tenant's, or its queue
// was deleted. Errors have a kind.
func (s *Store) Partition(ctx context.Context, tenant, uid uuid.UUID) (p Partition, found bool, err error) {
	err = s.pool.QueryRow(ctx, partitionSQL, wireUUID(tenant), wireUUID(uid)).Scan(&p.ID, &p.Name, &p.QueueID, &p.Queue)
	if errors.Is(err, pgx.ErrNoRows) {
		return p, false, nil
	}
	return p, err == nil, pg.Wrap("find partition", err)
}

// Position is where a group stands in a partition.
type Position struct {
	Partition    int64
	Group        string
	Committed    int64
	LeaseEnd     int64     // last offset under the lease
	LeaseExpires time.Time // zero: no lease is alive
}

// Passed says that the group is done with the message at offset.
func (p *Position) Passed(offset int64) bool { return offset <= p.Committed }

// Leased says that the group has the message at offset under a live lease.
func (p *Position) Leased(offset int64) bool {
	return !p.LeaseExpires.IsZero() && offset > p.Committed && offset <= p.LeaseEnd
}

const positionsSQL = `SELECT partition_id, group_name, committed, coalesce(batch_end, -1), lease_expires_at FROM queen.group_positions($1)`

// Positions says where the groups stand that read these partitions, by partition and name. Errors have a kind.
func (s *Store) Positions(ctx context.Context, partitions []int64) ([]Position, error) {
	rows, err := s.pool.Query(ctx, positionsSQL, partitions)
	if err != nil {
		return nil, pg.Wrap("look at cursors", err)
	}
	found, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (Position, error) {
		var p Position
		var expires *time.Time
		err := row.Scan(&p.Partition, &p.Group, &p.Committed, &p.LeaseEnd, &expires)
		if expires != nil {
			p.LeaseExpires = *expires
		}
		return p, err
	})
	return found, pg.Wrap("look at cursors", err)
}

func wireUUID(id uuid.UUID) pgtype.UUID { return pgtype.UUID{Bytes: id, Valid: true} }

// optional is the parameter for a filter: NULL when it is empty.
func optional(text string) *string {
	if text == "" {
		return nil
	}
	return &text
}
