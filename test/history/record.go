package history

import (
	"strings"
	"sync"
	"time"

	"queen.internal/pkg/client"
)

// Recorder notes what clients call and are answered. Its methods may be called from any goroutine.
type Recorder struct {
	started time.Time

	mu      sync.Mutex
	history History
}

// NewRecorder starts the clock of a history.
func NewRecorder() *Recorder {
	return &Recorder{started: time.Now(), history: History{Skew: 20 * time.Millisecond}}
}

// Since is the time of the history's clock.
func (r *Recorder) Since() time.Duration { return time.Since(r.started) }

// Call begins one; what it returns is called when the answer, or the error, is there.
func (r *Recorder) Call() func(err error) Call {
	begin := r.Since()
	return func(err error) Call {
		return Call{Begin: begin, End: r.Since(), Lost: err != nil}
	}
}

// History is what was noted so far. It belongs to the caller once no call is under way.
func (r *Recorder) History() *History {
	r.mu.Lock()
	defer r.mu.Unlock()
	return &r.history
}

// mayBeStored stands in the error of an item whose commit PostgreSQL did not confirm, and that could not be buffered either.
const mayBeStored = "may be stored"

// Push notes a push. server is the process that was called, where that is known. Items of which the answer says that nobody
// knows are noted as one that was lost.
func (r *Recorder) Push(call Call, server string, items []client.Item, results []client.PushResult) {
	p, unsure := Push{Call: call, Server: server}, Push{Call: call}
	unsure.Lost = true
	for i, item := range items {
		noted := PushItem{Partition: Partition{Queue: item.Queue, Name: item.Partition}, Key: item.TransactionID}
		switch {
		case call.Lost:
		case results[i].Status == client.Failed && strings.Contains(results[i].Error, mayBeStored):
			unsure.Items = append(unsure.Items, noted)
			continue
		default:
			noted.ID, noted.Status = results[i].MessageID, string(results[i].Status)
		}
		p.Items = append(p.Items, noted)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.history.Pushes = append(r.history.Pushes, p)
	if len(unsure.Items) > 0 {
		r.history.Pushes = append(r.history.Pushes, unsure)
	}
}

// Pop notes a pop.
func (r *Recorder) Pop(call Call, request client.PopRequest, batch client.Batch) {
	p := Pop{Call: call, Group: request.Group, Lease: batch.LeaseID, Length: request.Lease, AutoAck: request.AutoAck}
	for _, m := range batch.Messages {
		partition := Partition{Queue: request.Queue, Name: m.Partition}
		if n := len(p.Spans); n == 0 || p.Spans[n-1].Partition != partition {
			p.Spans = append(p.Spans, Span{Partition: partition, Attempt: m.DeliveryAttempt})
		}
		last := &p.Spans[len(p.Spans)-1]
		last.IDs = append(last.IDs, m.ID)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.history.Pops = append(r.history.Pops, p)
}

// Ack notes the acknowledgments of one call, partition by partition. messages are those that acks are of.
func (r *Recorder) Ack(call Call, queue, group string, messages []client.Message, acks []client.Acknowledgment, results []client.AckResult) {
	noted := make(map[Partition]*Ack)
	for i, m := range messages {
		partition := Partition{Queue: queue, Name: m.Partition}
		a := noted[partition]
		if a == nil {
			a = &Ack{Call: call, Group: group, Partition: partition, Lease: acks[i].LeaseID}
			noted[partition] = a
		}
		item := AckItem{ID: m.ID, Status: acks[i].Status}
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

// Extend notes a renewal.
func (r *Recorder) Extend(call Call, lease string, length time.Duration, extension client.Extension) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.history.Extends = append(r.history.Extends, Extend{Call: call, Lease: lease, Length: length, Renewed: extension.Renewed})
}

// Drain notes that a group has read everything.
func (r *Recorder) Drain(group string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.history.Drained = append(r.history.Drained, group)
}
