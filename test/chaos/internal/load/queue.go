package load

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"queen.internal/pkg/client"
	"queen.internal/test/chaos/internal/journal"
	"queen.internal/test/chaos/internal/stand"
	"queen.internal/test/history"
)

// partitions is how many a queue has.
const partitions = 6

// callLimit is what a call may take before its client gives up. A push is answered within 6 s even when the database
// hangs.
const callLimit = 12 * time.Second

// Queue is a workload at work.
type Queue struct {
	Workload
	*history.Recorder
	Queue   string
	journal *journal.Journal
	stand   *stand.Stand
	targets map[string]*client.Client // by process

	mu      sync.Mutex
	altered []string // payloads that were not as they were pushed
	recent  []message
}

// message is what a client has pushed.
type message struct{ partition, key string }

// New creates the queue and its groups on a healthy stand.
func New(ctx context.Context, w Workload, s *stand.Stand, j *journal.Journal) (*Queue, error) {
	q := &Queue{Workload: w, Recorder: history.NewRecorder(), Queue: "chaos." + w.Name, journal: j, stand: s, targets: make(map[string]*client.Client)}
	for _, p := range s.Processes() {
		c, err := client.New(client.Options{URL: s.URL(p.Name()), Attempts: 1, Timeout: callLimit, Conns: 8})
		if err != nil {
			return nil, err
		}
		q.targets[p.Name()] = c
	}
	if err := configure(ctx, s.URL("edge"), q.Queue, w.Options); err != nil {
		return nil, err
	}
	for _, group := range w.Groups {
		if _, err := q.targets["edge"].Pop(ctx, client.PopRequest{Queue: q.Queue, Group: group, Mode: "all"}); err != nil {
			return nil, fmt.Errorf("register %s: %w", group, err)
		}
	}
	return q, nil
}

// Close ends the idle connections.
func (q *Queue) Close() {
	for _, c := range q.targets {
		c.Close()
	}
}

// Run has all clients at work until the context is over. Calls that are under way then are waited for.
func (q *Queue) Run(ctx context.Context, seed uint64) {
	var clients sync.WaitGroup
	for k, kind := range q.Clients {
		for i := range kind.Count {
			name := fmt.Sprintf("%s-%s%d", q.Name, kind.Name, i)
			c := &Caller{Name: name, Rand: rand.New(rand.NewPCG(seed, uint64(q.Name[0])<<32|uint64(k)<<16|uint64(i)))}
			clients.Go(func() {
				for ctx.Err() == nil {
					kind.Step(q, ctx, c)
				}
			})
		}
	}
	clients.Wait()
}

// Altered are the deliveries whose payload was not what had been pushed.
func (q *Queue) Altered() []string {
	q.mu.Lock()
	defer q.mu.Unlock()
	return slices.Clone(q.altered)
}

// outcome is what the journal calls it. An answer that says no is a failure; without an answer, and after a server's
// error, nobody knows.
func outcome(err error) string {
	var answered *client.Error
	switch {
	case err == nil:
		return journal.OK
	case errors.As(err, &answered) && answered.Status < 500:
		return journal.Fail
	default:
		return journal.Unknown
	}
}

// anywhere is one of the addresses for a role, the edge included.
func (c *Caller) anywhere(role string) string {
	return []string{"edge", role + ".1", role + ".2"}[c.IntN(3)]
}

// push sends messages to a process and says whether there was an answer.
func (q *Queue) push(ctx context.Context, c *Caller, at string, messages []message) bool {
	items := make([]client.Item, len(messages))
	for i, m := range messages {
		items[i] = client.Item{Queue: q.Queue, Partition: m.partition, TransactionID: m.key, Payload: payload(m.partition, m.key)}
	}
	type sent struct{ P, K string }
	var told []sent
	for _, m := range messages {
		told = append(told, sent{m.partition, m.key})
	}
	ended := q.journal.Begin("push", c.Name, at, told)
	life := q.stand.Life(at)
	done := q.Call()
	results, err := q.targets[at].Push(context.WithoutCancel(ctx), items)
	call := done(err)
	if at == "edge" || q.stand.Life(at) != life {
		life = ""
	}
	q.Push(call, life, items, results)
	ended(outcome(err), results, err)
	after(ctx, c, err)
	q.mu.Lock()
	defer q.mu.Unlock()
	q.recent = append(q.recent, messages...)
	q.recent = q.recent[max(0, len(q.recent)-50):]
	return err == nil
}

// after gives a server that did not answer, or said no, a moment, as clients do.
func after(ctx context.Context, c *Caller, err error) {
	if err != nil {
		think(ctx, milliseconds(50+c.IntN(300)))
	}
}

// earlier is a message that was pushed not long ago, if there is one.
func (q *Queue) earlier(c *Caller) (message, bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if len(q.recent) == 0 {
		return message{}, false
	}
	return q.recent[c.IntN(len(q.recent))], true
}

// take pops and compares what came with what was pushed.
func (q *Queue) take(ctx context.Context, c *Caller, at string, request client.PopRequest) client.Batch {
	request.Queue, request.Mode = q.Queue, "all"
	ended := q.journal.Begin("pop", c.Name, at, request)
	done := q.Call()
	batch, err := q.targets[at].Pop(context.WithoutCancel(ctx), request)
	q.Pop(done(err), request, batch)
	ended(outcome(err), summary(batch), err)
	after(ctx, c, err)
	for _, m := range batch.Messages {
		if !bytes.Equal(m.Data, payload(m.Partition, m.TransactionID)) {
			q.mu.Lock()
			q.altered = append(q.altered, fmt.Sprintf("%s %s %s came as %.200s", m.Partition, m.TransactionID, m.ID, m.Data))
			q.mu.Unlock()
		}
	}
	return batch
}

// summary is what the journal keeps of a batch.
func summary(b client.Batch) any {
	type delivered struct {
		P, K, ID string
		Attempt  int
	}
	var all []delivered
	for _, m := range b.Messages {
		all = append(all, delivered{m.Partition, m.TransactionID, m.ID, m.DeliveryAttempt})
	}
	return map[string]any{"lease": b.LeaseID, "messages": all}
}

// ack tells what became of messages: acks are theirs, in order.
func (q *Queue) ack(ctx context.Context, c *Caller, at, group string, messages []client.Message, acks []client.Acknowledgment) {
	ended := q.journal.Begin("ack", c.Name, at, map[string]any{"group": group, "acks": acks})
	done := q.Call()
	results, err := q.targets[at].AckBatch(context.WithoutCancel(ctx), group, acks)
	q.Ack(done(err), q.Queue, group, messages, acks, results)
	ended(outcome(err), results, err)
	after(ctx, c, err)
}

// complete acks all messages.
func (q *Queue) complete(ctx context.Context, c *Caller, at, group string, messages []client.Message) {
	acks := make([]client.Acknowledgment, len(messages))
	for i, m := range messages {
		acks[i] = client.AckOf(m, client.Completed)
	}
	q.ack(ctx, c, at, group, messages, acks)
}

// extend renews a lease.
func (q *Queue) extend(ctx context.Context, c *Caller, at, lease string, length time.Duration) {
	ended := q.journal.Begin("extend", c.Name, at, lease)
	done := q.Call()
	extension, err := q.targets[at].Extend(context.WithoutCancel(ctx), lease, length)
	q.Extend(done(err), lease, length, extension)
	ended(outcome(err), extension.Renewed, err)
	after(ctx, c, err)
}

// think passes some time, or what is left of the load.
func think(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
}

func milliseconds(n int) time.Duration { return time.Duration(n) * time.Millisecond }
