package pop

import (
	"context"
	"time"

	"queen.internal/pkg/store/group"
	"queen.internal/services/deliver/internal/ready"
)

// exhaustedPause is how long a pinned partition rests whose head could not be dead-lettered. A ring rests it as long.
const exhaustedPause = 500 * time.Millisecond

// pinned makes one attempt at a pinned partition. known is what an earlier attempt of the same call found out.
func (c *call) pinned(ctx context.Context, pin *ready.Pin, known **group.Pinned) error {
	if ctx.Err() != nil {
		return nil // nobody would read what a claim leases
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), c.o.Timeout)
	defer cancel()
	for pauses := 0; ; {
		fresh := *known == nil
		if fresh {
			start := c.req.start(true)
			if c.absent && start.From.IsZero() {
				start.Mode = "all" // this call waits since before the partition was there, so nothing of it is backlog
			}
			found, ok, err := c.o.Groups.Pin(ctx, c.req.Tenant, c.req.Queue, c.req.Partition, c.req.Query.Group, start)
			if err != nil || !ok {
				c.absent = c.absent || err == nil
				return err
			}
			*known = &found
			pin.Known(found.Ref, found.PartitionID)
		}
		result, err := c.claim(ctx, (*known).Ref, []int64{(*known).PartitionID})
		if err != nil {
			return err
		}
		again := false
		for i := range result.Claims {
			switch claim := &result.Claims[i]; claim.Verdict {
			case group.Took:
				pin.Took(claim, c.req.Query.AutoAck, result.Clock)
			case group.Gone:
				// What stands there next has been made since, as if there had been nothing.
				*known, again, c.absent = nil, !fresh, true
			case group.Busy:
				pin.Spot().Due(time.Now().Add(busyPause))
				again = pauses < busyRounds
				pauses++
				if again {
					pause(ctx, busyPause)
				}
			case group.Exhausted:
				pin.Spot().Due(time.Now().Add(exhaustedPause))
			case group.Leased, group.Deferred:
				pin.Spot().Due(time.Now().Add(claim.Until.Sub(result.Clock) + time.Millisecond))
			}
		}
		if !again {
			return c.deliver(ctx, result.Claims)
		}
	}
}

// pause waits for a lock of another transaction to end, which nobody announces.
func pause(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
}
