package e2e

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"queen.internal/pkg/client"
	"queen.internal/test/internal/cell"
)

// span is when a call was under way, by this program's clock.
type span struct{ begin, end time.Time }

// before says that a had its answer before b began.
func (a span) before(b span) bool { return a.end.Before(b.begin) }

// recreation is a queue that is deleted again and again while others push and pop, and what they saw of it.
type recreation struct {
	*testing.T
	c     *cell.Cell
	queue string

	mu        sync.Mutex
	pushed    map[numbered]span // answered `queued`
	delivered map[numbered]span // by which pop
	order     map[int][]int     // numbers by producer, as they were delivered
	deleted   []span
	last      bool // no deletion comes any more
	wanted    int  // pushes begun after the last deletion, once they all are
	got       int  // of these
}

const (
	recreations = 25
	pushers     = 6
	poppers     = 6
	afterwards  = 40 // pushes of each pusher after the last deletion
)

// Every push that begins after the last deletion was answered is delivered exactly once and in order; nothing whose push
// was answered before a deletion began is delivered to a pop that began after it; and nobody sees more of it all than a
// request to come again.
func TestAQueueIsDeletedAndMadeAnewUnderLoad(t *testing.T) {
	t.Parallel()
	r := &recreation{
		T: t, c: shared(t), queue: cell.FreshQueue(),
		pushed: map[numbered]span{}, delivered: map[numbered]span{}, order: map[int][]int{}, wanted: -1,
	}
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
	defer cancel()
	var pushing, popping sync.WaitGroup
	for i := range pushers {
		pushing.Go(func() { r.push(ctx, r.c.At(t, []string{r.c.Edge, r.c.Ingest[0], r.c.Ingest[1]}[i%3]), i) })
	}
	for i := range poppers {
		popping.Go(func() { r.pop(ctx, r.c.At(t, []string{r.c.Edge, r.c.Deliver[0], r.c.Deliver[1]}[i%3]), i) })
	}
	for round := range recreations {
		answered, delivered := r.counts()
		cell.Eventually(t, func() bool {
			a, d := r.counts()
			return a >= answered+5*pushers && d >= delivered+2*pushers || t.Failed()
		})
		r.delete([]string{r.c.Edge, r.c.Ingest[0], r.c.Ingest[1]}[round%3], round == recreations-1)
	}
	pushing.Wait()
	r.mu.Lock()
	r.wanted = 0
	for _, at := range r.pushed {
		if r.deleted[len(r.deleted)-1].before(at) {
			r.wanted++
		}
	}
	r.mu.Unlock()
	popping.Wait()
	r.check()
}

func (r *recreation) counts() (pushed, delivered int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.pushed), len(r.delivered)
}

func (r *recreation) delete(address string, last bool) {
	begin := time.Now()
	status, body := r.c.Do(r.T, address, http.MethodDelete, "/api/v1/resources/queues/"+r.queue, "")
	end := time.Now()
	if status != http.StatusOK || !strings.Contains(string(body), `"deleted":true`) {
		r.Errorf("the deletion is answered %d %s", status, body)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.deleted = append(r.deleted, span{begin, end})
	r.last = last
}

// tolerable says whether a call may fail like this here.
func tolerable(err error) bool {
	var answered *client.Error
	return errors.As(err, &answered) && answered.Status == http.StatusServiceUnavailable
}

// push pushes to its own partition, one message at a time, until enough were pushed after the last deletion.
func (r *recreation) push(ctx context.Context, target *client.Client, producer int) {
	for number, left := 0, afterwards; left > 0 && !r.Failed(); number++ {
		r.mu.Lock()
		last := r.last
		r.mu.Unlock()
		begin := time.Now()
		for {
			results, err := target.Push(ctx, []client.Item{{
				Queue: r.queue, Partition: fmt.Sprint("p", producer), TransactionID: fmt.Sprintf("%d-%d", producer, number),
				Payload: fmt.Appendf(nil, `{"producer":%d,"number":%d}`, producer, number),
			}})
			if err == nil && results[0].Status == client.Queued {
				break
			}
			if !tolerable(err) {
				r.Errorf("push %d of %d: %+v (%v)", number, producer, results, err)
				return
			}
		}
		r.mu.Lock()
		r.pushed[numbered{producer, number}] = span{begin, time.Now()}
		r.mu.Unlock()
		if last {
			left--
		}
	}
}

// pop pops and acks until everything that must be delivered was.
func (r *recreation) pop(ctx context.Context, target *client.Client, popper int) {
	wait := []time.Duration{0, 300 * time.Millisecond}[popper%2]
	for !r.over() && !r.Failed() {
		begin := time.Now()
		batch, err := target.Pop(ctx, client.PopRequest{Queue: r.queue, Batch: 5, Partitions: 2, Wait: wait})
		if err != nil {
			if !tolerable(err) {
				r.Errorf("pop: %v", err)
				return
			}
			continue
		}
		r.took(batch.Messages, span{begin, time.Now()})
		if len(batch.Messages) == 0 {
			continue
		}
		var acks []client.Acknowledgment
		for _, m := range batch.Messages {
			acks = append(acks, client.AckOf(m, client.Completed))
		}
		results, err := target.AckBatch(ctx, "", acks)
		if err != nil && !tolerable(err) {
			r.Errorf("ack: %v", err)
		}
		for _, result := range results {
			if !result.Success && *result.Error != "consumer not found" { // the queue was deleted under it
				r.Errorf("ack: %+v: %s", result, *result.Error)
			}
		}
	}
}

func (r *recreation) over() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.wanted >= 0 && r.got >= r.wanted
}

// took notes what a pop delivered, before it is acked.
func (r *recreation) took(messages []client.Message, by span) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, m := range messages {
		var n numbered
		if err := json.Unmarshal(m.Data, &n); err != nil {
			r.Error(err)
		}
		if _, twice := r.delivered[n]; twice || m.DeliveryAttempt != 1 {
			r.Errorf("%+v is delivered again, by attempt %d", n, m.DeliveryAttempt)
		}
		r.delivered[n] = by
		r.order[n.Producer] = append(r.order[n.Producer], n.Number)
	}
	if r.last {
		r.got = 0
		for n := range r.delivered {
			if at, known := r.pushed[n]; known && r.deleted[len(r.deleted)-1].before(at) {
				r.got++
			}
		}
	}
}

func (r *recreation) check() {
	final := r.deleted[len(r.deleted)-1]
	for n, at := range r.pushed {
		by, delivered := r.delivered[n]
		if final.before(at) && !delivered {
			r.Errorf("%+v was pushed after the last deletion and is not delivered", n)
		}
		for i, deletion := range r.deleted {
			if delivered && at.before(deletion) && deletion.before(by) {
				r.Errorf("%+v was pushed before deletion %d and delivered after it", n, i)
			}
		}
	}
	for producer, numbers := range r.order {
		next := -1
		for _, number := range numbers {
			if at, known := r.pushed[numbered{producer, number}]; !known || !final.before(at) {
				continue
			}
			if next >= 0 && number != next {
				r.Errorf("producer %d: %d comes instead of %d", producer, number, next)
			}
			next = number + 1
		}
	}
	r.Logf("%d deletions, %d pushed, %d delivered", len(r.deleted), len(r.pushed), len(r.delivered))
}
