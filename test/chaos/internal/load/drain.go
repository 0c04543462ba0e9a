package load

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"queen.internal/pkg/client"
	"queen.internal/test/history"
)

// canaryGroup reads, beside the groups of the workload, what tells that a queue works again.
const canaryGroup = "canary"

// Canary pushes one message through the edge and says whether it was queued.
func (q *Queue) Canary(ctx context.Context) bool {
	ctx, cancel := context.WithTimeout(ctx, callLimit)
	defer cancel()
	results, err := q.targets["edge"].Push(ctx, []client.Item{{Queue: canaryQueue(q), Payload: []byte(`1`)}})
	return err == nil && results[0].Status == client.Queued
}

// CanaryDelivered says whether a message was delivered through the edge.
func (q *Queue) CanaryDelivered(ctx context.Context) bool {
	ctx, cancel := context.WithTimeout(ctx, callLimit)
	defer cancel()
	batch, err := q.targets["edge"].Pop(ctx, client.PopRequest{Queue: canaryQueue(q), Group: canaryGroup, Mode: "all", Wait: time.Second, Lease: time.Second})
	return err == nil && len(batch.Messages) > 0
}

func canaryQueue(q *Queue) string { return q.Queue + ".canary" }

// Drain has each group read the rest, until the cursors say that nothing is left. It tells which have not come to the end
// when the context is over.
func (q *Queue) Drain(ctx context.Context, db *pgxpool.Pool) (left []string, err error) {
	var draining sync.WaitGroup
	var mu sync.Mutex
	for i, group := range q.Groups {
		c := &Caller{Name: q.Name + "-drain-" + group, Rand: rand.New(rand.NewPCG(1, uint64(i)))}
		draining.Go(func() {
			done, failed := q.drain(ctx, db, c, group)
			mu.Lock()
			defer mu.Unlock()
			if failed != nil {
				err = failed
			} else if !done {
				left = append(left, group)
			}
		})
	}
	draining.Wait()
	return left, err
}

func (q *Queue) drain(ctx context.Context, db *pgxpool.Pool, c *Caller, group string) (done bool, err error) {
	for ctx.Err() == nil {
		if done, err = history.Drained(ctx, db, q.Queue, group); done {
			q.Recorder.Drain(group)
			return true, nil
		}
		if err != nil && ctx.Err() == nil {
			return false, fmt.Errorf("drain %s: %w", q.Queue, err)
		}
		batch := q.take(ctx, c, c.anywhere("deliver"), client.PopRequest{
			Group: group, Batch: 1000, Partitions: partitions, Lease: 10 * time.Second, Wait: 500 * time.Millisecond,
		})
		if len(batch.Messages) > 0 {
			q.complete(ctx, c, c.anywhere("deliver"), group, batch.Messages)
		}
	}
	return false, nil
}
