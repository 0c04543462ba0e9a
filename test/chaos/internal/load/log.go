package load

import (
	"context"
	"fmt"
	"time"

	"queen.internal/pkg/client"
)

// logWorkload: producers push new messages, singly and in batches, and repeat what got no answer elsewhere; independent
// groups read everything.
var logWorkload = Workload{
	Name: "log", Code: "W1",
	About:   "pushes of one and of several, repeated on another copy when the answer is missing; two groups read all",
	Options: `{"retryLimit":1000000}`, RetryLimit: 1_000_000,
	Groups: []string{"first", "second"},
	Clients: []Kind{
		{"producer", 4, produce},
		{"first", 2, func(q *Queue, ctx context.Context, c *Caller) { read(q, ctx, c, "first") }},
		{"second", 2, func(q *Queue, ctx context.Context, c *Caller) { read(q, ctx, c, "second") }},
	},
}

// fresh is a message of c that nobody has pushed.
func (c *Caller) fresh() message {
	c.Seq++
	return message{fmt.Sprint("p", c.IntN(partitions)), fmt.Sprintf("%s-%d", c.Name, c.Seq)}
}

func produce(q *Queue, ctx context.Context, c *Caller) {
	count := 1
	if c.IntN(2) == 0 {
		count += c.IntN(8)
	}
	var messages []message
	for range count {
		messages = append(messages, c.fresh())
	}
	at := c.anywhere("ingest")
	for attempt := 0; !q.push(ctx, c, at, messages) && attempt < 3; attempt++ {
		think(ctx, milliseconds(20+c.IntN(200)))
		at = map[string]string{"ingest.1": "ingest.2", "ingest.2": "edge", "edge": "ingest.1"}[at]
	}
	think(ctx, milliseconds(c.IntN(60)))
}

// read takes and completes.
func read(q *Queue, ctx context.Context, c *Caller, group string) {
	batch := q.take(ctx, c, c.anywhere("deliver"), client.PopRequest{
		Group: group, Batch: 1 + c.IntN(50), Partitions: 1 + c.IntN(3), Lease: 2 * time.Second, Wait: 500 * time.Millisecond,
	})
	if len(batch.Messages) > 0 {
		q.complete(ctx, c, c.anywhere("deliver"), group, batch.Messages)
	}
	think(ctx, milliseconds(c.IntN(40)))
}
