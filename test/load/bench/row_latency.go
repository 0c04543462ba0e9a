package main

import (
	"context"
	"errors"

	"queen.internal/test/load/internal/traffic"
	"queen.internal/test/load/internal/turn"
	"queen.internal/test/load/internal/verdict"
)

// latencyRate is messages a second, one at a time, to a schedule.
const latencyRate = 200

// popDefault is the batch of a pop that does not say: a consumer takes what is there, mostly one message.
const popDefault = 200

// trickle is a queue that gets single messages to a schedule and whose consumers wait for each.
func (b *bench) trickle(name string, target traffic.Target, partitions, consumers int) (func(context.Context) (turn.Figures, error), error) {
	const connections = 4 // so that a slow push does not hold the next one up
	l, err := b.ledger(connections, partitions, 1)
	if err != nil {
		return nil, err
	}
	q := &backlog{target: target, ledger: l}
	producers := traffic.Producers{Target: target, Ledger: l, Count: connections, Batch: 1, Rate: latencyRate}
	return func(ctx context.Context) (turn.Figures, error) {
		f, err := b.turnFor(ctx, name, b.warmup, 2*b.duration, together(producers.Produce, q.consumers(0, consumers, popDefault).Consume))
		return f, errors.Join(err, clean(l, false))
	}, nil
}

func latency(ctx context.Context, b *bench) ([]Result, error) {
	one, err := b.trickle("push to delivered", b.straight(), 1, 1)
	if err != nil {
		return nil, err
	}
	taken, err := b.alternate(ctx, one, b.yard("row insert, 1 client", b.yardstick.InsertRows(1)))
	if err != nil {
		return nil, err
	}
	const against = "one-row insert, 1 client"
	atMost := func(limit float64) verdict.Bar { return verdict.Bar{Limit: limit, Direction: verdict.AtMost} }
	return []Result{
		compare("push to delivered, one at a time, 200/s, p50", "ms", against, atMost(4), taken, p50("delivered"), p50("statement")),
		compare("the same, p99", "ms", against, atMost(12), taken, p99("delivered"), p99("statement")),
	}, nil
}

func latencyMany(ctx context.Context, b *bench) ([]Result, error) {
	one, err := b.trickle("1 partition, 1 consumer", b.straight(), 1, 1)
	if err != nil {
		return nil, err
	}
	many, err := b.trickle("64 partitions, 4 consumers", b.straight(), 64, 4)
	if err != nil {
		return nil, err
	}
	taken, err := b.alternate(ctx, many, one)
	if err != nil {
		return nil, err
	}
	return []Result{compare("the same with 4 consumers on 64 partitions, p99", "ms", "1 consumer on 1 partition",
		verdict.Bar{Limit: 2, Direction: verdict.AtMost}, taken, p99("delivered"), p99("delivered"))}, nil
}
