package e2e

import (
	"bytes"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"queen.internal/pkg/client"
)

func transactions(batch client.Batch) []string {
	var ids []string
	for _, m := range batch.Messages {
		ids = append(ids, m.TransactionID)
	}
	return ids
}

func pushNumbered(t *testing.T, c *cell, queue string, count int) {
	t.Helper()
	var items []client.Item
	for i := range count {
		items = append(items, client.Item{Queue: queue, TransactionID: fmt.Sprint(i), Payload: fmt.Append(nil, i)})
	}
	c.push(t, items...)
}

func TestLeaseExpiryGivesTheSameSpanAgain(t *testing.T) {
	t.Parallel()
	c := shared(t)
	queue := freshQueue(t)
	pushNumbered(t, c, queue, 10)
	first, err := c.at(t, c.deliver[0]).Pop(t.Context(), client.PopRequest{Queue: queue, Group: "g", Mode: "all", Batch: 4, Lease: time.Second})
	if err != nil {
		t.Fatal(err)
	}
	// The other process has never seen this lease; it may hand the span out once it has lapsed, not before.
	popped := time.Now()
	second, err := c.at(t, c.deliver[1]).Pop(t.Context(), client.PopRequest{Queue: queue, Group: "g", Batch: 4, Wait: 10 * time.Second})
	if err != nil {
		t.Fatal(err)
	}
	if waited := time.Since(popped); waited < 500*time.Millisecond {
		t.Errorf("the lease of a second was broken after %v", waited)
	}
	if diff := cmp.Diff([]string{"0", "1", "2", "3"}, transactions(first)); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff(transactions(first), transactions(second)); diff != "" {
		t.Error(diff)
	}
	if first.LeaseID == second.LeaseID || second.Messages[0].DeliveryAttempt != 2 {
		t.Errorf("%+v, then %+v", first.Messages[0], second.Messages[0])
	}
}

func TestAckWithAStaleLeaseChangesNothing(t *testing.T) {
	t.Parallel()
	c := shared(t)
	queue := freshQueue(t)
	pushNumbered(t, c, queue, 4)
	lapsed := c.pop(t, client.PopRequest{Queue: queue, Group: "g", Mode: "all", Batch: 2, Lease: time.Second})
	held := c.pop(t, client.PopRequest{Queue: queue, Group: "g", Batch: 2, Wait: 10 * time.Second, Lease: time.Minute})
	for i, address := range []string{c.deliver[0], c.deliver[1], c.edge} {
		for _, status := range []string{client.Completed, client.NotCompleted, client.DeadLetter} {
			result, err := c.at(t, address).Ack(t.Context(), "g", client.AckOf(lapsed.Messages[1], status))
			if err != nil {
				t.Fatal(err)
			}
			if result.Success || result.Error == nil || !strings.Contains(*result.Error, "lease") || result.LeaseReleased || result.DeadLettered {
				t.Errorf("address %d, %s: %+v", i, status, result)
			}
		}
	}
	// The holder's lease is untouched: nothing is offered, and its ack moves the cursor.
	if empty := c.pop(t, client.PopRequest{Queue: queue, Group: "g"}); len(empty.Messages) != 0 {
		t.Errorf("%+v", empty)
	}
	c.ackAll(t, "g", held)
	if diff := cmp.Diff([]string{"2", "3"}, transactions(c.pop(t, client.PopRequest{Queue: queue, Group: "g"}))); diff != "" {
		t.Error(diff)
	}
}

func TestAckAtAnotherDeliverCompletesTheLease(t *testing.T) {
	t.Parallel()
	c := shared(t)
	queue := freshQueue(t)
	pushNumbered(t, c, queue, 3)
	batch, err := c.at(t, c.deliver[0]).Pop(t.Context(), client.PopRequest{Queue: queue, Group: "g", Mode: "all"})
	if err != nil {
		t.Fatal(err)
	}
	result, err := c.at(t, c.deliver[1]).Ack(t.Context(), "g", client.AckOf(batch.Messages[2], client.Completed))
	if err != nil || !result.Success || !result.LeaseReleased {
		t.Errorf("%+v %v", result, err)
	}
	if empty := c.pop(t, client.PopRequest{Queue: queue, Group: "g"}); len(empty.Messages) != 0 {
		t.Errorf("%+v", empty)
	}
}

func TestExtendKeepsALeaseAtAnyDeliver(t *testing.T) {
	t.Parallel()
	c := shared(t)
	queue := freshQueue(t)
	pushNumbered(t, c, queue, 1)
	batch := c.pop(t, client.PopRequest{Queue: queue, Group: "g", Mode: "all", Lease: 2 * time.Second})
	for _, address := range c.deliver {
		extended, err := c.at(t, address).Extend(t.Context(), batch.LeaseID, time.Minute)
		if err != nil || extended.Renewed != 1 {
			t.Errorf("%+v %v", extended, err)
		}
	}
	if empty := c.pop(t, client.PopRequest{Queue: queue, Group: "g", Wait: 3 * time.Second}); len(empty.Messages) != 0 {
		t.Errorf("%+v", empty)
	}
	c.ackAll(t, "g", batch)
}

func TestFailedMessagesComeBackAndAreDeadLetteredInTheEnd(t *testing.T) {
	t.Parallel()
	c := shared(t)
	queue := freshQueue(t)
	pushNumbered(t, c, queue, 2)
	for attempt := 1; ; attempt++ {
		batch := c.pop(t, client.PopRequest{Queue: queue, Group: "g", Mode: "all", Wait: 5 * time.Second})
		if attempt > 4 || batch.Messages[0].TransactionID != "0" || batch.Messages[0].DeliveryAttempt != attempt {
			t.Fatalf("attempt %d: %+v", attempt, batch.Messages)
		}
		result, err := c.client(t).Ack(t.Context(), "g", client.AckOf(batch.Messages[0], client.NotCompleted))
		if err != nil || !result.Success || result.DeadLettered != (attempt == 4) {
			t.Fatalf("attempt %d: %+v %v", attempt, result, err)
		}
		if result.DeadLettered {
			break
		}
	}
	if diff := cmp.Diff([]string{"1"}, transactions(c.pop(t, client.PopRequest{Queue: queue, Group: "g", Wait: 5 * time.Second}))); diff != "" {
		t.Error(diff)
	}
}

func TestLongPollIsServedByAPushThatComesLater(t *testing.T) {
	t.Parallel()
	c := shared(t)
	queue := freshQueue(t)
	got := make(chan client.Batch)
	go func() {
		batch, err := c.client(t).Pop(t.Context(), client.PopRequest{Queue: queue, Wait: 20 * time.Second})
		if err != nil {
			t.Error(err)
		}
		got <- batch
	}()
	c.awaitParked(t, 1)
	pushNumbered(t, c, queue, 1)
	if diff := cmp.Diff([]string{"0"}, transactions(<-got)); diff != "" {
		t.Error(diff)
	}
}

func TestLongPollOnAQuietQueueEndsEmptyInTime(t *testing.T) {
	t.Parallel()
	c := shared(t)
	began := time.Now()
	resp, err := http.Get(c.edge + "/api/v1/pop/queue/" + freshQueue(t) + "?wait=true&timeout=1500")
	if err != nil {
		t.Fatal(err)
	}
	defer hangUp(t, resp.Body)
	var body bytes.Buffer
	if _, err := body.ReadFrom(resp.Body); err != nil {
		t.Fatal(err)
	}
	took := time.Since(began)
	if resp.StatusCode != http.StatusNoContent || body.Len() != 0 || resp.Header.Get("Content-Length") != "" {
		t.Errorf("%d %q %v", resp.StatusCode, body.String(), resp.Header)
	}
	// The contract: not before three quarters of the time, not after it and what a client adds.
	if took < 1125*time.Millisecond || took > 6500*time.Millisecond {
		t.Errorf("held for %v", took)
	}
}
