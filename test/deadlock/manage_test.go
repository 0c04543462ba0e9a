package deadlock_test

import (
	"errors"
	"time"

	"queen.internal/pkg/queue"
	"queen.internal/pkg/store/group"
)

func (w worker) pin() error {
	_, _, err := w.group.Pin(w.Context(), tenant, w.queueName(), w.partitionName(), w.groupName(), w.start())
	return err
}

func (w worker) subscribe() error {
	_, err := w.contact(w.queueName(), w.groupName(), w.start())
	return err
}

// contact registers a group, in pages of two partitions. One time in a few it is left half done for others, as by a process
// that is killed.
func (w worker) contact(queueName, groupName string, start group.Start) (sub group.Subscription, err error) {
	for {
		sub, err = w.group.Subscribe(w.Context(), tenant, queueName, groupName, start)
		if !errors.As(err, new(*group.Seeding)) || w.oneIn(4) {
			return sub, err
		}
	}
}

// to is where a seek goes: the end, the beginning or somewhere.
func (w worker) to() *time.Time {
	return []*time.Time{nil, new(time.Unix(0, 0)), new(time.Now().Add(-time.Second))}[w.IntN(3)]
}

func (w worker) seek() error {
	seek, found, err := w.group.BeginSeek(w.Context(), tenant, w.queueName(), w.groupName(), w.to())
	for after, more := int64(0), found; more && err == nil; {
		after, _, more, err = w.group.SeekPage(w.Context(), seek, after, 3)
	}
	return err
}

func (w worker) seekPartition() error {
	_, _, err := w.group.SeekPartition(w.Context(), tenant, w.queueName(), w.partitionName(), w.groupName(), w.to())
	return err
}

func (w worker) deleteGroup() error {
	if !w.oneIn(4) {
		return nil // or there would be few of whom several calls know
	}
	name := new(w.queueName())
	if w.oneIn(2) {
		name = nil
	}
	ended, err := w.group.Delete(w.Context(), tenant, w.groupName(), name, w.oneIn(2))
	for _, e := range ended {
		for after, more := int64(0), true; more && err == nil; {
			after, _, more, err = w.group.DropCursors(w.Context(), e.Subscription, after, 2)
		}
	}
	return err
}

func (w worker) changeSubscription() error {
	_, err := w.group.ChangeSubscription(w.Context(), tenant, w.groupName(), time.Now())
	return err
}

func (w worker) configure() error {
	change := queue.Options{
		RetryLimit: new(int32(w.IntN(3))), DeadLetterQueue: new(w.oneIn(2)), DeliveryLimit: new([]int32{0, 2, 2, 3}[w.IntN(4)]),
		DedupWindowSeconds: new([]int32{0, 3600}[w.IntN(2)]), RedeliveryDelaySeconds: new([]int32{0, 0, 1}[w.IntN(3)]),
	}
	_, err := w.admin.Configure(w.Context(), tenant, w.queueName(), change)
	return err
}

// deleteQueue frees a name, and the next append, pop or configure makes another queue of it.
func (w worker) deleteQueue() error {
	if !w.oneIn(8) {
		return nil
	}
	_, err := w.admin.Delete(w.Context(), tenant, w.queueName())
	return err
}

func (w worker) purge() error {
	name := ""
	if w.oneIn(2) {
		name = w.groupName()
	}
	_, err := w.dead.Purge(w.Context(), tenant, w.queueName(), name)
	return err
}

func (w worker) remove() error {
	for _, h := range w.some(2) {
		for _, key := range h.keys {
			if _, err := w.dead.Remove(w.Context(), tenant, h.partition, key); err != nil {
				return err
			}
		}
	}
	return nil
}

func (w worker) depth() error {
	var d group.Depth
	_, _, _, err := w.group.AddDepth(w.Context(), &d, tenant, w.queueName(), new(w.groupName()), 0, 100, 10)
	return err
}

func (w worker) endLease() error {
	lease, keys, known := w.leaseOf()
	if !known {
		return nil
	}
	_, err := w.group.Expire(w.Context(), tenant, lease, group.Bounds{}, keys)
	return err
}

func (w worker) listLeases() (err error) {
	var at group.LeaseWalk
	for more := true; more && err == nil; {
		_, at, more, err = w.group.Leases(w.Context(), tenant, "", "", at, 2, group.Bounds{})
	}
	return err
}

func (w worker) pause() error {
	name := new(w.groupName())
	if w.oneIn(2) {
		name = nil
	}
	queueName := w.queueName()
	for _, paused := range []bool{true, false} {
		if _, err := w.group.SetPause(w.Context(), tenant, queueName, name, paused); err != nil && queue.KindOf(err) != queue.KindNotFound {
			return err
		}
	}
	return nil
}
