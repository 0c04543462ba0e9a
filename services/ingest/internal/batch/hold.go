package batch

import "queen.internal/pkg/appendlog"

// Hold keeps a partition out of flushes until Release: what is pushed to it waits, in its order. It is false, and changes
// nothing, while a flush holds the partition. Whoever holds one releases it soon, and in any case.
func (b *Batcher) Hold(key appendlog.Key) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	p := b.sched.partitions[key]
	if p == nil {
		p = &partition{key: key}
		b.sched.partitions[key] = p
	}
	if p.busy {
		return false
	}
	if p.place != nil {
		b.sched.unlist(p)
	}
	p.busy = true
	return true
}

// Release lets the partition be flushed again.
func (b *Batcher) Release(key appendlog.Key) {
	b.mu.Lock()
	defer b.mu.Unlock()
	p := b.sched.partitions[key]
	p.busy = false
	b.sched.list(p)
	b.sched.forget(p)
	b.signal()
	b.wakeToLeave()
}
