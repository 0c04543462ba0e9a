package modes

import (
	"context"
	"fmt"
	"time"

	"queen.internal/pkg/queue"
)

// Set turns a switch: here at once, then in the database, then for everybody. stored is false when the database could not be
// told in time; it will be as soon as it can. An error, which has a kind, says that others keep turning it the other way, or
// that ctx ended before anything was done.
func (k *Keeper) Set(ctx context.Context, name string, on bool) (stored bool, err error) {
	select {
	case <-k.setting:
		defer func() { k.setting <- struct{}{} }()
	case <-ctx.Done():
		return false, context.Cause(ctx)
	}
	for _, m := range all {
		if m.name == name {
			return k.set(context.WithoutCancel(ctx), m, on)
		}
	}
	return false, fmt.Errorf("there is no switch %q", name)
}

func (k *Keeper) set(ctx context.Context, m mode, on bool) (stored bool, err error) {
	ctx, cancel := context.WithTimeout(ctx, k.o.Timeout)
	defer cancel()
	for range setAttempts {
		var mine held
		k.take(m.name, "request", func(h *held) bool {
			h.on, h.version, h.stored, h.known = on, later(h.version), false, true
			mine = *h
			return true
		})
		k.save()
		row, err := k.offer(ctx, m, mine)
		k.announce(m)
		k.nudge()
		switch {
		case err != nil:
			k.o.Logger.Warn("the database could not be told of "+m.says+", it will be", "on", on, "err", err)
			return false, nil
		case row.On == on:
			k.save()
			return true, nil
		}
		// Somebody whose clock is ahead has turned it the other way; what that process knew is known here now.
	}
	return false, queue.Unavailable(m.says+" is being turned the other way at the same time", time.Second, nil)
}
