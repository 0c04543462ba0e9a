package main

import (
	"context"
	"fmt"

	"queen.internal/test/load/internal/traffic"
	"queen.internal/test/load/internal/turn"
	"queen.internal/test/load/internal/verdict"
	"queen.internal/test/load/internal/yardstick"
)

const rawInsert = "raw segment insert, lz4, 100 messages a row, 4 clients"

// pushes is one queue that producers push to turn by turn.
func (b *bench) pushes(target traffic.Target, connections, batch int) (func(context.Context) (turn.Figures, error), error) {
	l, err := b.ledger(connections, partitions, 1)
	if err != nil {
		return nil, err
	}
	p := traffic.Producers{Target: target, Ledger: l, Count: connections, Batch: batch}
	return func(ctx context.Context) (turn.Figures, error) {
		return b.turnOf(ctx, fmt.Sprintf("push %d over %d", batch, connections), p.Produce)
	}, nil
}

func pushHundred(ctx context.Context, b *bench) ([]Result, error) {
	push, err := b.pushes(b.straight(), 16, 100)
	if err != nil {
		return nil, err
	}
	taken, err := b.alternate(ctx, push, b.yard("raw insert", b.yardstick.InsertSegments))
	if err != nil {
		return nil, err
	}
	cost := absolute("CPU of a message, push, batch 100", "us", verdict.Bar{Limit: 25, Direction: verdict.AtMost}, cpuPerMessage(taken, pushed))
	return []Result{
		compare("push, batch 100, 16 connections", "messages/s", rawInsert, verdict.Bar{Limit: 0.6}, taken, pushed, stored),
		cost,
	}, nil
}

func pushOne(ctx context.Context, b *bench) ([]Result, error) {
	var results []Result
	for _, c := range []struct {
		connections int
		bar         float64
	}{{64, 2}, {256, 3}} {
		push, err := b.pushes(b.straight(), c.connections, 1)
		if err != nil {
			return nil, err
		}
		taken, err := b.alternate(ctx, push, b.yard("row insert", b.yardstick.InsertRows(yardstick.RowClients)))
		if err != nil {
			return nil, err
		}
		results = append(results, compare(fmt.Sprintf("push, batch 1, %d connections", c.connections), "messages/s",
			"one-row insert, 16 clients", verdict.Bar{Limit: c.bar}, taken, pushed, stored))
	}
	return results, nil
}
