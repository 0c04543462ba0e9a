package group

import (
	"context"

	"github.com/google/uuid"

	"queen.internal/pkg/pg"
	"queen.internal/pkg/queue"
)

const pauseSQL = `SELECT outcome, changed FROM queen.set_pause($1, $2, $3, $4)`

// The outcomes of set_pause that are not its success.
const (
	noQueue = 1
	noGroup = 2
)

// SetPause stops the deliveries of a queue, or of one group of it unless groupName is nil, or lets them go on; changed
// says whether that was not so before. A queue that does not exist, and a group that has never come to it, are errors of
// kind NotFound. Repeating it is harmless. Other errors have a kind, too.
func (s *Store) SetPause(ctx context.Context, tenant uuid.UUID, queueName string, groupName *string, paused bool) (changed bool, err error) {
	var outcome int
	err = s.pool.QueryRow(ctx, pauseSQL, optionalUUID(&tenant), queueName, groupName, paused).Scan(&outcome, &changed)
	if err != nil {
		return false, pg.Wrap("pause or resume", err)
	}
	switch outcome {
	case noQueue:
		return false, queue.NotFound("Queue not found")
	case noGroup:
		return false, queue.NotFound("Consumer group not found")
	}
	return changed, nil
}
