package e2e

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"sync"
	"testing"
	"time"

	"queen.internal/compose/local"
	"queen.internal/test/internal/cell"
)

// traffic is producers and consumers that repeat nothing: what is not answered as it should be is a failed request.
type traffic struct {
	*testing.T
	edge   string
	queue  string
	client *http.Client

	mu     sync.Mutex
	pushed map[string]bool // transactions by whether they were acked
	counts map[string]int  // requests by kind
	failed []string
}

// ask sends one request and reads the answer. It is false when that failed, or the status is none of those wanted.
func (l *traffic) ask(kind, method, path string, body any, into any, wanted ...int) bool {
	var text bytes.Buffer
	if body != nil {
		if err := json.NewEncoder(&text).Encode(body); err != nil {
			l.Error(err)
			return false
		}
	}
	req, err := http.NewRequest(method, l.edge+path, &text)
	if err != nil {
		l.Error(err)
		return false
	}
	// net/http repeats what it believes to be harmless on another connection, unless there is a body that it cannot get again.
	req.GetBody = nil
	if text.Len() == 0 {
		req.Body, req.ContentLength = io.NopCloser(bytes.NewReader([]byte(" "))), 1
	}
	resp, err := l.client.Do(req)
	if err != nil {
		l.note(kind, fmt.Sprint(err))
		return false
	}
	answer, err := io.ReadAll(resp.Body)
	if closed := resp.Body.Close(); err != nil || closed != nil {
		l.note(kind, fmt.Sprint(err, closed))
		return false
	}
	for _, status := range wanted {
		if resp.StatusCode != status {
			continue
		}
		if into != nil && len(answer) > 0 {
			if err := json.Unmarshal(answer, into); err != nil {
				l.note(kind, fmt.Sprintf("%v in %s", err, answer))
				return false
			}
		}
		l.note(kind, "")
		return true
	}
	l.note(kind, fmt.Sprintf("%d %s", resp.StatusCode, answer))
	return false
}

// note counts a request, and keeps why it failed.
func (l *traffic) note(kind, failure string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.counts[kind]++
	if failure != "" {
		l.failed = append(l.failed, fmt.Sprintf("%s %d at %s: %s", kind, l.counts[kind], time.Now().UTC().Format("15:04:05.000"), failure))
	}
}

func (l *traffic) produce(ctx context.Context, producer int) {
	for n := 0; ctx.Err() == nil; n++ {
		id := fmt.Sprintf("%d-%d", producer, n)
		item := map[string]any{"queue": l.queue, "partition": fmt.Sprint("p", producer), "transactionId": id, "payload": n}
		var results []struct{ Status string }
		if !l.ask("push", http.MethodPost, "/api/v1/push", map[string]any{"items": []any{item}}, &results, http.StatusCreated) {
			continue
		}
		// On a machine that is busy with other things the database may be found too slow: then it is on the disk.
		if len(results) != 1 || results[0].Status != "queued" && results[0].Status != "buffered" {
			l.note("push", fmt.Sprintf("%+v", results))
		}
		l.mu.Lock()
		if _, known := l.pushed[id]; !known {
			l.pushed[id] = false
		}
		l.mu.Unlock()
	}
}

// consume pops and acks until ctx ends, or with drain until there is nothing more.
func (l *traffic) consume(ctx context.Context, drain bool) {
	for ctx.Err() == nil {
		var batch struct {
			Messages []struct {
				TransactionID string `json:"transactionId"`
				PartitionID   string `json:"partitionId"`
				LeaseID       string `json:"leaseId"`
			}
		}
		path := "/api/v1/pop/queue/" + l.queue + "?consumerGroup=g&subscriptionMode=all&batch=10&wait=true&timeout=2000"
		if !l.ask("pop", http.MethodGet, path, nil, &batch, http.StatusOK, http.StatusNoContent) {
			continue
		}
		if len(batch.Messages) == 0 {
			if drain {
				return
			}
			continue
		}
		var acks []map[string]any
		for _, m := range batch.Messages {
			acks = append(acks, map[string]any{"transactionId": m.TransactionID, "partitionId": m.PartitionID, "leaseId": m.LeaseID, "status": "completed"})
		}
		var results []struct {
			Success bool
			Error   *string
		}
		if !l.ask("ack", http.MethodPost, "/api/v1/ack/batch", map[string]any{"consumerGroup": "g", "acknowledgments": acks}, &results, http.StatusOK) {
			continue
		}
		l.mu.Lock()
		for i, m := range batch.Messages {
			if i < len(results) && results[i].Success {
				l.pushed[m.TransactionID] = true
			}
		}
		l.mu.Unlock()
	}
}

// manage asks what nobody waits for.
func (l *traffic) manage(ctx context.Context) {
	pace := time.NewTicker(20 * time.Millisecond)
	defer pace.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-pace.C:
		}
		l.ask("depth", http.MethodGet, "/api/v1/resources/queues/"+l.queue+"/depth?consumerGroup=g", nil, nil, http.StatusOK)
		l.ask("list", http.MethodGet, "/api/v1/messages?limit=1&queue="+l.queue, nil, nil, http.StatusOK)
		l.ask("buffers", http.MethodGet, "/api/v1/status/buffers", nil, nil, http.StatusOK)
	}
}

// Every service is restarted in order, one after the other, under load through the edge. Nobody who asks the edge notices.
func TestARollingRestartFailsNoRequest(t *testing.T) {
	t.Parallel()
	c := world.Own(t, local.Options{Ingest: 2, Deliver: 2, Env: []string{"QUEEN_DRAIN_DELAY_MS=1000", "QUEEN_SHUTDOWN_TIMEOUT_MS=10000"}})
	l := &traffic{
		T: t, edge: c.Edge, queue: cell.FreshQueue(), pushed: map[string]bool{}, counts: map[string]int{},
		client: &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 100}},
	}
	c.PushNumbered(t, l.queue, 1)
	load, stop := context.WithCancel(t.Context())
	var working sync.WaitGroup
	for n := range 4 {
		working.Go(func() { l.produce(load, n) })
		working.Go(func() { l.consume(load, false) })
	}
	working.Go(func() { l.manage(load) })
	requests := func(kind string) int {
		l.mu.Lock()
		defer l.mu.Unlock()
		return l.counts[kind]
	}
	for _, p := range []struct {
		service string
		number  int
		kind    string // what it is asked for
	}{
		{local.Ingest, 1, "push"},
		{local.Ingest, 2, "push"},
		{local.Deliver, 1, "pop"},
		{local.Deliver, 2, "ack"},
		{local.Maintainer, 1, "push"},
		{local.Ingest, 1, "push"},
		{local.Deliver, 1, "pop"},
	} {
		before := requests(p.kind)
		if err := c.Stack.Restart(t.Context(), p.service, p.number); err != nil {
			t.Fatal(err)
		}
		cell.Eventually(t, func() bool { return requests(p.kind) > before+20 })
	}
	stop()
	working.Wait()
	awaitDrained(t, c, 2)
	l.consume(t.Context(), true)
	l.client.CloseIdleConnections()
	l.mu.Lock()
	defer l.mu.Unlock()
	for i, failure := range l.failed {
		if i < 20 {
			t.Error(failure)
		}
	}
	left := 0
	for _, acked := range l.pushed {
		if !acked {
			left++
		}
	}
	t.Logf("requests: %v, messages: %d", l.counts, len(l.pushed))
	if left > 0 || len(l.failed) > 0 {
		t.Errorf("%d requests failed, %d of %d messages were not delivered and acked", len(l.failed), left, len(l.pushed))
	}
}
