package e2e

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"net/http"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"queen.internal/compose/local"
	"queen.internal/pkg/client"
	"queen.internal/pkg/meshtest"
	"queen.internal/test/internal/cell"
)

var pause = flag.Duration("e2e.pause", 0, "how long a deliver stands still after the others have noticed")

// wakeful is a stack of two delivers that find nothing by themselves: parked polls look once an hour, and nothing walks
// over everything. Only news wakes a poll.
func wakeful(t *testing.T, env ...string) *cell.Cell {
	t.Helper()
	return world.Own(t, local.Options{
		Deliver: 2,
		Env:     append(env, "POP_WAIT_INITIAL_INTERVAL_MS=3600000", "POP_WAIT_MAX_INTERVAL_MS=3600000", "QUEEN_HOTLIST_SWEEP_MS=0"),
	})
}

// parkedAt has a client wait at one deliver; the answer comes by the channel.
func parkedAt(t *testing.T, c *cell.Cell, address, queue string) <-chan client.Batch {
	t.Helper()
	answer := make(chan client.Batch, 1)
	go func() {
		batch, err := c.At(t, address).Pop(t.Context(), client.PopRequest{Queue: queue, Wait: time.Minute + *pause, AutoAck: true})
		if err != nil {
			t.Errorf("pop at %s: %v", address, err)
		}
		answer <- batch
	}()
	cell.Eventually(t, func() bool { return c.ParkedAt(t, address) == 1 })
	return answer
}

func expectOne(t *testing.T, what string, answer <-chan client.Batch, want string) {
	t.Helper()
	if got := cell.Transactions(<-answer); len(got) != 1 || got[0] != want {
		t.Errorf("%s: the poll has %v, want %s", what, got, want)
	}
}

// bury makes a dead letter in a queue that nobody waits for, and returns its id and the message.
func bury(t *testing.T, c *cell.Cell, queue, transaction string) (id string, m client.Message) {
	t.Helper()
	c.Push(t, client.Item{Queue: queue, TransactionID: transaction, Payload: []byte(`1`)})
	m = c.Pop(t, client.PopRequest{Queue: queue}).Messages[0]
	if result, err := c.Client(t).Ack(t.Context(), "", client.AckOf(m, client.DeadLetter)); err != nil || !result.DeadLettered {
		t.Fatalf("%+v, %v", result, err)
	}
	var list struct{ Messages []struct{ ID string } }
	status, body := c.Get(t, "/api/v1/dlq?queue="+queue)
	if err := json.Unmarshal(body, &list); err != nil || status != http.StatusOK || len(list.Messages) != 1 {
		t.Fatalf("%d %s (%v)", status, body, err)
	}
	return list.Messages[0].ID, m
}

// Each way to append wakes a poll at each deliver, wherever it was asked for, though no deliver looks for itself.
func TestEveryAppendWakesAPollAtEveryDeliverWithoutAFloor(t *testing.T) {
	t.Parallel()
	c := wakeful(t)
	done := func(t *testing.T, address, path, body string) {
		t.Helper()
		if status, text := c.Do(t, address, http.MethodPost, path, body); status != http.StatusOK {
			t.Fatalf("%d %s", status, text)
		}
	}
	// Each prepares something in a queue, and returns what appends and the transaction id that it appends.
	appends := map[string]func(t *testing.T, queue, other string) (do func(), id string){
		"push": func(t *testing.T, queue, _ string) (func(), string) {
			return func() { pushAt(t, c, c.Ingest[0], queue, "pushed", client.Queued) }, "pushed"
		},
		"transaction": func(t *testing.T, queue, other string) (func(), string) {
			body := fmt.Sprintf(`{"operations":[{"type":"push","items":[{"queue":%q,"transactionId":"bundled","payload":1}]}]}`, queue)
			return func() { done(t, other, "/api/v1/transaction", body) }, "bundled"
		},
		"retry": func(t *testing.T, queue, _ string) (func(), string) {
			id, m := bury(t, c, queue, "failed")
			return func() { done(t, c.Ingest[0], "/api/v1/messages/"+m.PartitionID+"/failed/retry", "") }, "dlq:" + id
		},
		"replay": func(t *testing.T, queue, _ string) (func(), string) {
			id, _ := bury(t, c, cell.FreshQueue(), "failed")
			body := fmt.Sprintf(`{"queue":%q}`, queue)
			return func() { done(t, c.Ingest[0], "/api/v1/dlq/"+id+"/replay", body) }, "dlq:" + id
		},
	}
	for name, prepare := range appends {
		for n, deliver := range c.Deliver {
			t.Run(fmt.Sprint(name, " ", n+1), func(t *testing.T) {
				queue := cell.FreshQueue()
				do, id := prepare(t, queue, c.Deliver[1-n])
				answer := parkedAt(t, c, deliver, queue)
				do()
				expectOne(t, name, answer, id)
			})
		}
	}
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
	<-time.After(*pause)
	if err := c.Stack.Signal(local.Deliver, 1, syscall.SIGCONT); err != nil {
		t.Fatal(err)
	}
	expectOne(t, "a pause", answer, "while it is paused")
}

// lines are those of a service's log that match; each pattern is a whole line without its time.
func lines(c *cell.Cell, service, pattern string) []string {
	return regexp.MustCompile(`(?m)^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z `+pattern+`$`).FindAllString(c.Stack.Logs(service), -1)
}

// Operators look for these lines. Of three nodes one is killed: each of the others says so once, and once that it is back.
func TestAKilledDeliverIsReportedDownAndRecovered(t *testing.T) {
	t.Parallel()
	c := wakeful(t)
	const (
		started   = `INFO mesh: started server_id=%s port=\d+ peers=3 auth=secret`
		joined    = `INFO mesh: peer joined peer=deliver-2 role=deliver version=test`
		down      = `WARN mesh: peer down peer=deliver-2 threshold_ms=5000`
		recovered = `INFO mesh: peer recovered peer=deliver-2`
	)
	others := []string{local.Ingest, local.Deliver} // the log of deliver is that of both
	await := func(pattern string, n int) {
		t.Helper()
		for _, service := range others {
			cell.Eventually(t, func() bool { return len(lines(c, service, pattern)) >= n })
		}
	}
	for _, service := range others {
		cell.Eventually(t, func() bool { return len(lines(c, service, fmt.Sprintf(started, service+"-1"))) == 1 })
	}
	await(joined, 1)
	if err := c.Stack.Kill(local.Deliver, 2); err != nil {
		t.Fatal(err)
	}
	killed := time.Now()
	await(down, 1)
	t.Logf("reported %.1f s after the kill, of which a poll of the log is a part", time.Since(killed).Seconds())
	if err := c.Stack.Restart(t.Context(), local.Deliver, 2); err != nil {
		t.Fatal(err)
	}
	await(recovered, 1)
	// What is said meanwhile reaches it again.
	queue := cell.FreshQueue()
	answer := parkedAt(t, c, c.Deliver[1], queue)
	pushAt(t, c, c.Ingest[0], queue, "after all", client.Queued)
	expectOne(t, "a restart", answer, "after all")
	for _, service := range others {
		for _, pattern := range []string{down, recovered} {
			if n := len(lines(c, service, pattern)); n != 1 {
				t.Errorf("%d lines of %s say %s", n, service, pattern)
			}
		}
	}
}

// storm pushes into so many partitions of a queue, a thousand at a time. It returns when all is answered.
func storm(t *testing.T, c *cell.Cell, queue string, partitions int) {
	t.Helper()
	const transaction = "t"
	target := c.At(t, c.Ingest[0])
	for first := 0; first < partitions; first += 1000 {
		items := make([]client.Item, 1000)
		for i := range items {
			items[i] = client.Item{Queue: queue, Partition: fmt.Sprint(first + i), TransactionID: transaction, Payload: []byte(`1`)}
		}
		results, err := target.Push(t.Context(), items)
		if err != nil {
			t.Fatal(err)
		}
		for _, r := range results {
			if r.Status != client.Queued {
				t.Fatalf("%+v", r)
			}
		}
	}
}

// A deliver stands still that listens to the queue, so the way to it fills up. Whoever pushes never notices, and who does
// not stand still hears all the same.
func TestAStormOfPushesDoesNotWaitForAPeerThatStandsStill(t *testing.T) {
	t.Parallel()
	c, queue, quiet := wakeful(t), cell.FreshQueue(), cell.FreshQueue()
	still := parkedAt(t, c, c.Deliver[1], queue)
	if err := c.Stack.Signal(local.Deliver, 2, syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	storm(t, c, queue, 10_000)
	awake := parkedAt(t, c, c.Deliver[0], quiet)
	pushAt(t, c, c.Ingest[0], quiet, "heard", client.Queued)
	expectOne(t, "beside it", awake, "heard")
	select {
	case batch := <-still:
		t.Errorf("it did not stand still: %+v", batch)
	default:
	}
	if err := c.Stack.Signal(local.Deliver, 2, syscall.SIGCONT); err != nil {
		t.Fatal(err)
	}
	expectOne(t, "at last", still, "t")
}

// The same when nothing at all gets through: a NATS that takes nothing more and closes no connection. More hints come up
// than may wait, so some are dropped, and counted; a poll learns of them when the connection is given up and comes back.
func TestAStormOfPushesDoesNotWaitForANATSThatHangs(t *testing.T) {
	t.Parallel()
	nats := cell.NATS(t)
	between := meshtest.NewRelay(t, fmt.Sprintf("127.0.0.1:%d", nats.Port()))
	c, queue := wakeful(t, cell.Through(between.Port())...), cell.FreshQueue()
	for _, address := range []string{c.Ingest[0], c.Deliver[0], c.Deliver[1]} {
		cell.Eventually(t, func() bool { m := c.MeshAt(t, address); return m.Mode == "external" && m.Alive == 2 })
	}
	answer := parkedAt(t, c, c.Deliver[1], queue)
	between.Stall()
	for pushed := 0; c.MeshAt(t, c.Ingest[0]).Dropped == 0; pushed++ {
		if pushed == 200 {
			t.Fatalf("nothing was dropped: %+v", c.MeshAt(t, c.Ingest[0]))
		}
		storm(t, c, fmt.Sprint(queue, ".", pushed%20), 5_000)
	}
	pushAt(t, c, c.Ingest[0], queue, "not told", client.Queued)
	between.Part()
	between.Join()
	expectOne(t, "when it is back", answer, "not told")
}

// TestConsumersAtBothDeliversShareAQueueWithoutABackstop has each push and each ack be news for both. Every message is
// delivered once; how many claims were made in vain is logged, since that depends on how busy the machine is.
func TestConsumersAtBothDeliversShareAQueueWithoutABackstop(t *testing.T) {
	t.Parallel()
	c, queue := wakeful(t), cell.FreshQueue()
	const polls, messages = 6, 120
	got := make(chan string, messages)
	ctx, stop := context.WithCancel(t.Context())
	var consumers sync.WaitGroup
	for n := range polls {
		consumers.Go(func() {
			at := c.At(t, c.Deliver[n%2])
			for ctx.Err() == nil {
				batch, err := at.Pop(ctx, client.PopRequest{Queue: queue, Group: "g", Mode: "all", Wait: time.Minute})
				if err != nil {
					if ctx.Err() == nil {
						t.Errorf("pop: %v", err)
					}
					return
				}
				for _, id := range cell.Transactions(batch) {
					got <- id
				}
				c.AckAll(t, "g", batch)
			}
		})
	}
	c.AwaitParked(t, polls)
	for i := range messages {
		c.Push(t, client.Item{Queue: queue, Partition: fmt.Sprint("p", i%40), TransactionID: fmt.Sprint(i), Payload: []byte("1")})
		if id := <-got; id != fmt.Sprint(i) {
			t.Fatalf("message %d: %s was delivered", i, id)
		}
	}
	c.AwaitParked(t, polls)
	took, vain := 0.0, 0.0
	for _, deliver := range c.Deliver {
		for verdict, n := range claims(t, c, deliver) {
			if verdict == "took" {
				took += n
			} else {
				vain += n
			}
		}
	}
	t.Logf("%v claims took something, %v nothing: %v %v", took, vain, claims(t, c, c.Deliver[0]), claims(t, c, c.Deliver[1]))
	if took != messages {
		t.Errorf("%v claims took something, for %d messages", took, messages)
	}
	stop()
	consumers.Wait()
}

// claims is what a deliver's claims found so far, by verdict.
func claims(t *testing.T, c *cell.Cell, deliver string) map[string]float64 {
	t.Helper()
	status, text := c.Do(t, deliver, "GET", "/metrics/prometheus", "")
	if status != 200 {
		t.Fatalf("metrics: %d", status)
	}
	counts := map[string]float64{}
	for _, m := range regexp.MustCompile(`(?m)^queen_claims_total\{verdict="(\w+)"\} (\S+)$`).FindAllSubmatch(text, -1) {
		n, err := strconv.ParseFloat(string(m[2]), 64)
		if err != nil {
			t.Fatal(err)
		}
		counts[string(m[1])] = n
	}
	return counts
}
