package retention

import (
	"context"
	"errors"
	"log/slog"
	"sync"

	"golang.org/x/sync/errgroup"

	"queen.internal/pkg/store/retention"
	"queen.internal/pkg/store/task"
	"queen.internal/services/maintainer/internal/claim"
)

const (
	// queuesAtOnce is a page of queues that are asked whether anything is due.
	queuesAtOnce = 1000
	// partitionsAtOnce bounds how many partitions one step locks: an append waits for at most one step.
	partitionsAtOnce = 32
	// stepsAtOnce is after how many steps a queue makes room for others, and the lease is renewed.
	stepsAtOnce = 50
)

// Cycle works the rules of all queues.
type Cycle struct {
	Store       *retention.Store
	Batch       int // rows one step deletes at most
	Parallelism int // workers
	Meter       *Meter
}

// tally is what a cycle has done so far.
type tally struct {
	mu       sync.Mutex
	messages retention.Removed
	queues   int
	segments int
	hashes   int
}

func (t *tally) add(messages retention.Removed, segments, hashes int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.messages.Add(messages)
	t.segments += segments
	t.hashes += hashes
}

// told is what a line of the log says.
func (t *tally) told() []slog.Attr {
	m := t.messages
	if m == (retention.Removed{}) && t.segments == 0 && t.hashes == 0 {
		return nil
	}
	return []slog.Attr{
		slog.Int("queues", t.queues), slog.Int64("messages_aged", m.Aged), slog.Int64("messages_completed", m.Completed),
		slog.Int64("messages_evicted", m.Evicted), slog.Int64("messages_unread", m.Unread),
		slog.Int("segments_deleted", t.segments), slog.Int("hashes_deleted", t.hashes),
	}
}

// Work is one period. A queue that fails does not keep the others from being worked; the first failure is returned.
func (c *Cycle) Work(ctx context.Context, l *claim.Lease) ([]slog.Attr, error) {
	var done tally
	var failed error
	for after := int64(0); after >= 0; {
		queues, next, err := c.Store.Stale(ctx, after, queuesAtOnce)
		if err != nil {
			return done.told(), errors.Join(failed, err)
		}
		done.queues += len(queues)
		if err := c.page(ctx, l, queues, &done); err != nil {
			if errors.Is(err, task.ErrReplaced) || ctx.Err() != nil {
				return done.told(), err
			}
			failed = errors.Join(failed, err)
		}
		after = next
	}
	return done.told(), failed
}

// page works queues until none of them has anything left to do: some steps of each, then the lease, then on.
func (c *Cycle) page(ctx context.Context, l *claim.Lease, queues []int64, done *tally) error {
	var failed error
	var open []*progress
	for _, q := range queues {
		open = append(open, &progress{queue: q})
	}
	for len(open) > 0 {
		workers, working := errgroup.WithContext(ctx)
		workers.SetLimit(max(c.Parallelism, 1))
		for _, p := range open {
			workers.Go(func() error {
				p.err = c.some(working, l.Hold, p, done)
				if errors.Is(p.err, task.ErrReplaced) {
					return p.err // nobody need try
				}
				return nil
			})
		}
		if err := workers.Wait(); err != nil {
			return err
		}
		var left []*progress
		for _, p := range open {
			failed = errors.Join(failed, p.err)
			if p.err == nil && p.stage != ended {
				left = append(left, p)
			}
		}
		open = left
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		if err := l.Keep(ctx); err != nil {
			return errors.Join(failed, err)
		}
	}
	return failed
}

// progress is how far the work on a queue has come.
type progress struct {
	queue int64
	stage stage
	at    retention.Position
	err   error
}

type stage int

const (
	cutting stage = iota
	clearing
	hashing
	ended
)

// some makes a bounded number of steps on one queue.
func (c *Cycle) some(ctx context.Context, h task.Hold, p *progress, done *tally) error {
	for range stepsAtOnce {
		more, err := c.step(ctx, h, p, done)
		if err != nil {
			return err
		}
		if !more {
			if p.stage++; p.stage == ended {
				return nil
			}
			p.at = retention.Position{}
		}
	}
	return nil
}

// step makes one, and says whether there may be another of its stage.
func (c *Cycle) step(ctx context.Context, h task.Hold, p *progress, done *tally) (more bool, err error) {
	switch p.stage {
	case cutting:
		cut, err := c.Store.Cut(ctx, h, p.queue, p.at, partitionsAtOnce)
		p.at = cut.Next
		done.add(cut.Removed, 0, 0)
		c.Meter.messages(cut.Removed)
		return cut.Looked == partitionsAtOnce, err
	case clearing:
		n, err := c.Store.RemoveSegments(ctx, h, p.queue, c.Batch)
		done.add(retention.Removed{}, n, 0)
		c.Meter.rows("segments", n)
		return n == c.Batch, err
	default:
		looked, n, next, err := c.Store.RemoveHashes(ctx, h, p.queue, p.at, partitionsAtOnce, c.Batch)
		if n < c.Batch { // otherwise the page is not done
			p.at = next
		}
		done.add(retention.Removed{}, 0, n)
		c.Meter.rows("hashes", n)
		return looked == partitionsAtOnce || n >= c.Batch, err
	}
}
