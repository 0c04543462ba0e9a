package load

import (
	"context"
	"hash/fnv"
	"time"

	"queen.internal/pkg/client"
)

// queueWorkload: consumers work on leases and end them in every way there is. Some messages fail whoever gets them.
var queueWorkload = Workload{
	Name: "queue", Code: "W2",
	About:   "leased pops, ended by acks of all or some, nacks, dead letters, renewals, too late or never",
	Options: `{"retryLimit":2}`, RetryLimit: 2,
	Groups: []string{"billing", "audit"},
	Clients: []Kind{
		{"producer", 2, produce},
		{"billing", 4, func(q *Queue, ctx context.Context, c *Caller) { work(q, ctx, c, "billing") }},
		{"audit", 3, func(q *Queue, ctx context.Context, c *Caller) { work(q, ctx, c, "audit") }},
	},
}

// poisonous says whether a message fails everybody: two of a hundred.
func poisonous(key string) bool {
	sum := fnv.New32a()
	_, _ = sum.Write([]byte(key)) // never fails
	return sum.Sum32()%100 < 2
}

// work takes a batch and does with it what consumers do, well or badly.
func work(q *Queue, ctx context.Context, c *Caller, group string) {
	request := client.PopRequest{
		Group: group, Batch: 1 + c.IntN(20), Partitions: 1 + c.IntN(3), Lease: time.Duration(1+c.IntN(2)) * time.Second, Wait: 500 * time.Millisecond,
	}
	batch := q.take(ctx, c, c.anywhere("deliver"), request)
	if len(batch.Messages) == 0 {
		return
	}
	at := c.anywhere("deliver")
	switch choice := c.IntN(100); {
	case choice < 6: // is never heard of again
	case choice < 12: // the beginning first
		q.verdict(ctx, c, at, group, batch.Messages[:1+c.IntN(len(batch.Messages))], "")
		q.verdict(ctx, c, c.anywhere("deliver"), group, batch.Messages, "")
	case choice < 22: // something goes wrong with one
		q.verdict(ctx, c, at, group, batch.Messages, []string{client.Retry, client.NotCompleted, client.Retry, client.DeadLetter}[c.IntN(4)])
	case choice < 27: // takes too long
		think(ctx, request.Lease+milliseconds(c.IntN(500)))
		q.verdict(ctx, c, at, group, batch.Messages, "")
	case choice < 33: // takes long and knows it
		for range 2 {
			q.extend(ctx, c, c.anywhere("deliver"), batch.LeaseID, 2*time.Second)
			think(ctx, request.Lease/2)
		}
		q.verdict(ctx, c, at, group, batch.Messages, "")
	case choice < 40: // twice, the second time elsewhere
		q.verdict(ctx, c, at, group, batch.Messages, "")
		q.verdict(ctx, c, c.anywhere("deliver"), group, batch.Messages, "")
	case choice < 60: // works on it
		think(ctx, time.Duration(c.Int64N(int64(request.Lease))))
		q.verdict(ctx, c, at, group, batch.Messages, "")
	default:
		q.verdict(ctx, c, at, group, batch.Messages, "")
	}
}

// verdict acks messages: completed, except for the poisonous ones, and for one of them that gets another status if there
// is one. What comes behind the first that failed is not told: it is not done.
func (q *Queue) verdict(ctx context.Context, c *Caller, at, group string, messages []client.Message, other string) {
	odd := -1
	if other != "" {
		odd = c.IntN(len(messages))
	}
	stopped := make(map[string]bool)
	var told []client.Message
	var acks []client.Acknowledgment
	for i, m := range messages {
		if stopped[m.PartitionID] {
			continue
		}
		status := client.Completed
		if poisonous(m.TransactionID) {
			status = client.NotCompleted
		} else if i == odd {
			status = other
		}
		stopped[m.PartitionID] = status != client.Completed
		a := client.AckOf(m, status)
		if status != client.Completed {
			a.Error = "as " + c.Name + " wanted it"
		}
		told, acks = append(told, m), append(acks, a)
	}
	q.ack(ctx, c, at, group, told, acks)
}
