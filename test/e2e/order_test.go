package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"queen.internal/pkg/client"
	"queen.internal/test/internal/cell"
)

// numbered is a message that knows its place among those its producer pushed to one partition.
type numbered struct {
	Producer int `json:"producer"`
	Number   int `json:"number"`
}

// ledger takes down what one group was delivered, partition by partition, in the order of delivery. Workers write before
// they ack, and a partition is leased to one worker at a time, so that order is the group's order.
type ledger struct {
	mu        sync.Mutex
	delivered map[string][]numbered
	count     int
}

func (l *ledger) add(t *testing.T, messages []client.Message) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, m := range messages {
		var n numbered
		if err := json.Unmarshal(m.Data, &n); err != nil {
			t.Error(err)
		}
		l.delivered[m.Partition] = append(l.delivered[m.Partition], n)
		l.count++
	}
}

func (l *ledger) has() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.count
}

// check reports what is missing, repeated or out of order when each producer pushed `each` messages to each partition.
func (l *ledger) check(t *testing.T, partitions, producers, each int) {
	t.Helper()
	if len(l.delivered) != partitions {
		t.Errorf("messages of %d partitions, want %d", len(l.delivered), partitions)
	}
	for partition, messages := range l.delivered {
		next := make([]int, producers)
		for i, m := range messages {
			if m.Number != next[m.Producer] {
				t.Fatalf("%s, delivery %d: producer %d's message %d, want %d", partition, i, m.Producer, m.Number, next[m.Producer])
			}
			next[m.Producer]++
		}
		for p, n := range next {
			if n != each {
				t.Errorf("%s: %d messages of producer %d, want %d", partition, n, p, each)
			}
		}
	}
}

func TestOrderHoldsUnderConcurrentProducersAndConsumers(t *testing.T) {
	t.Parallel()
	cell.EachShape(t, func(t *testing.T, s cell.Shape) { orderHolds(t, sharedAs(t, s)) })
}

func orderHolds(t *testing.T, c *cell.Cell) {
	queue := cell.FreshQueue()
	const partitions, producers, each, workers = 6, 4, 120, 4
	total := partitions * producers * each

	var producing sync.WaitGroup
	for p := range producers {
		// Producers alternate between the edge and the two ingests; each keeps its own connection and waits for answers.
		target := c.At(t, []string{c.Edge, c.Ingest[0], c.Ingest[1]}[p%3])
		producing.Go(func() { produce(t, target, queue, p, partitions, each) })
	}

	ledgers := map[string]*ledger{}
	var consuming sync.WaitGroup
	ctx, stop := context.WithTimeout(t.Context(), 2*time.Minute)
	defer stop()
	for _, group := range []string{"billing", "audit"} {
		l := &ledger{delivered: map[string][]numbered{}}
		ledgers[group] = l
		for w := range workers {
			target := c.At(t, []string{c.Edge, c.Deliver[0], c.Deliver[1]}[w%3])
			consuming.Go(func() { consume(ctx, t, target, queue, group, l, total) })
		}
	}
	producing.Wait()
	consuming.Wait()
	for group, l := range ledgers {
		t.Run(group, func(t *testing.T) { l.check(t, partitions, producers, each) })
	}
}

func produce(t *testing.T, target *client.Client, queue string, producer, partitions, each int) {
	sent := make([]int, partitions)
	r := rand.New(rand.NewPCG(1, uint64(producer)))
	for left := partitions * each; left > 0; {
		var items []client.Item
		for range 1 + r.IntN(20) {
			p := r.IntN(partitions)
			if sent[p] == each {
				continue
			}
			items = append(items, client.Item{
				Queue: queue, Partition: fmt.Sprint("p", p), TransactionID: fmt.Sprintf("%d-%d-%d", producer, p, sent[p]),
				Payload: fmt.Appendf(nil, `{"producer":%d,"number":%d}`, producer, sent[p]),
			})
			sent[p]++
			left--
		}
		results, err := target.Push(t.Context(), items)
		if err != nil {
			t.Error(err)
			return
		}
		for _, result := range results {
			if result.Status != client.Queued {
				t.Errorf("%+v", result)
			}
		}
	}
}

func consume(ctx context.Context, t *testing.T, target *client.Client, queue, group string, l *ledger, total int) {
	r := rand.New(rand.NewPCG(2, uint64(len(group))))
	for l.has() < total {
		batch, err := target.Pop(ctx, client.PopRequest{Queue: queue, Group: group, Mode: "all", Batch: 1 + r.IntN(40), Partitions: 1 + r.IntN(3), Wait: 300 * time.Millisecond})
		if err != nil {
			t.Errorf("%s has %d of %d: %v", group, l.has(), total, err)
			return
		}
		l.add(t, batch.Messages)
		var acks []client.Acknowledgment
		for _, m := range batch.Messages {
			if m.DeliveryAttempt != 1 {
				t.Errorf("%s: delivery %d of %s", group, m.DeliveryAttempt, m.TransactionID)
			}
			acks = append(acks, client.AckOf(m, client.Completed))
		}
		if len(acks) == 0 {
			continue
		}
		results, err := target.AckBatch(ctx, group, acks)
		if err != nil {
			t.Error(err)
			return
		}
		for _, result := range results {
			if !result.Success {
				t.Errorf("%+v", result)
			}
		}
	}
}

func TestDeduplicationHoldsAcrossTwoIngests(t *testing.T) {
	t.Parallel()
	cell.EachShape(t, func(t *testing.T, s cell.Shape) { deduplicationHolds(t, sharedAs(t, s)) })
}

func deduplicationHolds(t *testing.T, c *cell.Cell) {
	queue := cell.FreshQueue()
	const keys, pushers = 20, 8
	ids := make([]map[string]int, keys) // message id -> how often it was told
	queued := make([]int, keys)
	var mu sync.Mutex
	for k := range keys {
		ids[k] = map[string]int{}
		var pushing sync.WaitGroup
		for p := range pushers {
			target := c.At(t, c.Ingest[p%2])
			pushing.Go(func() {
				results, err := target.Push(t.Context(), []client.Item{{Queue: queue, TransactionID: fmt.Sprint("key-", k), Payload: []byte(`1`)}})
				if err != nil {
					t.Error(err)
					return
				}
				mu.Lock()
				defer mu.Unlock()
				ids[k][results[0].MessageID]++
				if results[0].Status == client.Queued {
					queued[k]++
				}
			})
		}
		pushing.Wait()
	}
	for k := range keys {
		if queued[k] != 1 || len(ids[k]) != 1 {
			t.Errorf("key %d: queued %d times, ids %v", k, queued[k], ids[k])
		}
	}
	batch := c.Pop(t, client.PopRequest{Queue: queue, Batch: 1000})
	if len(batch.Messages) != keys {
		t.Errorf("%d messages stored", len(batch.Messages))
	}
}
