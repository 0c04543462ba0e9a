package deadletter

import (
	"context"
	"time"

	"github.com/google/uuid"

	"queen.internal/pkg/pg"
)

// purgeStep is how many dead letters one call removes: it holds their locks for a moment only.
const purgeStep = 2000

const purgeSQL = `SELECT removed, until, more FROM queen.purge_dead_letters($1, $2, $3, $4, $5)`

// Purge removes the dead letters that a queue has when it begins, those of one group or, when group is empty, of all. It
// does so in steps, each a transaction of its own: with an error, removed is what is gone already, and the rest is still
// there. Errors have a kind.
func (s *Store) Purge(ctx context.Context, tenant uuid.UUID, queue, group string) (removed int, err error) {
	var until *time.Time
	for more := true; more; {
		var step int
		row := s.pool.QueryRow(ctx, purgeSQL, wireUUID(tenant), queue, optional(group), until, purgeStep)
		if err := row.Scan(&step, &until, &more); err != nil {
			return removed, pg.Wrap("purge dead letters", err)
		}
		removed += step
	}
	return removed, nil
}
