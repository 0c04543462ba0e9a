package history_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"queen.internal/pkg/client"
	"queen.internal/test/history"
	"queen.internal/test/internal/cell"
)

const (
	partitions = 4
	producers  = 4
	workers    = 4 // of each group that leases
	skimmers   = 2 // of the group that consumes at once
	recentKeys = 12
)

// load is the clients of one queue. Each of them makes choices of its own and calls any address of its role.
type load struct {
	*testing.T
	*history.Recorder
	cell           *cell.Cell
	queue          string
	pushAt, readAt []*client.Client
	keys           atomic.Int64
	tolerant       bool // of calls without an answer
}

func newLoad(t *testing.T, c *cell.Cell, tolerant bool) *load {
	t.Helper()
	l := &load{T: t, Recorder: history.NewRecorder(), cell: c, queue: cell.FreshQueue(), tolerant: tolerant}
	at := func(addresses []string) (clients []*client.Client) {
		for _, address := range append([]string{c.Edge}, addresses...) {
			cl, err := client.New(client.Options{URL: address, Attempts: 1}) // a repetition is a call of its own
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(cl.Close)
			clients = append(clients, cl)
		}
		return clients
	}
	l.pushAt, l.readAt = at(c.Ingest), at(c.Deliver)
	c.Configure(t, l.queue, `"options":{"retryLimit":1000000}`)
	return l
}

// run is the whole load: it returns when all clients have ended their last call.
func (l *load) run(span time.Duration) {
	ctx, cancel := context.WithTimeout(l.Context(), span)
	defer cancel()
	var clients sync.WaitGroup
	start := func(n int, stream uint64, client func(context.Context, *rand.Rand)) {
		for i := range n {
			r := rand.New(rand.NewPCG(*seed, stream<<8|uint64(i)))
			clients.Go(func() {
				for ctx.Err() == nil {
					client(ctx, r)
				}
			})
		}
	}
	start(producers, 1, l.produce)
	for i, group := range []string{"billing", "audit"} {
		start(workers, uint64(2+i), func(ctx context.Context, r *rand.Rand) { l.consume(ctx, r, group) })
	}
	start(skimmers, 9, l.skim)
	clients.Wait()
}

// disturbed is run with something that is done again and again meanwhile, at that pace. It returns how often that was.
func (l *load) disturbed(span, pace time.Duration, disturb func(context.Context, *rand.Rand)) int {
	ctx, over := context.WithCancel(l.Context())
	done := make(chan int)
	go func() {
		r := rand.New(rand.NewPCG(*seed, 77))
		next := time.NewTicker(pace)
		defer next.Stop()
		for n := 0; ; n++ {
			select {
			case <-ctx.Done():
				done <- n
				return
			case <-next.C:
				disturb(ctx, r)
			}
		}
	}()
	l.run(span)
	over()
	return <-done
}

// failed notes that a call had no answer.
func (l *load) failed(err error) {
	if err != nil && !l.tolerant {
		l.Error(err)
	}
}

func pick[T any](r *rand.Rand, from []T) T { return from[r.IntN(len(from))] }

// think passes some time of a client, or what is left of the load.
func think(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
}

// produce pushes keys that others push at the same time, or have just pushed.
func (l *load) produce(ctx context.Context, r *rand.Rand) {
	var items []client.Item
	for range 1 + r.IntN(6) {
		key := l.keys.Add(1)
		if r.IntN(3) == 0 {
			key = max(key-r.Int64N(recentKeys), 1)
		}
		items = append(items, client.Item{
			Queue: l.queue, Partition: fmt.Sprint("p", key%partitions), TransactionID: fmt.Sprint("k", key), Payload: fmt.Append(nil, key),
		})
	}
	done := l.Call()
	results, err := pick(r, l.pushAt).Push(context.WithoutCancel(ctx), items)
	l.Push(done(err), "", items, results)
	l.failed(err)
	think(ctx, time.Duration(r.IntN(12))*time.Millisecond)
}

// skim consumes without a lease.
func (l *load) skim(ctx context.Context, r *rand.Rand) {
	l.take(ctx, r, client.PopRequest{Queue: l.queue, Group: "skim", Mode: "all", Batch: 1 + r.IntN(30), Partitions: 1 + r.IntN(2), AutoAck: true, Wait: 200 * time.Millisecond})
	think(ctx, time.Duration(r.IntN(20))*time.Millisecond)
}

func (l *load) take(ctx context.Context, r *rand.Rand, request client.PopRequest) client.Batch {
	done := l.Call()
	batch, err := pick(r, l.readAt).Pop(context.WithoutCancel(ctx), request)
	l.Pop(done(err), request, batch)
	l.failed(err)
	return batch
}

// consume takes one batch and does with it what consumers do, well or badly.
func (l *load) consume(ctx context.Context, r *rand.Rand, group string) {
	request := client.PopRequest{
		Queue: l.queue, Group: group, Mode: "all", Batch: 1 + r.IntN(20), Partitions: 1 + r.IntN(3), Wait: 200 * time.Millisecond,
		Lease: time.Duration(1+r.IntN(2)) * time.Second,
	}
	if r.IntN(5) == 0 {
		pinned := fmt.Sprint("p", r.IntN(partitions))
		request.Partition = &pinned
	}
	batch := l.take(ctx, r, request)
	if len(batch.Messages) == 0 {
		return
	}
	past := request.Lease + time.Duration(r.IntN(200))*time.Millisecond
	switch choice := r.IntN(100); {
	case choice < 10: // the middle first
		l.ackAll(ctx, r, group, batch.Messages[:1+r.IntN(len(batch.Messages))], "")
		l.ackAll(ctx, r, group, batch.Messages, "")
	case choice < 25: // some message is not done, what comes before is
		l.ackAll(ctx, r, group, batch.Messages, pick(r, []string{client.Retry, client.NotCompleted, client.Retry, client.NotCompleted, client.DeadLetter}))
	case choice < 30: // dies
	case choice < 36: // takes too long
		think(ctx, past)
		l.ackAll(ctx, r, group, batch.Messages, "")
	case choice < 42: // takes long and knows it
		for range 2 {
			done := l.Call()
			extension, err := pick(r, l.readAt).Extend(context.WithoutCancel(ctx), batch.LeaseID, 2*time.Second)
			l.Extend(done(err), batch.LeaseID, 2*time.Second, extension)
			l.failed(err)
			think(ctx, request.Lease/2)
		}
		l.ackAll(ctx, r, group, batch.Messages, "")
	case choice < 45: // has forgotten under which lease
		think(ctx, time.Duration(r.IntN(1500))*time.Millisecond)
		for i := range batch.Messages {
			batch.Messages[i].LeaseID = ""
		}
		l.ackAll(ctx, r, group, batch.Messages, "")
	case choice < 50: // twice, the second time elsewhere
		l.ackAll(ctx, r, group, batch.Messages, "")
		l.ackAll(ctx, r, group, batch.Messages, "")
	default:
		l.ackAll(ctx, r, group, batch.Messages, "")
	}
}

// ackAll completes messages, except that one of them gets another status if there is one.
func (l *load) ackAll(ctx context.Context, r *rand.Rand, group string, messages []client.Message, status string) {
	acks := make([]client.Acknowledgment, len(messages))
	for i, m := range messages {
		acks[i] = client.AckOf(m, client.Completed)
	}
	if status != "" {
		acks[r.IntN(len(acks))].Status = status
	}
	done := l.Call()
	results, err := pick(r, l.readAt).AckBatch(context.WithoutCancel(ctx), group, acks)
	l.Ack(done(err), l.queue, group, messages, acks, results)
	l.failed(err)
}

// drain has each group read the rest, until the cursors say that nothing is left.
func (l *load) drain() {
	l.tolerant = false
	db := l.connect()
	var draining sync.WaitGroup
	for i, group := range []string{"billing", "audit", "skim"} {
		r := rand.New(rand.NewPCG(*seed, uint64(100+i)))
		draining.Go(func() {
			request := client.PopRequest{Queue: l.queue, Group: group, Batch: 1000, Partitions: partitions, Lease: 10 * time.Second, Wait: 500 * time.Millisecond, AutoAck: group == "skim"}
			limit := time.Now().Add(time.Minute)
			for !l.drained(db, group) {
				if time.Now().After(limit) {
					l.Errorf("%s has not read everything within a minute", group)
					return
				}
				if batch := l.take(l.Context(), r, request); len(batch.Messages) > 0 && !request.AutoAck {
					l.ackAll(l.Context(), r, group, batch.Messages, "")
				}
			}
			l.Drain(group)
		})
	}
	draining.Wait()
}

// describe is what the history holds, so that one sees that there was something to check.
func (l *load) describe() string {
	h := l.History()
	counts := map[string]int{}
	for _, p := range h.Pushes {
		counts["lost pushes"] += one(p.Lost)
		for _, item := range p.Items {
			counts[item.Status]++
		}
	}
	for _, p := range h.Pops {
		counts["lost pops"] += one(p.Lost)
		for _, s := range p.Spans {
			counts["spans"]++
			counts["messages delivered"] += len(s.IDs)
			counts["redeliveries"] += one(s.Attempt > 1)
		}
	}
	for _, a := range h.Acks {
		counts["lost acks"] += one(a.Lost)
		counts["dead letters"] += one(a.Dead)
		for _, item := range a.Items {
			counts["refused acks"] += one(!item.OK && !a.Lost)
			counts["acks of nothing"] += one(item.Noop)
		}
	}
	for _, x := range h.Extends {
		counts["extensions"] += one(x.Renewed > 0)
	}
	return strings.TrimPrefix(fmt.Sprint(counts), "map")
}

func one(is bool) int {
	if is {
		return 1
	}
	return 0
}
