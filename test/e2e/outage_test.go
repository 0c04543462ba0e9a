package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"queen.internal/compose/local"
	"queen.internal/pkg/client"
	"queen.internal/test/internal/cell"
)

func TestKilledServicesLoseNothingThatWasAcknowledged(t *testing.T) {
	t.Parallel()
	c := world.Own(t, local.Options{Ingest: 2, Deliver: 2})
	queue := cell.FreshQueue()
	const producers, partitions = 3, 4

	load, stopLoad := context.WithCancel(t.Context())
	defer stopLoad()
	acknowledged := make([][partitions]int, producers) // messages of a producer whose push was answered
	var producing sync.WaitGroup
	for p := range producers {
		target := c.Client(t)
		producing.Go(func() {
			for n := 0; load.Err() == nil; n++ {
				partition := n % partitions
				number := acknowledged[p][partition]
				item := client.Item{
					Queue: queue, Partition: fmt.Sprint("p", partition), TransactionID: fmt.Sprintf("%d-%d-%d", p, partition, number),
					Payload: fmt.Appendf(nil, `{"producer":%d,"number":%d}`, p, number),
				}
				// The same message until it is answered: deduplication makes that safe.
				for {
					results, err := target.Push(t.Context(), []client.Item{item})
					if err == nil && (results[0].Status == client.Queued || results[0].Status == client.Duplicate) {
						acknowledged[p][partition]++
						break
					}
					if t.Context().Err() != nil {
						return
					}
				}
			}
		})
	}

	l := &ledger{delivered: map[string][]numbered{}}
	consume, stopConsuming := context.WithCancel(t.Context())
	defer stopConsuming()
	var consuming sync.WaitGroup
	for range 3 {
		target := c.Client(t)
		consuming.Go(func() {
			for consume.Err() == nil {
				batch, err := target.Pop(consume, client.PopRequest{Queue: queue, Group: "g", Mode: "all", Batch: 20, Lease: 2 * time.Second, Wait: 500 * time.Millisecond})
				if err != nil || len(batch.Messages) == 0 {
					continue
				}
				var acks []client.Acknowledgment
				for _, m := range batch.Messages {
					acks = append(acks, client.AckOf(m, client.Completed))
				}
				if results, err := target.AckBatch(consume, "g", acks); err == nil && results[len(results)-1].Success {
					l.add(t, batch.Messages)
				}
			}
		})
	}

	for round := range 3 {
		for _, service := range []string{local.Ingest, local.Deliver} {
			progress := l.has()
			if err := c.Stack.Kill(service, 1+round%2); err != nil {
				t.Fatal(err)
			}
			cell.Eventually(t, func() bool { return l.has() > progress })
			if err := c.Stack.Restart(t.Context(), service, 1+round%2); err != nil {
				t.Fatal(err)
			}
		}
		progress := l.has()
		if err := c.Stack.KillDatabase(); err != nil {
			t.Fatal(err)
		}
		if err := c.Stack.StartDatabase(t.Context()); err != nil {
			t.Fatal(err)
		}
		cell.Eventually(t, func() bool { return l.has() > progress })
	}
	stopLoad()
	producing.Wait()

	want := 0
	for p := range acknowledged {
		for _, n := range acknowledged[p] {
			want += n
		}
	}
	// An ack whose answer was lost is not in the ledger although it counted, so what is left is asked of the cursor.
	cell.Eventually(t, func() bool {
		batch, err := c.Client(t).Pop(t.Context(), client.PopRequest{Queue: queue, Group: "g", Batch: 1})
		if err != nil || len(batch.Messages) > 0 {
			return false
		}
		return len(c.Pop(t, client.PopRequest{Queue: queue, Group: "g", Wait: 3 * time.Second}).Messages) == 0
	})
	stopConsuming()
	consuming.Wait()

	// A second group reads everything that is stored: each acknowledged message once, in its producer's order.
	stored := &ledger{delivered: map[string][]numbered{}}
	for {
		batch := c.Pop(t, client.PopRequest{Queue: queue, Group: "audit", Mode: "all", Batch: 1000, Partitions: partitions})
		if len(batch.Messages) == 0 {
			break
		}
		stored.add(t, batch.Messages)
		c.AckAll(t, "audit", batch)
	}
	if stored.has() != want {
		t.Errorf("%d messages stored, %d acknowledged", stored.has(), want)
	}
	for partition, messages := range stored.delivered {
		var next [producers]int
		for _, m := range messages {
			if m.Number != next[m.Producer] {
				t.Fatalf("%s: producer %d's message %d, want %d", partition, m.Producer, m.Number, next[m.Producer])
			}
			next[m.Producer]++
		}
	}
	if l.has() > want {
		t.Errorf("%d messages acked of %d", l.has(), want)
	}
}

func TestServicesWaitForADatabaseThatIsDown(t *testing.T) {
	t.Parallel()
	c := world.Own(t, local.Options{})
	if err := c.Stack.StopDatabase(t.Context()); err != nil {
		t.Fatal(err)
	}
	for _, service := range []string{local.Ingest, local.Deliver, local.Maintainer, local.Console} {
		if err := c.Stack.Kill(service, 1); err != nil {
			t.Fatal(err)
		}
		if err := c.Stack.Launch(service, 1); err != nil {
			t.Fatal(err)
		}
	}
	// They are up, say why they cannot serve, and are told apart from dead ones.
	for _, address := range append(c.Rest, c.Ingest[0], c.Deliver[0]) {
		cell.Eventually(t, func() bool {
			resp, err := http.Get(address + "/livez")
			if err != nil {
				return false
			}
			return resp.Body.Close() == nil && resp.StatusCode == http.StatusOK
		})
		status, body := c.Do(t, address, "GET", "/health", "")
		if status != 503 || !strings.HasPrefix(string(body), `{"status":"unhealthy","database":"disconnected","engine":"segments-go","version":"`) {
			t.Errorf("%s: %d %s", address, status, body)
		}
		want := 503
		if address == c.Ingest[0] {
			want = 200 // it does what it is asked: it spools
		}
		if status, body = c.Do(t, address, "GET", "/readyz", ""); status != want || !json.Valid(body) || strings.Contains(string(body), "127.0.0.1") {
			t.Errorf("%s: %d %s", address, status, body)
		}
	}
	for _, address := range []string{c.Ingest[0], c.Edge} {
		status, body := c.Do(t, address, "POST", "/api/v1/push", `{"items":[{"queue":"q","payload":1}]}`)
		if status != 201 || !strings.Contains(string(body), `"status":"buffered"`) {
			t.Errorf("push: %d %s", status, body)
		}
		if status, body = c.Do(t, c.Deliver[0], "GET", "/api/v1/pop/queue/q", ""); status != 503 || !strings.Contains(string(body), `"error"`) {
			t.Errorf("pop: %d %s", status, body)
		}
	}
	if err := c.Stack.StartDatabase(t.Context()); err != nil {
		t.Fatal(err)
	}
	cell.Eventually(t, func() bool {
		status, _ := c.Do(t, c.Edge, "GET", "/health", "")
		return status == 200
	})
	awaitDrained(t, c, 1)
	c.PushNumbered(t, "q", 1)
	if batch := c.Pop(t, client.PopRequest{Queue: "q"}); len(batch.Messages) != 3 { // with those that were buffered
		t.Errorf("%+v", batch)
	}
}

func TestStoppingDeliverAnswersParkedPollsAtOnce(t *testing.T) {
	t.Parallel()
	c := world.Own(t, local.Options{})
	const polls = 5
	answers := make(chan int, polls)
	for range polls {
		go func() {
			resp, err := http.Get(c.Deliver[0] + "/api/v1/pop/queue/quiet?wait=true&timeout=60000")
			if err != nil {
				t.Error(err)
				answers <- 0
				return
			}
			answers <- resp.StatusCode
			if err := resp.Body.Close(); err != nil {
				t.Error(err)
			}
		}()
	}
	c.AwaitParked(t, polls)
	if err := c.Stack.Terminate(t.Context(), local.Deliver, 1); err != nil {
		t.Fatal(err)
	}
	for range polls {
		if status := <-answers; status != http.StatusNoContent {
			t.Errorf("a parked poll got %d", status)
		}
	}
}
