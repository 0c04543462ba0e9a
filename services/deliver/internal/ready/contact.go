package ready

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/google/uuid"

	"queen.internal/pkg/queue"
	"queen.internal/pkg/store/group"
)

// contactReserve is the part of a call's time that is left when a registration stops asking for another page, so that no
// page is cut off.
const contactReserve = 8

// OnQueue says who is told of each queue that a contact has created. It must not block. Call it before the first pop.
func (x *Index) OnQueue(created func(tenant uuid.UUID, queue string)) { x.created = created }

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
			if made.Created && x.created != nil {
				x.created(key.Tenant, key.Queue)
			}
			return made, there, err
		}
		if end, ok := ctx.Deadline(); ok && time.Until(end) < x.options.Timeout/contactReserve {
			return group.Subscription{}, false, unfinished
		}
	}
}

// unregistered says that a group's registration is not at its end.
func unregistered(err error) bool { return errors.As(err, new(*group.Seeding)) }

// Contact makes the first contact of the group with every queue of the discovery, as Rings has them, before anything is
// taken from one: a pop may be full before it comes to the others, and what is pushed to these after its answer must not be
// backlog. A group that begins at the start of the log loses nothing and needs none. What there is no time for is left to
// the next pop. Errors have a kind.
func (d *Discovery) Contact(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), d.index.options.Timeout)
	defer cancel()
	rings := d.Rings()
	for i, r := range rings {
		if !r.skipsUnmet() {
			continue
		}
		if end, _ := ctx.Deadline(); time.Until(end) < d.index.options.Timeout/contactReserve {
			return queue.Unavailable(fmt.Sprintf("the group is being registered: %d of %d queues are done", i, len(rings)), time.Second, nil)
		}
		if _, err := r.subscribe(ctx, discovery); err != nil {
			return err
		}
	}
	return nil
}

// skipsUnmet says that a first contact is to be made, and decides what is skipped.
func (r *Ring) skipsUnmet() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return (r.stale || r.subscription.ID == 0 && !r.met) && (r.start.Mode != "all" || !r.start.From.IsZero())
}
