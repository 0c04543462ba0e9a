package group

import (
	"context"
	"errors"
	"time"

	"github.com/jackc/pgx/v5"

	"queen.internal/pkg/pg"
)

// Available is what some partitions have for a group, and what its queue says of waiting for more.
type Available struct {
	MinWait  time.Duration // how long a poll may be held that would get less than it asked for; 0: not at all
	Messages int
}

const availableSQL = `SELECT min_pop_wait_ms, messages FROM queen.count_available($1, $2, $3)`

// Available estimates what a group would find in the partitions. It is zero when the subscription is gone. Errors have a
// kind.
func (s *Store) Available(ctx context.Context, subscription Ref, partitions []int64) (Available, error) {
	var available Available
	var milliseconds int
	err := s.pool.QueryRow(ctx, availableSQL, subscription.ID, optionalUUID(&subscription.UID), partitions).Scan(&milliseconds, &available.Messages)
	if errors.Is(err, pgx.ErrNoRows) {
		return Available{}, nil
	}
	available.MinWait = time.Duration(milliseconds) * time.Millisecond
	return available, pg.Wrap("count available messages", err)
}
