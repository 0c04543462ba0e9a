package main

import (
	"context"
	"fmt"

	"queen.internal/compose/local"
	"queen.internal/test/load/internal/traffic"
	"queen.internal/test/load/internal/turn"
	"queen.internal/test/load/internal/verdict"
)

// edge is a target through the edge.
func (b *bench) edge(t traffic.Target) traffic.Target {
	t.Ingest = addresses(b.stack.URLs(local.Edge))
	t.Deliver = t.Ingest
	return t
}

// stream is one queue that is pushed to and read at once, turn by turn.
func (b *bench) stream(target traffic.Target, connections, batch int) (func(context.Context) (turn.Figures, error), error) {
	l, err := b.ledger(connections, partitions, 1)
	if err != nil {
		return nil, err
	}
	q := &backlog{target: target, ledger: l}
	producers := traffic.Producers{Target: target, Ledger: l, Count: connections, Batch: batch}
	do := together(producers.Produce, q.consumers(0, connections, batch).Consume)
	return func(ctx context.Context) (turn.Figures, error) {
		f, err := b.turnOf(ctx, fmt.Sprintf("push, pop and ack %d over %d", batch, connections), do)
		if err == nil {
			err = clean(l, false)
		}
		return f, err
	}, nil
}

func throughEdge(ctx context.Context, b *bench) ([]Result, error) {
	type side func(traffic.Target, int, int) (func(context.Context) (turn.Figures, error), error)
	var results []Result
	for _, c := range []struct {
		what        string
		start       side
		connections int
		batch       int
		bar         float64
		figure      figure
	}{
		{"push through the edge, batch 100, 16 connections", b.pushes, 16, 100, 0.9, pushed},
		{"push through the edge, batch 1, 64 connections", b.pushes, 64, 1, 0.7, pushed},
		{"push, pop and ack through the edge, batch 100, 16 and 16 connections", b.stream, 16, 100, 0.9, slower},
		{"push, pop and ack through the edge, batch 1, 64 and 64 connections", b.stream, 64, 1, 0.7, slower},
	} {
		edge, err := c.start(b.edge(b.straight()), c.connections, c.batch)
		if err != nil {
			return nil, err
		}
		straight, err := c.start(b.straight(), c.connections, c.batch)
		if err != nil {
			return nil, err
		}
		taken, err := b.alternate(ctx, edge, straight)
		if err != nil {
			return nil, err
		}
		results = append(results, compare(c.what, "messages/s", "straight at the roles", verdict.Bar{Limit: c.bar}, taken, c.figure, c.figure))
	}
	return results, nil
}
