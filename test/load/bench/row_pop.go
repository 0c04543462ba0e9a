package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"queen.internal/compose/local"
	"queen.internal/test/load/internal/ledger"
	"queen.internal/test/load/internal/machine"
	"queen.internal/test/load/internal/traffic"
	"queen.internal/test/load/internal/turn"
	"queen.internal/test/load/internal/verdict"
	"queen.internal/test/load/internal/yardstick"
)

// pollTimeout is how long a measured consumer waits for work before it asks again.
const pollTimeout = time.Second

// backlog is a fresh queue with messages that nobody has read.
type backlog struct {
	target   traffic.Target
	ledger   *ledger.Ledger
	messages int64
}

// fill pushes at least so many messages to a fresh queue.
func (b *bench) fill(ctx context.Context, messages, connections, batch, groups int) (*backlog, error) {
	l, err := b.ledger(connections, partitions, groups)
	if err != nil {
		return nil, err
	}
	q := &backlog{target: b.straight(), ledger: l, messages: int64(messages)}
	start := time.Now()
	p := traffic.Producers{Target: q.target, Ledger: l, Count: connections, Batch: batch, Limit: q.messages}
	if err := once(ctx, p.Produce); err != nil {
		return nil, fmt.Errorf("fill the queue: %w", err)
	}
	b.say("filled with %d messages in %.1f s", messages, time.Since(start).Seconds())
	return q, nil
}

// consumers of one group of a backlog. Group mode, as applications use it.
func (q *backlog) consumers(group, count, batch int) traffic.Consumers {
	names := traffic.Groups(q.ledger, true)
	return traffic.Consumers{
		Target: q.target, Ledger: q.ledger, Groups: names[group : group+1], First: group, Count: count, Batch: batch, Timeout: pollTimeout,
	}
}

// Turns of this length must not find a queue empty, so it is filled for rates that the machine cannot reach.
func (b *bench) enough(rate float64) int {
	return int(rate * (b.warmup + b.duration).Seconds())
}

// forget makes deliver lose what it has in memory.
func (b *bench) forget(ctx context.Context) error {
	for i := range b.stack.URLs(local.Deliver) {
		if err := b.stack.Restart(ctx, local.Deliver, i+1); err != nil {
			return fmt.Errorf("restart deliver: %w", err)
		}
	}
	return nil
}

func popHundred(ctx context.Context, b *bench) ([]Result, error) {
	if err := b.yardstick.Fill(ctx, b.enough(100_000)); err != nil {
		return nil, err
	}
	var cold, warm []Taken
	for pair := range b.pairs {
		sync, err := machine.Sync(b.stack.Dir())
		if err != nil {
			return nil, err
		}
		b.say("pair %d of %d, fsync %.2f ms", pair+1, b.pairs, sync.Seconds()*1000)
		c := Taken{SyncMillis: sync.Seconds() * 1000}
		if c.Subject, err = b.coldPop(ctx); err != nil {
			return nil, err
		}
		if c.Yardstick, err = b.yard("raw select", b.yardstick.SelectSegments)(ctx); err != nil {
			return nil, err
		}
		cold = append(cold, c)
		w := Taken{SyncMillis: c.SyncMillis, Yardstick: c.Subject}
		if w.Subject, err = b.warmPop(ctx); err != nil {
			return nil, err
		}
		warm = append(warm, w)
	}
	return []Result{
		compare("pop and ack, batch 100, 16 consumers, cold", "messages/s", "raw segment select by key, 100 messages a row, 4 clients",
			verdict.Bar{Limit: 0.5}, cold, acked, stored),
		compare("the same, warm", "messages/s", "the cold figure", verdict.Bar{Limit: 1.5}, warm, acked, acked),
		absolute("CPU of a message, pop and ack, batch 100, cold", "us", verdict.Bar{Limit: 15, Direction: verdict.AtMost}, cpuPerMessage(cold, acked)),
	}, nil
}

// coldPop reads a backlog of which deliver knows nothing.
func (b *bench) coldPop(ctx context.Context) (turn.Figures, error) {
	q, err := b.fill(ctx, b.enough(100_000), 16, 100, 1)
	if err != nil {
		return turn.Figures{}, err
	}
	if err := b.forget(ctx); err != nil {
		return turn.Figures{}, err
	}
	consumers := q.consumers(0, 16, 100)
	consumers.Limit = q.messages
	f, err := b.turnOf(ctx, "pop 100, cold", consumers.Consume)
	return f, errors.Join(err, clean(q.ledger, false))
}

// warmSet is how many messages are read again while they are in memory: about 25 MB as they are stored. A turn of half the
// length of others does not come to their end.
const warmSet = 200_000

// warmPop reads with a second group what the first one has just read.
func (b *bench) warmPop(ctx context.Context) (turn.Figures, error) {
	q, err := b.fill(ctx, warmSet, 16, 100, 2)
	if err != nil {
		return turn.Figures{}, err
	}
	first, second := q.consumers(0, 16, 100), q.consumers(1, 16, 100)
	first.Limit, second.Limit = warmSet, warmSet
	if err := once(ctx, first.Consume); err != nil {
		return turn.Figures{}, err
	}
	f, err := b.turnFor(ctx, "pop 100, warm", 200*time.Millisecond, b.duration/2, second.Consume)
	return f, errors.Join(err, clean(q.ledger, false))
}

func popOne(ctx context.Context, b *bench) ([]Result, error) {
	taken, err := b.alternate(ctx, func(ctx context.Context) (turn.Figures, error) {
		q, err := b.fill(ctx, b.enough(15_000), 256, 1, 1)
		if err != nil {
			return turn.Figures{}, err
		}
		consumers := q.consumers(0, 64, 1)
		consumers.Limit = q.messages
		f, err := b.turnOf(ctx, "pop 1", consumers.Consume)
		return f, errors.Join(err, clean(q.ledger, false))
	}, b.yard("row insert", b.yardstick.InsertRows(yardstick.RowClients)))
	if err != nil {
		return nil, err
	}
	return []Result{compare("pop and ack, batch 1, 64 consumers", "messages/s", "one-row insert, 16 clients", verdict.Bar{Limit: 1.3}, taken, acked, stored)}, nil
}

// carried is the most that sending small segments along with their hints could bring: a second group pops one by one what
// the first has just read, so that none of its pops reads a segment.
func carried(ctx context.Context, b *bench) ([]Result, error) {
	var taken []Taken
	for pair := range b.pairs {
		b.say("pair %d of %d", pair+1, b.pairs)
		q, err := b.fill(ctx, b.enough(10_000), 256, 1, 2)
		if err != nil {
			return nil, err
		}
		if err := b.forget(ctx); err != nil {
			return nil, err
		}
		var t Taken
		if t.Yardstick, err = b.turnOf(ctx, "pop 1, read", q.consumers(0, 64, 1).Consume); err != nil {
			return nil, err
		}
		if t.Subject, err = b.turnFor(ctx, "pop 1, in memory", b.warmup/2, b.duration/2, q.consumers(1, 64, 1).Consume); err != nil {
			return nil, err
		}
		taken = append(taken, t)
		if err := clean(q.ledger, false); err != nil {
			return nil, err
		}
	}
	r := compare("pop and ack, batch 1, segments in memory: the most that hints which carry messages could bring", "messages/s",
		"segments read from PostgreSQL", verdict.Bar{}, taken, acked, acked)
	r.Bar, r.Met = "", nil // it is no promise
	return []Result{r}, nil
}

func both(ctx context.Context, b *bench) ([]Result, error) {
	l, err := b.ledger(16, partitions, 1)
	if err != nil {
		return nil, err
	}
	q := &backlog{target: b.straight(), ledger: l}
	producers := traffic.Producers{Target: q.target, Ledger: l, Count: 16, Batch: 100}
	taken, err := b.alternate(ctx, func(ctx context.Context) (turn.Figures, error) {
		return b.turnOf(ctx, "push, pop and ack", together(producers.Produce, q.consumers(0, 16, 100).Consume))
	}, b.yard("raw insert", b.yardstick.InsertSegments))
	if err != nil {
		return nil, err
	}
	return []Result{
		compare("push, pop and ack at once, batch 100: the slower way", "messages/s", rawInsert, verdict.Bar{Limit: 0.25}, taken, slower, stored),
	}, clean(l, false)
}

// together runs several kinds of work at once until all have ended.
func together(all ...work) work {
	return func(ctx context.Context, m *turn.Meter) error {
		ended := make(chan error, len(all))
		for _, do := range all {
			go func() { ended <- do(ctx, m) }()
		}
		var errs []error
		for range all {
			errs = append(errs, <-ended)
		}
		return errors.Join(errs...)
	}
}
