package batch

import (
	"context"
	"errors"
	"fmt"
	"time"

	"queen.internal/pkg/appendlog"
	"queen.internal/pkg/queue"
)

// commit is one committer: it flushes whatever is ready and sleeps when nothing is, until the Batcher stops and nothing
// is left that could become ready.
func (b *Batcher) commit(ctx context.Context) {
	for {
		f, ok := b.compose()
		if !ok {
			return
		}
		started := time.Now()
		results := checked(f.groups, b.log.Append(ctx, f.groups))
		took := time.Since(started)
		failed := b.settle(f, results)
		if b.opts.Flushed != nil {
			b.opts.Flushed(Flush{
				Partitions: len(f.parts), Groups: f.entries, Messages: f.messages, Bytes: f.bytes, Failed: failed, Took: took,
			})
		}
	}
}

// compose waits for ready partitions and makes a flush of them; it is false when the committer should leave.
func (b *Batcher) compose() (*flush, bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for !b.due() {
		if b.stopping && b.sched.waiting == 0 && b.flushes == 0 {
			return nil, false
		}
		b.ready.Wait()
	}
	f := b.sched.compose(&b.opts)
	b.flushes++
	b.begun = time.Now()
	b.overdue.Reset(b.opts.Patience)
	b.signal() // more than one flush takes: another committer should have it
	return f, true
}

// due says whether a flush is to be begun. The caller holds the mutex.
func (b *Batcher) due() bool {
	switch {
	case !b.sched.anyReady() || b.flushes > 0 && b.flushes >= b.share():
		return false
	case b.flushes == 0 || b.sched.fills(&b.opts):
		return true
	}
	return time.Since(b.begun) >= b.opts.Patience
}

// share is this process's part of the committers.
func (b *Batcher) share() int {
	if b.opts.Peers == nil {
		return b.opts.Committers
	}
	return b.opts.Committers / (1 + b.opts.Peers())
}

// signal wakes a committer if a flush is due. The caller holds the mutex.
func (b *Batcher) signal() {
	if b.due() {
		b.ready.Signal()
	}
}

// wake is signal for the timer.
func (b *Batcher) wake() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.signal()
}

// wakeToLeave is called, under the mutex, after whatever may be the last event that committers wait for when stopping.
func (b *Batcher) wakeToLeave() {
	if b.stopping {
		b.ready.Broadcast()
	}
}

func (b *Batcher) settle(f *flush, results []appendlog.Result) (failed int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.flushes--
	for i := range f.parts {
		if results[i].Err != nil {
			failed++
		}
		b.sched.settle(&f.parts[i], results[i])
	}
	b.wakeToLeave()
	return failed
}

// checked holds an Appender to its word, because a result given to the wrong message would be a lie to a producer.
func checked(groups []appendlog.Group, results []appendlog.Result) []appendlog.Result {
	if len(results) != len(groups) {
		err := fmt.Errorf("append answered %d groups of %d", len(results), len(groups))
		results = make([]appendlog.Result, len(groups))
		for i := range results {
			results[i].Err = err
		}
		return results
	}
	for i := range results {
		if want := len(groups[i].Messages); results[i].Err == nil && len(results[i].Outcomes) != want {
			results[i] = appendlog.Result{Err: fmt.Errorf("append answered %d messages of %d", len(results[i].Outcomes), want)}
		}
	}
	return results
}

// refused says that the groups were judged and nothing was written, so that each may be tried by itself. What is wrong
// with all of them is not worth that.
func refused(err error) bool {
	if errors.Is(err, appendlog.ErrMustSeal) {
		return false
	}
	switch queue.KindOf(err) {
	case queue.KindUnknown, queue.KindUnavailable, queue.KindOverloaded:
		return false
	}
	return true
}
