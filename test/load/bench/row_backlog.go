package main

import (
	"context"
	"fmt"
	"net/http"
	"time"

	"queen.internal/test/load/internal/exchange"
	"queen.internal/test/load/internal/traffic"
	"queen.internal/test/load/internal/turn"
	"queen.internal/test/load/internal/verdict"
)

const (
	// perPartition is how many messages each partition of the large backlog holds.
	perPartition = 100
	// smallBacklog is what the yardstick has behind it.
	smallBacklog = 1000
	// backlogConsumers read it, one message a pop.
	backlogConsumers = 4
)

// deepBacklog compares pops of a queue with very much behind it with those of one that has a thousand messages.
func deepBacklog(ctx context.Context, b *bench) ([]Result, error) {
	deep, err := b.bulkFill(ctx, b.backlog/perPartition, perPartition)
	if err != nil {
		return nil, err
	}
	first, err := b.firstPop(ctx, deep, reader)
	if err != nil {
		return nil, err
	}
	taken, err := b.alternate(ctx, func(ctx context.Context) (turn.Figures, error) {
		return b.popSome(ctx, "pop 1 of the large backlog", deep)
	}, func(ctx context.Context) (turn.Figures, error) {
		small, err := b.bulkFill(ctx, smallBacklog/perPartition, perPartition)
		if err == nil {
			_, err = b.firstPop(ctx, small, reader)
		}
		if err != nil {
			return turn.Figures{}, err
		}
		return b.popSome(ctx, "pop 1 of the small one", small)
	})
	if err != nil {
		return nil, err
	}
	r := compare(fmt.Sprintf("pop, batch 1, %d consumers, with %d messages in %d partitions behind it, p99", backlogConsumers, b.backlog, b.backlog/perPartition),
		"ms", "the same with 1 000 messages behind it", verdict.Bar{Limit: 2, Direction: verdict.AtMost}, taken, p99("pop"), p99("pop"))
	r.Note = fmt.Sprintf("the group's first pop %.0f ms", first.Seconds()*1000)
	return []Result{r}, nil
}

// reader is a consumer group of a bulk filled queue. Its messages are copies of a few, so nothing recognizes them.
const reader = "load-a"

// firstPop makes the group known.
func (b *bench) firstPop(ctx context.Context, t traffic.Target, group string) (time.Duration, error) {
	conn := exchange.New(t.Deliver[0])
	defer conn.Close()
	start := time.Now()
	status, answer, err := conn.Do(ctx, exchange.Get(popTarget(t.Queue, group, 30*time.Second), t.Deliver[0], b.tenant), time.Minute)
	if err == nil && status != http.StatusOK {
		err = fmt.Errorf("first pop: %d %.300s", status, answer)
	}
	return time.Since(start), err
}

// popTarget is a pop of one message that acks itself.
func popTarget(queue, group string, timeout time.Duration) string {
	return fmt.Sprintf("/api/v1/pop/queue/%s?batch=1&wait=true&timeout=%d&autoAck=true&subscriptionMode=all&consumerGroup=%s",
		queue, timeout.Milliseconds(), group)
}

// popSome takes most of what the small backlog holds, with a lease and an ack for each.
func (b *bench) popSome(ctx context.Context, name string, t traffic.Target) (turn.Figures, error) {
	l, err := b.ledger(1, 1, 1)
	if err != nil {
		return turn.Figures{}, err
	}
	c := traffic.Consumers{
		Target: t, Ledger: l, Groups: []string{reader}, Count: backlogConsumers, Batch: 1, Timeout: pollTimeout, Limit: smallBacklog * 4 / 5,
	}
	return b.turnFor(ctx, name, 0, time.Hour, c.Consume)
}
