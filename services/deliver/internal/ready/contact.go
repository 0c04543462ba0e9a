package ready

import (
	"context"
	"errors"
	"time"

	"queen.internal/pkg/queue"
	"queen.internal/pkg/store/group"
)

// contactReserve is the part of a call's time that is left when a registration stops asking for another page, so that no
// page is cut off.
const contactReserve = 8

// subscribe makes a contact; without create it is false when there is no queue. A registration that takes many calls goes
// on as long as ctx allows; what is left is for the next contact, here or elsewhere, and the error says how far it is. Each
// call waits for room anew, so that other contacts come in between.
func (x *Index) subscribe(ctx context.Context, key Key, start group.Start, create bool) (made group.Subscription, there bool, err error) {
	var unfinished error
	for {
		err = x.call(ctx, func() error {
			if there = create; there {
				made, err = x.store.Subscribe(ctx, key.Tenant, key.Queue, key.Group, start)
			} else {
				made, there, err = x.store.Rejoin(ctx, key.Tenant, key.Queue, key.Group, start)
			}
			return err
		})
		switch {
		case unregistered(err):
			unfinished = err
		case queue.KindOf(err) == queue.KindUnavailable && unfinished != nil:
			return group.Subscription{}, false, unfinished // which tells more
		default: // also without an error
			return made, there, err
		}
		if end, ok := ctx.Deadline(); ok && time.Until(end) < x.options.Timeout/contactReserve {
			return group.Subscription{}, false, unfinished
		}
	}
}

// unregistered says that a group's registration is not at its end.
func unregistered(err error) bool { return errors.As(err, new(*group.Seeding)) }
