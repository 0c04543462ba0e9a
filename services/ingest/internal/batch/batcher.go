package batch

import (
	"context"
	"sync"
	"time"

	"queen.internal/pkg/appendlog"
	"queen.internal/pkg/queue"
)

// Appender commits groups that have distinct keys and returns one result per group, in their order. A result without
// error has one outcome per message. The context bounds it; it may be slow, and may be called concurrently.
type Appender interface {
	Append(ctx context.Context, groups []appendlog.Group) []appendlog.Result
}

// Options bound a Batcher. Every field but Flushed must be set; Defaults is a start.
type Options struct {
	Committers int // flushes under way at a time

	QueuedBytes int64 // of requests accepted and not yet answered, in Cost units

	FlushPartitions   int // partitions in one flush
	FlushBytes        int // bytes in one flush
	PartitionMessages int // messages of one partition in one flush
	PartitionBytes    int // bytes of one partition in one flush

	DrainTime time.Duration // for finishing what was accepted, when Run stops

	// Flushed is told of each flush after it was settled. It is called by committers, concurrently.
	Flushed func(Flush)
}

// Defaults are bounds for a pool of six connections: a partition's share of a flush is about one segment.
func Defaults() Options {
	return Options{
		Committers:        4,
		QueuedBytes:       64 << 20,
		FlushPartitions:   256,
		FlushBytes:        4 << 20,
		PartitionMessages: 1000,
		PartitionBytes:    1 << 20,
		DrainTime:         5 * time.Second,
	}
}

// Flush describes a finished flush.
type Flush struct {
	Partitions, Groups, Messages, Bytes int

	Failed int // partitions that ended in an error
	Took   time.Duration
}

// Depth is what a Batcher holds now.
type Depth struct {
	Bytes      int64 // of requests accepted and not yet answered
	Waiting    int   // groups in no flush yet
	InFlight   int   // partitions in a flush
	Committing int   // flushes under way
}

// retryAfter is what an overloaded Batcher advises: by then several flushes have gone out.
const retryAfter = time.Second

// Batcher coalesces pushes. Make it with New, work it with Run.
type Batcher struct {
	log  Appender
	opts Options

	mu       sync.Mutex
	ready    sync.Cond // a partition became ready, or stopping was set
	sched    schedule
	stopping bool
	flushes  int // under way
}

// New returns a Batcher that appends to log.
func New(log Appender, opts Options) *Batcher {
	b := &Batcher{log: log, opts: opts, sched: newSchedule()}
	b.ready.L = &b.mu
	return b
}

// Push commits groups, which have distinct keys, and returns one result for each in their order. It blocks until all
// have one. When ctx ends first, the groups that are in no flush yet are withdrawn, and their error is the context's
// cause; it still waits for the others. So the groups' memory is the caller's again whenever Push returns.
//
// An error means that nothing was accepted: kind Overloaded when too many bytes are waiting, kind Unavailable after
// Run's context has ended.
func (b *Batcher) Push(ctx context.Context, groups []appendlog.Group) ([]appendlog.Result, error) {
	if len(groups) == 0 {
		return nil, nil
	}
	r := newRequest(groups)
	if err := b.accept(r); err != nil {
		return nil, err
	}
	select {
	case <-r.done:
	case <-ctx.Done():
		b.withdraw(r, context.Cause(ctx))
		<-r.done
	}
	return r.results, nil
}

func (b *Batcher) accept(r *request) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.stopping {
		return queue.Unavailable("this ingest is shutting down", retryAfter, nil)
	}
	if held := b.sched.bytes; held > 0 && held+r.cost > b.opts.QueuedBytes {
		return queue.Overloaded("too many pushes are waiting for PostgreSQL", retryAfter)
	}
	b.sched.accept(r)
	b.ready.Signal()
	return nil
}

func (b *Batcher) withdraw(r *request, cause error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.sched.withdraw(r, cause)
	b.wakeToLeave()
}

// Depth is a reading of what is held.
func (b *Batcher) Depth() Depth {
	b.mu.Lock()
	defer b.mu.Unlock()
	return Depth{
		Bytes: b.sched.bytes, Waiting: b.sched.waiting, InFlight: b.sched.busy, Committing: b.flushes,
	}
}

// Run works until ctx ends, then finishes what was accepted, and returns nil. It is called once.
func (b *Batcher) Run(ctx context.Context) error {
	appending, abort := context.WithCancelCause(context.WithoutCancel(ctx))
	defer abort(nil)
	var committers sync.WaitGroup
	for range b.opts.Committers {
		committers.Go(func() { b.commit(appending) })
	}
	<-ctx.Done()
	b.stop()
	finished := make(chan struct{})
	go func() { // ends with the committers, which this function waits for
		committers.Wait()
		close(finished)
	}()
	drain := time.NewTimer(b.opts.DrainTime)
	defer drain.Stop()
	select {
	case <-finished:
	case <-drain.C:
		err := queue.Unavailable("this ingest is shutting down and PostgreSQL did not take the push in time", retryAfter, nil)
		b.abandon(err)
		abort(err)
		<-finished
	}
	return nil
}

func (b *Batcher) stop() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.stopping = true
	b.wakeToLeave()
}

// abandon answers everything that is in no flush.
func (b *Batcher) abandon(err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.sched.abandon(err)
	b.wakeToLeave()
}
