package log

import (
	"context"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"queen.internal/pkg/pg"
)

// Queue names a queue as clients do.
type Queue struct {
	Tenant uuid.UUID
	Name   string
}

// Flags are how a queue wants its messages treated before they are appended.
type Flags struct {
	Encryption bool // payloads are stored sealed
}

const flagsSQL = `SELECT place, encryption_enabled FROM queen.queue_flags($1, $2)`

// Flags gives the flags of each queue; one that does not exist has none. They are a hint: Append decides by what is in
// force when it writes. Errors have a kind.
func (s *Store) Flags(ctx context.Context, queues []Queue) ([]Flags, error) {
	tenants, names := make(uuids, len(queues)), make([]string, len(queues))
	for i, q := range queues {
		tenants[i], names[i] = wireUUID(q.Tenant), q.Name
	}
	conn, err := s.Acquire(ctx)
	if err != nil {
		return nil, pg.Wrap("look queues up", err)
	}
	defer conn.Release()
	rows, err := conn.Query(ctx, flagsSQL, tenants, names)
	if err != nil {
		return nil, pg.Wrap("look queues up", err)
	}
	found := make([]Flags, len(queues))
	var place int
	var flags Flags
	if _, err = pgx.ForEachRow(rows, []any{&place, &flags.Encryption}, func() error {
		found[place-1] = flags
		return nil
	}); err != nil {
		return nil, pg.Wrap("look queues up", err)
	}
	return found, nil
}
