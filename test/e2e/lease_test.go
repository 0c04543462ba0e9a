package e2e

import (
	"bytes"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"queen.internal/pkg/client"
	"queen.internal/test/internal/cell"
)

func TestLeaseExpiryGivesTheSameSpanAgain(t *testing.T) {
	t.Parallel()
	c := shared(t)
	queue := cell.FreshQueue()
	c.PushNumbered(t, queue, 10)
	first, err := c.At(t, c.Deliver[0]).Pop(t.Context(), client.PopRequest{Queue: queue, Group: "g", Mode: "all", Batch: 4, Lease: time.Second})
	if err != nil {
		t.Fatal(err)
	}
	// The other process has never seen this lease; it may hand the span out once it has lapsed, not before.
	popped := time.Now()
	second, err := c.At(t, c.Deliver[1]).Pop(t.Context(), client.PopRequest{Queue: queue, Group: "g", Batch: 4, Wait: 10 * time.Second})
	if err != nil {
		t.Fatal(err)
	}
	if waited := time.Since(popped); waited < 500*time.Millisecond {
		t.Errorf("the lease of a second was broken after %v", waited)
	}
	if diff := cmp.Diff([]string{"0", "1", "2", "3"}, cell.Transactions(first)); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff(cell.Transactions(first), cell.Transactions(second)); diff != "" {
		t.Error(diff)
	}
	if first.LeaseID == second.LeaseID || second.Messages[0].DeliveryAttempt != 2 {
		t.Errorf("%+v, then %+v", first.Messages[0], second.Messages[0])
	}
}

func TestAckWithAStaleLeaseChangesNothing(t *testing.T) {
	t.Parallel()
	c := shared(t)
	queue := cell.FreshQueue()
	c.PushNumbered(t, queue, 4)
	lapsed := c.Pop(t, client.PopRequest{Queue: queue, Group: "g", Mode: "all", Batch: 2, Lease: time.Second})
	held := c.Pop(t, client.PopRequest{Queue: queue, Group: "g", Batch: 2, Wait: 10 * time.Second, Lease: time.Minute})
	for i, address := range []string{c.Deliver[0], c.Deliver[1], c.Edge} {
		for _, status := range []string{client.Completed, client.NotCompleted, client.DeadLetter} {
			result, err := c.At(t, address).Ack(t.Context(), "g", client.AckOf(lapsed.Messages[1], status))
			if err != nil {
				t.Fatal(err)
			}
			if result.Success || result.Error == nil || !strings.Contains(*result.Error, "lease") || result.LeaseReleased || result.DeadLettered {
				t.Errorf("address %d, %s: %+v", i, status, result)
			}
		}
	}
	// The holder's lease is untouched: nothing is offered, and its ack moves the cursor.
	if empty := c.Pop(t, client.PopRequest{Queue: queue, Group: "g"}); len(empty.Messages) != 0 {
		t.Errorf("%+v", empty)
	}
	c.AckAll(t, "g", held)
	if diff := cmp.Diff([]string{"2", "3"}, cell.Transactions(c.Pop(t, client.PopRequest{Queue: queue, Group: "g"}))); diff != "" {
		t.Error(diff)
	}
}

func TestAckAtAnotherDeliverCompletesTheLease(t *testing.T) {
	t.Parallel()
	c := shared(t)
	queue := cell.FreshQueue()
	c.PushNumbered(t, queue, 3)
	batch, err := c.At(t, c.Deliver[0]).Pop(t.Context(), client.PopRequest{Queue: queue, Group: "g", Mode: "all"})
	if err != nil {
		t.Fatal(err)
	}
	result, err := c.At(t, c.Deliver[1]).Ack(t.Context(), "g", client.AckOf(batch.Messages[2], client.Completed))
	if err != nil || !result.Success || !result.LeaseReleased {
		t.Errorf("%+v %v", result, err)
	}
	if empty := c.Pop(t, client.PopRequest{Queue: queue, Group: "g"}); len(empty.Messages) != 0 {
		t.Errorf("%+v", empty)
	}
}

func TestExtendKeepsALeaseAtAnyDeliver(t *testing.T) {
	t.Parallel()
	c := shared(t)
	queue := cell.FreshQueue()
	c.PushNumbered(t, queue, 1)
	batch := c.Pop(t, client.PopRequest{Queue: queue, Group: "g", Mode: "all", Lease: 2 * time.Second})
	for _, address := range c.Deliver {
		extended, err := c.At(t, address).Extend(t.Context(), batch.LeaseID, time.Minute)
		if err != nil || extended.Renewed != 1 {
			t.Errorf("%+v %v", extended, err)
		}
	}
	if empty := c.Pop(t, client.PopRequest{Queue: queue, Group: "g", Wait: 3 * time.Second}); len(empty.Messages) != 0 {
		t.Errorf("%+v", empty)
	}
	c.AckAll(t, "g", batch)
}

func TestFailedMessagesComeBackAndAreDeadLetteredInTheEnd(t *testing.T) {
	t.Parallel()
	c := shared(t)
	queue := cell.FreshQueue()
	c.PushNumbered(t, queue, 2)
	for attempt := 1; ; attempt++ {
		batch := c.Pop(t, client.PopRequest{Queue: queue, Group: "g", Mode: "all", Wait: 5 * time.Second})
		if attempt > 4 || batch.Messages[0].TransactionID != "0" || batch.Messages[0].DeliveryAttempt != attempt {
			t.Fatalf("attempt %d: %+v", attempt, batch.Messages)
		}
		result, err := c.Client(t).Ack(t.Context(), "g", client.AckOf(batch.Messages[0], client.NotCompleted))
		if err != nil || !result.Success || result.DeadLettered != (attempt == 4) {
			t.Fatalf("attempt %d: %+v %v", attempt, result, err)
		}
		if result.DeadLettered {
			break
		}
	}
	if diff := cmp.Diff([]string{"1"}, cell.Transactions(c.Pop(t, client.PopRequest{Queue: queue, Group: "g", Wait: 5 * time.Second}))); diff != "" {
		t.Error(diff)
	}
}

func TestLongPollIsServedByAPushThatComesLater(t *testing.T) {
	t.Parallel()
	c := shared(t)
	queue := cell.FreshQueue()
	got := make(chan client.Batch)
	go func() {
		batch, err := c.Client(t).Pop(t.Context(), client.PopRequest{Queue: queue, Wait: 20 * time.Second})
		if err != nil {
			t.Error(err)
		}
		got <- batch
	}()
	c.AwaitParked(t, 1)
	c.PushNumbered(t, queue, 1)
	if diff := cmp.Diff([]string{"0"}, cell.Transactions(<-got)); diff != "" {
		t.Error(diff)
	}
}

func TestLongPollOnAQuietQueueEndsEmptyInTime(t *testing.T) {
	t.Parallel()
	c := shared(t)
	began := time.Now()
	resp, err := http.Get(c.Edge + "/api/v1/pop/queue/" + cell.FreshQueue() + "?wait=true&timeout=1500")
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
