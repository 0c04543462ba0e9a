package pop

import (
	"context"
	"time"

	"queen.internal/services/deliver/internal/ready"
	"queen.internal/services/deliver/internal/wait"
)

// fatten holds a long poll that finds work, but less than it asked for, as long as the queue says, until there is enough or
// the poll is due. It does so once for a poll. With search, a ring without anything to take is searched first; vain says
// that this found nothing. Errors have a kind.
func (c *call) fatten(ctx context.Context, ring *ready.Ring, ticket uint64, search bool) (vain bool, err error) {
	if c.held || !c.req.Query.Wait || c.req.Query.Batch < 2 {
		return false, nil
	}
	filling := ring.Filling()
	minWait, err := filling.MinWait(ctx)
	if err != nil || minWait == 0 {
		return false, err
	}
	if search && ring.Queued() == 0 {
		if err := c.search(ctx, ring, ticket); err != nil {
			return false, err
		}
	}
	if ring.Queued() == 0 {
		return search, nil // parks, and is held when there is something
	}
	c.held = true
	until := time.Now().Add(minWait)
	if until.After(c.deadline) {
		until = c.deadline
	}
	version := filling.Spot().Version()
	if err := filling.Estimate(ctx); err != nil {
		return false, err
	}
	for filling.Messages() < c.req.Query.Batch {
		outcome, err := filling.Spot().Park(ctx, &c.hold, version, until, c.req.Draining)
		if err != nil || outcome != wait.Woken {
			break // also when too many polls are parked already
		}
		version = filling.Spot().Version()
	}
	return false, nil
}
