package main

import (
	"cmp"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"
)

// broker is a stand-in that can be told to break its promises, which the real one cannot: what is tested with it is the
// judge. It knows one queue, keeps everything in memory and speaks just enough of the wire.
type broker struct {
	mu         sync.Mutex
	moved      chan struct{} // closed and replaced when something changed
	partitions map[string][]message
	cursors    map[string]*cursor // by group and partition
	leases     int
	requests   int

	// deliver may change what a pop is about to hand out: the cheat.
	deliver func(group string, messages []message) []message
	// refuse may answer in the broker's place.
	refuse func(request int, w http.ResponseWriter, r *http.Request) bool
	// lose says that the answer to a request that was carried out gets lost.
	lose func(path string) bool
}

type message struct {
	Transaction string          `json:"transactionId"`
	Data        json.RawMessage `json:"data"`
	PartitionID string          `json:"partitionId"`
	Partition   string          `json:"partition"`
	Lease       string          `json:"leaseId"`
	offset      int
}

type cursor struct {
	next, end int // the next message to hand out, and the end of the leased span
	lease     string
	until     time.Time
}

func newBroker() *broker {
	return &broker{
		moved: make(chan struct{}), partitions: map[string][]message{}, cursors: map[string]*cursor{},
		deliver: func(_ string, m []message) []message { return m },
		refuse:  func(int, http.ResponseWriter, *http.Request) bool { return false },
		lose:    func(string) bool { return false },
	}
}

func (b *broker) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return // the client went away
	}
	b.mu.Lock()
	b.requests++
	request := b.requests
	b.mu.Unlock()
	if b.lose(r.URL.Path) {
		b.push(httptest.NewRecorder(), body)
		panic(http.ErrAbortHandler)
	}
	switch {
	case b.refuse(request, w, r):
	case r.URL.Path == "/api/v1/push":
		b.push(w, body)
	case r.URL.Path == "/api/v1/ack/batch":
		b.ack(w, body)
	case strings.HasPrefix(r.URL.Path, "/api/v1/pop/queue/"):
		b.pop(w, r)
	default:
		http.Error(w, `{"error":"Not Found"}`, http.StatusNotFound)
	}
}

func (b *broker) push(w http.ResponseWriter, body []byte) {
	var request struct {
		Items []struct {
			Queue, Partition, TransactionID string
			Payload                         json.RawMessage
		}
	}
	if json.Unmarshal(body, &request) != nil {
		http.Error(w, `{"error":"bad body"}`, http.StatusBadRequest)
		return
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	results := make([]map[string]any, len(request.Items))
	for i, item := range request.Items {
		stored := b.partitions[item.Partition]
		status := "duplicate"
		if !slices.ContainsFunc(stored, func(m message) bool { return m.Transaction == item.TransactionID }) {
			status = "queued"
			b.partitions[item.Partition] = append(stored, message{
				Transaction: item.TransactionID, Data: item.Payload, PartitionID: "id of " + item.Partition,
				Partition: item.Partition, offset: len(stored),
			})
		}
		results[i] = map[string]any{"index": i, "queueName": item.Queue, "transaction_id": item.TransactionID, "status": status}
	}
	b.wake()
	answer(w, http.StatusCreated, results)
}

func (b *broker) pop(w http.ResponseWriter, r *http.Request) {
	q := r.URL.Query()
	deadline := time.NewTimer(time.Duration(number(q, "timeout")) * time.Millisecond)
	defer deadline.Stop()
	for {
		b.mu.Lock()
		messages, expiry := b.claim(q)
		moved := b.moved
		b.mu.Unlock()
		if len(messages) > 0 {
			answer(w, http.StatusOK, map[string]any{"messages": messages, "leaseId": messages[0].Lease})
			return
		}
		if q.Get("wait") != "true" {
			w.WriteHeader(http.StatusNoContent)
			return
		}
		select {
		case <-moved:
		case <-time.After(expiry):
		case <-r.Context().Done():
			return
		case <-deadline.C:
			w.WriteHeader(http.StatusNoContent)
			return
		}
	}
}

// claim leases one partition with work to the group, or says when the next lease of it ends.
func (b *broker) claim(q url.Values) ([]message, time.Duration) {
	group, now, expiry := q.Get("consumerGroup"), time.Now(), time.Hour
	for name, stored := range b.partitions {
		c := b.cursor(group, name)
		if c.next == len(stored) {
			continue
		}
		if c.until.After(now) {
			expiry = min(expiry, c.until.Sub(now))
			continue
		}
		b.leases++
		c.lease, c.until = "lease "+strconv.Itoa(b.leases), now.Add(leaseTime(number(q, "leaseSeconds")))
		c.end = min(len(stored), c.next+cmp.Or(number(q, "batch"), 200))
		messages := slices.Clone(stored[c.next:c.end])
		for i := range messages {
			messages[i].Lease = c.lease
		}
		if messages = b.deliver(group, messages); len(messages) > 0 {
			return messages, 0
		}
		c.next, c.until = c.end, time.Time{} // the cheat made all of it vanish
	}
	return nil, expiry
}

// leaseTime shortens the lease of the worker that gets killed, which is the only short one.
func leaseTime(seconds int) time.Duration {
	if seconds < 10 {
		return 50 * time.Millisecond
	}
	return time.Duration(seconds) * time.Second
}

func (b *broker) ack(w http.ResponseWriter, body []byte) {
	var request struct {
		ConsumerGroup   string
		Acknowledgments []struct{ TransactionID, PartitionID, LeaseID string }
	}
	if json.Unmarshal(body, &request) != nil {
		http.Error(w, `{"error":"bad body"}`, http.StatusBadRequest)
		return
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	results := make([]map[string]any, len(request.Acknowledgments))
	for i, a := range request.Acknowledgments {
		c := b.cursor(request.ConsumerGroup, strings.TrimPrefix(a.PartitionID, "id of "))
		live := c.lease == a.LeaseID && c.until.After(time.Now())
		results[i] = map[string]any{"index": i, "transactionId": a.TransactionID, "success": live}
		if last := i == len(request.Acknowledgments)-1; last && live {
			c.next, c.until = c.end, time.Time{}
		}
	}
	b.wake()
	answer(w, http.StatusOK, results)
}

func (b *broker) cursor(group, partition string) *cursor {
	key := group + "\n" + partition
	if b.cursors[key] == nil {
		b.cursors[key] = &cursor{}
	}
	return b.cursors[key]
}

func (b *broker) wake() {
	close(b.moved)
	b.moved = make(chan struct{})
}

func number(q url.Values, name string) int {
	n, _ := strconv.Atoi(q.Get(name)) // absent is 0
	return n
}

// answer writes JSON without touching the payloads inside.
func answer(w http.ResponseWriter, status int, value any) {
	w.WriteHeader(status)
	encoder := json.NewEncoder(w)
	encoder.SetEscapeHTML(false)
	_ = encoder.Encode(value) // the client went away
}
