package history_test

import (
	"sync"
	"time"

	"queen.internal/pkg/client"
	"queen.internal/test/history"
)

// recorder notes what clients call and are answered.
type recorder struct {
	started time.Time

	mu      sync.Mutex
	history history.History
}

func newRecorder() *recorder {
	return &recorder{started: time.Now(), history: history.History{Skew: 20 * time.Millisecond}}
}

// call begins one; what it returns is called when the answer, or the error, is there.
func (r *recorder) call() func(err error) history.Call {
	begin := time.Since(r.started)
	return func(err error) history.Call {
		return history.Call{Begin: begin, End: time.Since(r.started), Lost: err != nil}
	}
}

func (r *recorder) push(call history.Call, items []client.Item, results []client.PushResult) {
	p := history.Push{Call: call}
	for i, item := range items {
		noted := history.PushItem{Partition: history.Partition{Queue: item.Queue, Name: item.Partition}, Key: item.TransactionID}
		if !call.Lost {
			noted.ID, noted.Status = results[i].MessageID, string(results[i].Status)
		}
		p.Items = append(p.Items, noted)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.history.Pushes = append(r.history.Pushes, p)
}

func (r *recorder) pop(call history.Call, request client.PopRequest, batch client.Batch) {
	p := history.Pop{Call: call, Group: request.Group, Lease: batch.LeaseID, Length: request.Lease, AutoAck: request.AutoAck}
	for _, m := range batch.Messages {
		partition := history.Partition{Queue: request.Queue, Name: m.Partition}
		if n := len(p.Spans); n == 0 || p.Spans[n-1].Partition != partition {
			p.Spans = append(p.Spans, history.Span{Partition: partition, Attempt: m.DeliveryAttempt})
		}
		last := &p.Spans[len(p.Spans)-1]
		last.IDs = append(last.IDs, m.ID)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.history.Pops = append(r.history.Pops, p)
}

// ack notes the acknowledgments of one call, partition by partition. messages are those that acks are of.
func (r *recorder) ack(call history.Call, queue, group string, messages []client.Message, acks []client.Acknowledgment, results []client.AckResult) {
	noted := make(map[history.Partition]*history.Ack)
	for i, m := range messages {
		partition := history.Partition{Queue: queue, Name: m.Partition}
		a := noted[partition]
		if a == nil {
			a = &history.Ack{Call: call, Group: group, Partition: partition, Lease: acks[i].LeaseID}
			noted[partition] = a
		}
		item := history.AckItem{ID: m.ID, Status: acks[i].Status}
		if !call.Lost {
			item.OK, item.Noop = results[i].Success, results[i].Noop
			a.Released, a.Dead = a.Released || results[i].LeaseReleased, a.Dead || results[i].DeadLettered
		}
		a.Items = append(a.Items, item)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, a := range noted {
		r.history.Acks = append(r.history.Acks, *a)
	}
}

func (r *recorder) extend(call history.Call, lease string, length time.Duration, extension client.Extension) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.history.Extends = append(r.history.Extends, history.Extend{Call: call, Lease: lease, Length: length, Renewed: extension.Renewed})
}
