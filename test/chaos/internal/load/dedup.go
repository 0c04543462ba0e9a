package load

import (
	"context"
	"math/rand/v2"
	"sync"
)

// dedupWorkload: each message is pushed one to four times, at once and one after the other, through both ingests and the
// edge.
var dedupWorkload = Workload{
	Name: "dedup", Code: "W4",
	About:   "every transaction id one to four times through both ingests and the edge, at once and later; one group reads all",
	Options: `{"retryLimit":1000000}`, RetryLimit: 1_000_000,
	Groups: []string{"only"},
	Clients: []Kind{
		{"producer", 4, repeat},
		{"only", 2, func(q *Queue, ctx context.Context, c *Caller) { read(q, ctx, c, "only") }},
	},
}

func repeat(q *Queue, ctx context.Context, c *Caller) {
	messages := []message{c.fresh()}
	for range c.IntN(4) {
		messages = append(messages, c.fresh())
	}
	if old, any := q.earlier(c); any && c.IntN(3) == 0 {
		messages = append(messages, old)
	}
	times := 1 + c.IntN(4)
	var targets []string
	for range times {
		targets = append(targets, c.anywhere("ingest"))
	}
	together := c.IntN(2) == 0
	var pushing sync.WaitGroup
	for _, at := range targets {
		if together {
			each := &Caller{Name: c.Name, Rand: rand.New(rand.NewPCG(c.Uint64(), 4))}
			pushing.Go(func() { q.push(ctx, each, at, messages) })
		} else {
			q.push(ctx, c, at, messages)
			think(ctx, milliseconds(c.IntN(100)))
		}
	}
	pushing.Wait()
	think(ctx, milliseconds(c.IntN(150)))
}
