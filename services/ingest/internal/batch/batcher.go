package batch

import (
	"context"
	"sync"
	"time"

	"queen.internal/pkg/appendlog"
	"queen.internal/pkg/queue"
	"queen.internal/services/ingest/internal/room"
)

// Appender commits groups that have distinct keys and returns one result per group, in their order. A result without
// error has one outcome per message. The context bounds it; it may be slow, and may be called concurrently.
type Appender interface {
	Append(ctx context.Context, groups []appendlog.Group) []appendlog.Result
}

// Options bound a Batcher. Every field but Peers and Flushed must be set; Defaults is a start.
type Options struct {
	Committers int           // flushes under way at a time, of this process and its peers together; each has one in any case
	Peers      func() int    // how many others flush into the same database; it must not block
	Patience   time.Duration // how long the flush begun last is left alone before another is begun beside it

	QueuedBytes int64         // of requests accepted and not yet answered, in Cost units
	RoomWait    time.Duration // how long a request waits for that before it is refused

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
		Patience:          10 * time.Millisecond,
		QueuedBytes:       64 << 20,
		RoomWait:          time.Second,
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

// retryAfter is what a Batcher that stops advises.
const retryAfter = time.Second

// Batcher coalesces pushes. Make it with New, work it with Run.
type Batcher struct {
	log  Appender
	opts Options
	room *room.Room

	mu       sync.Mutex
	ready    sync.Cond // a flush is due, or stopping was set
	sched    schedule
	stopping bool
	flushes  int         // under way
	begun    time.Time   // when the last of them was
	overdue  *time.Timer // when that has taken as long as the others are patient
}

// New returns a Batcher that appends to log.
func New(log Appender, opts Options) *Batcher {
	b := &Batcher{log: log, opts: opts, sched: newSchedule(), room: room.New(opts.QueuedBytes, opts.RoomWait)}
	b.ready.L = &b.mu
	b.overdue = time.AfterFunc(time.Hour, b.wake)
	b.overdue.Stop()
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
	taken, err := b.room.Take(ctx, Cost(groups))
	if err != nil {
		return nil, err
	}
	defer b.room.Leave(taken)
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
	b.sched.accept(r)
	b.signal()
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
	defer b.overdue.Stop()
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
