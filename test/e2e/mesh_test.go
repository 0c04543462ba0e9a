package e2e

import (
	"fmt"
	"strings"
	"syscall"
	"testing"
	"time"

	"queen.internal/compose/local"
	"queen.internal/pkg/client"
	"queen.internal/test/internal/cell"
)

// wakeful is a stack of two delivers whose parked polls look for themselves only once an hour: news wakes them.
func wakeful(t *testing.T) *cell.Cell {
	t.Helper()
	return world.Own(t, local.Options{
		Deliver: 2, Env: []string{"POP_WAIT_INITIAL_INTERVAL_MS=3600000", "POP_WAIT_MAX_INTERVAL_MS=3600000"},
	})
}

// parkedAt has a client wait at one deliver; the answer comes by the channel.
func parkedAt(t *testing.T, c *cell.Cell, address, queue string) <-chan client.Batch {
	t.Helper()
	answer := make(chan client.Batch, 1)
	go func() {
		batch, err := c.At(t, address).Pop(t.Context(), client.PopRequest{Queue: queue, Wait: time.Minute, AutoAck: true})
		if err != nil {
			t.Errorf("pop at %s: %v", address, err)
		}
		answer <- batch
	}()
	c.AwaitParked(t, 1)
	return answer
}

func expectOne(t *testing.T, what string, answer <-chan client.Batch, want string) {
	t.Helper()
	if got := cell.Transactions(<-answer); len(got) != 1 || got[0] != want {
		t.Errorf("%s: the poll has %v, want %s", what, got, want)
	}
}

func TestAPushWakesAPollAtEveryDeliverWithoutABackstop(t *testing.T) {
	t.Parallel()
	c, queue := wakeful(t), cell.FreshQueue()
	for round := range 3 {
		for n, deliver := range c.Deliver {
			answer := parkedAt(t, c, deliver, queue)
			id := fmt.Sprint(round, ".", n)
			pushAt(t, c, c.Ingest[0], queue, id, client.Queued)
			expectOne(t, "a push", answer, id)
		}
	}
}

func TestATransactionWakesAPollAtAnotherDeliverWithoutABackstop(t *testing.T) {
	t.Parallel()
	c, queue := wakeful(t), cell.FreshQueue()
	answer := parkedAt(t, c, c.Deliver[1], queue)
	body := fmt.Sprintf(`{"operations":[{"type":"push","items":[{"queue":%q,"transactionId":"bundled","payload":1}]}]}`, queue)
	if status, text := c.Do(t, c.Deliver[0], "POST", "/api/v1/transaction", body); status != 200 {
		t.Fatalf("%d %s", status, text)
	}
	expectOne(t, "a transaction", answer, "bundled")
}

func TestADeliverPausedForAWhileMissesNothing(t *testing.T) {
	t.Parallel()
	c, queue := wakeful(t), cell.FreshQueue()
	answer := parkedAt(t, c, c.Deliver[0], queue)
	if err := c.Stack.Signal(local.Deliver, 1, syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	pushAt(t, c, c.Ingest[0], queue, "while it is paused", client.Queued)
	// Long enough that the others take it for dead: that is told in the log of ingest.
	cell.Eventually(t, func() bool { return strings.Contains(c.Stack.Logs(local.Ingest), "mesh: peer down") })
	if err := c.Stack.Signal(local.Deliver, 1, syscall.SIGCONT); err != nil {
		t.Fatal(err)
	}
	expectOne(t, "a pause", answer, "while it is paused")
}
