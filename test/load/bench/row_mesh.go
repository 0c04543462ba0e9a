package main

import (
	"context"
	"fmt"
	"time"

	"queen.internal/test/load/internal/traffic"
	"queen.internal/test/load/internal/turn"
	"queen.internal/test/load/internal/verdict"
)

const (
	// hintRounds is how many messages a turn consists of.
	hintRounds = 200
	// hintSettle is what a poll gets to be parked before the push begins.
	hintSettle = 10 * time.Millisecond
)

// hints measures what the way from ingest to a poll that waits at deliver adds: the time from the answer of a push to the
// answer of the parked pop, less the time of a pop that is sent when the message is there.
func hints(ctx context.Context, b *bench) ([]Result, error) {
	waiting, err := b.hintTurns("parked pop", true)
	if err != nil {
		return nil, err
	}
	asking, err := b.hintTurns("pop after the push", false)
	if err != nil {
		return nil, err
	}
	taken, err := b.alternate(ctx, waiting, asking)
	if err != nil {
		return nil, err
	}
	var added, woken, asked []float64
	for _, t := range taken {
		woken, asked = append(woken, t.Subject.Latencies["delivered"].P50), append(asked, t.Yardstick.Latencies["pop"].P50)
		added = append(added, t.Subject.Latencies["delivered"].P50-t.Yardstick.Latencies["pop"].P50)
	}
	r := absolute("push answered to parked pop answered, two processes, less a pop that finds the message, p50", "ms",
		verdict.Bar{Limit: 1, Direction: verdict.AtMost}, verdict.Median(added))
	r.Note = fmt.Sprintf("%.2f ms less %.2f ms", verdict.Median(woken), verdict.Median(asked))
	r.Pairs = taken
	return []Result{r}, nil
}

// hintTurns pushes one message after the other to a consumer that waits for it, or that asks once it is there.
func (b *bench) hintTurns(name string, parked bool) (func(context.Context) (turn.Figures, error), error) {
	l, err := b.ledger(1, 1, 1)
	if err != nil {
		return nil, err
	}
	q := &backlog{target: b.straight(), ledger: l}
	rounds := traffic.Rounds{
		Producers: traffic.Producers{Target: q.target, Ledger: l, Count: 1, Batch: 1}, Consumers: q.consumers(0, 1, 1),
		Count: hintRounds, Parked: parked, Settle: hintSettle,
	}
	rounds.Consumers.Timeout = time.Minute
	return func(ctx context.Context) (turn.Figures, error) {
		return b.turnFor(ctx, name, 0, time.Hour, rounds.Run)
	}, nil
}
