package e2e

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"queen.internal/pkg/client"
	"queen.internal/pkg/testkit"
	"queen.internal/test/internal/cell"
)

const appendCall = "queen.append("

// read is every transaction id of the queue's default partition, in order, for a group that nobody else uses.
func readAll(t *testing.T, c *cell.Cell, queue string) (all []string) {
	t.Helper()
	for {
		batch := c.Pop(t, client.PopRequest{Queue: queue, Group: "reader", Mode: "all", Batch: 1000})
		if len(batch.Messages) == 0 {
			return all
		}
		all = append(all, cell.Transactions(batch)...)
		c.AckAll(t, "reader", batch)
	}
}

func one(queue, transaction string) []client.Item {
	return []client.Item{{Queue: queue, TransactionID: transaction, Payload: json.RawMessage(`1`)}}
}

// pushAt pushes one message at an address and wants this status.
func pushAt(t *testing.T, c *cell.Cell, address, queue, transaction string, want client.Status) {
	t.Helper()
	results, err := c.At(t, address).Push(t.Context(), one(queue, transaction))
	if err != nil || results[0].Status != want {
		t.Errorf("push %s: %+v, %v", transaction, results, err)
	}
}

// The answer of the commit gets lost between PostgreSQL and ingest: the producer sees nothing of it. When that happens
// twice the push is spooled, and found when it is replayed.
func TestRule9PushesWhoseCommitWasNotConfirmedAreStoredOnce(t *testing.T) {
	t.Parallel()
	c, queue := shared(t), cell.FreshQueue()
	ingest := startSingle(t, "ingest")
	pushAt(t, c, ingest.url, queue, "before", client.Queued)
	ingest.proxy.Next(testkit.DropAnswer, appendCall)
	pushAt(t, c, ingest.url, queue, "once", client.Queued)

	ingest.proxy.Next(testkit.DropAnswer, appendCall)
	ingest.proxy.Nth(2, testkit.DropAnswer, appendCall)
	pushAt(t, c, ingest.url, queue, "twice", client.Buffered)
	pushAt(t, c, c.Ingest[0], queue, "twice", client.Duplicate)
	cell.Eventually(t, func() bool { return buffersOf(t, c, ingest.url).Pending == 0 })
	if diff := cmp.Diff([]string{"before", "once", "twice"}, readAll(t, c, queue)); diff != "" {
		t.Error(diff)
	}
}

func TestRule9APopWhoseClaimWasNotConfirmedIsDeliveredAfterItsLease(t *testing.T) {
	t.Parallel()
	c, queue := shared(t), cell.FreshQueue()
	deliver := startSingle(t, "deliver")
	c.PushNumbered(t, queue, 3)
	request := client.PopRequest{Queue: queue, Group: "g", Mode: "all", Lease: 2 * time.Second}
	lost := deliver.proxy.Next(testkit.DropAnswer, "queen.claim(")
	if batch, err := c.At(t, deliver.url).Pop(t.Context(), request); err == nil {
		t.Errorf("%+v", batch)
	}
	if a := lost.Answer(t); a.SQLState != "" || a.Status != 'I' {
		t.Fatalf("%+v", a)
	}
	if batch := c.Pop(t, request); len(batch.Messages) != 0 {
		t.Errorf("delivered while the lost lease lives: %+v", batch)
	}
	request.Wait = 20 * time.Second
	batch := c.Pop(t, request)
	if diff := cmp.Diff([]string{"0", "1", "2"}, cell.Transactions(batch)); diff != "" || batch.Messages[0].DeliveryAttempt != 2 {
		t.Errorf("%+v", batch)
	}
}

func TestRule9AnAckThatWasNotConfirmedIsANoopWhenItIsRepeated(t *testing.T) {
	t.Parallel()
	c, queue := shared(t), cell.FreshQueue()
	deliver := startSingle(t, "deliver")
	c.PushNumbered(t, queue, 2)
	batch := c.Pop(t, client.PopRequest{Queue: queue, Group: "g", Mode: "all", Lease: time.Minute})
	lost := deliver.proxy.Next(testkit.DropAnswer, "queen.ack(")
	result, err := c.At(t, deliver.url).Ack(t.Context(), "g", client.AckOf(batch.Messages[1], client.Completed)) // repeats it
	if err != nil || !result.Success || !result.Noop {
		t.Errorf("%+v, %v", result, err)
	}
	if a := lost.Answer(t); a.SQLState != "" || a.Status != 'I' {
		t.Errorf("%+v", a)
	}
	if empty := c.Pop(t, client.PopRequest{Queue: queue, Group: "g"}); len(empty.Messages) != 0 {
		t.Errorf("%+v", empty)
	}
}

// A process that freezes, at whatever moment, holds nothing that others need.
func TestRule8AFrozenIngestHoldsNobodyUp(t *testing.T) {
	t.Parallel()
	c, queue := shared(t), cell.FreshQueue()
	ingest, other := startSingle(t, "ingest"), c.Ingest[0]
	pushAt(t, c, ingest.url, queue, "1", client.Queued)

	// Idle.
	ingest.freeze(t)
	pushAt(t, c, other, queue, "2", client.Queued)
	ingest.signal(t, syscall.SIGCONT)
	pushAt(t, c, ingest.url, queue, "3", client.Queued)

	// Its statement is done, its answer is on the way.
	answer := ingest.proxy.Next(testkit.HoldAnswer, appendCall)
	pushed := make(chan struct{})
	go func() {
		defer close(pushed)
		pushAt(t, c, ingest.url, queue, "4", client.Queued)
	}()
	answer.Await(t)
	ingest.freeze(t)
	answer.Release()
	pushAt(t, c, other, queue, "5", client.Queued)
	ingest.signal(t, syscall.SIGCONT)
	<-pushed

	// Its statement runs on the server, where it waits for a lock.
	db := direct(t)
	lock, err := db.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := lock.Exec(t.Context(), `SELECT FROM queen.partitions p JOIN queen.queues q ON q.id = p.queue_id WHERE q.name = $1
		FOR NO KEY UPDATE OF p`, queue); err != nil {
		t.Fatal(err)
	}
	pushed = make(chan struct{})
	go func() {
		defer close(pushed)
		pushAt(t, c, ingest.url, queue, "6", client.Queued)
	}()
	watch := direct(t)
	cell.Eventually(t, func() bool {
		var waits bool
		if err := watch.QueryRow(t.Context(), `SELECT EXISTS (SELECT FROM pg_stat_activity WHERE $1 = ANY (pg_blocking_pids(pid)))`,
			db.PgConn().PID()).Scan(&waits); err != nil {
			t.Fatal(err)
		}
		return waits
	})
	ingest.freeze(t)
	if err := lock.Rollback(t.Context()); err != nil {
		t.Fatal(err)
	}
	pushAt(t, c, other, queue, "7", client.Queued)
	ingest.signal(t, syscall.SIGCONT)
	<-pushed
	got := readAll(t, c, queue)
	if len(got) == 7 {
		slices.Sort(got[5:]) // both were under way: who waits for a row may be overtaken when it comes free
	}
	if diff := cmp.Diff([]string{"1", "2", "3", "4", "5", "6", "7"}, got); diff != "" {
		t.Error(diff)
	}
}

// Locks are held by transactions of one server call: at no moment does a session of a service sit in an open one.
func TestRule8NoServiceLeavesATransactionOpen(t *testing.T) {
	t.Parallel()
	c, queue := shared(t), cell.FreshQueue()
	watch := direct(t)
	sample := func() (open, active int) {
		// The server's own pace, and a little of it: about a thousand looks.
		err := watch.QueryRow(t.Context(), `SELECT count(*) FILTER (WHERE state LIKE 'idle in transaction%'), count(*) FILTER (WHERE state = 'active')
			FROM pg_stat_activity, pg_sleep(0.001) WHERE usename = 'queen'`).Scan(&open, &active)
		if err != nil {
			t.Fatal(err)
		}
		return open, active
	}
	// Such a session would be seen.
	dsn, err := url.Parse(c.Stack.DSN())
	if err != nil {
		t.Fatal(err)
	}
	password, _ := dsn.User.Password()
	dsn.User = url.UserPassword("queen", password)
	tx, err := connectTo(t, dsn.String()).Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if open, _ := sample(); open == 0 {
		t.Error("an open transaction is not seen")
	}
	if err := tx.Rollback(t.Context()); err != nil {
		t.Fatal(err)
	}

	var over atomic.Bool
	var load sync.WaitGroup
	for w := range 4 {
		target := c.Client(t)
		load.Go(func() {
			for n := 0; !over.Load(); n++ {
				var items []client.Item
				for p := range 8 {
					items = append(items, client.Item{Queue: queue, Partition: fmt.Sprint(p), TransactionID: fmt.Sprint(w, n), Payload: json.RawMessage(`1`)})
				}
				if _, err := target.Push(t.Context(), items); err != nil {
					t.Error(err)
				}
				batch, err := target.Pop(t.Context(), client.PopRequest{Queue: queue, Group: fmt.Sprint("g", w%2), Mode: "all", Batch: 50, Partitions: 4})
				if err != nil {
					t.Error(err)
				}
				var acks []client.Acknowledgment
				for _, m := range batch.Messages {
					acks = append(acks, client.AckOf(m, []string{client.Completed, client.Retry}[n%2]))
				}
				if len(acks) > 0 {
					if _, err := target.AckBatch(t.Context(), fmt.Sprint("g", w%2), acks); err != nil {
						t.Error(err)
					}
				}
			}
		})
	}
	busy := 0
	for range 1000 {
		open, active := sample()
		busy += active
		if open > 0 {
			t.Errorf("%d sessions are idle in a transaction", open)
			break
		}
	}
	over.Store(true)
	load.Wait()
	if busy == 0 {
		t.Error("no session was ever seen at work")
	}
}

// goroutines is how many the process says it has.
func goroutines(t *testing.T, c *cell.Cell, address string) int {
	t.Helper()
	_, body := c.Do(t, address, http.MethodGet, "/metrics/prometheus", "")
	found := regexp.MustCompile(`(?m)^go_goroutines (\d+)`).FindSubmatch(body)
	if found == nil {
		t.Fatalf("no go_goroutines in the metrics of %s", address)
	}
	n, err := strconv.Atoi(string(found[1]))
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// The way to the database hangs and stays open. Waiting for a connection and for the call takes 6 s at most; what queues up
// behind such a call goes to the spool at once.
func TestPushesAreBufferedInTimeWhileTheDatabaseHangs(t *testing.T) {
	t.Parallel()
	c, queue := shared(t), cell.FreshQueue()
	ingest := startSingle(t, "ingest")
	pushAt(t, c, ingest.url, queue, "before", client.Queued)
	before := goroutines(t, c, ingest.url)
	ingest.proxy.Stall()

	web := &http.Client{Timeout: 15 * time.Second, Transport: &http.Transport{DisableKeepAlives: true}}
	push := func(transaction string) (status, answer string, err error) {
		resp, err := web.Post(ingest.url+"/api/v1/push", "application/json",
			bytes.NewReader(fmt.Appendf(nil, `{"items":[{"queue":%q,"transactionId":%q,"payload":1}]}`, queue, transaction)))
		if err != nil {
			return "", "", err
		}
		defer hangUp(t, resp.Body)
		text, err := io.ReadAll(resp.Body)
		return resp.Status, string(text), err
	}
	var waiting sync.WaitGroup
	for i := range 20 {
		waiting.Go(func() {
			began := time.Now()
			if status, answer, err := push(fmt.Sprint(i)); !strings.Contains(answer, `"status":"buffered"`) || err != nil {
				t.Errorf("push %d after %v: %s %s, %v", i, time.Since(began), status, answer, err)
			}
		})
	}
	waiting.Wait()
	if status, body := c.Do(t, ingest.url, http.MethodGet, "/livez", ""); status != http.StatusOK {
		t.Errorf("livez while the database hangs: %d %s", status, body)
	}
	ingest.proxy.Resume()
	if status, answer, err := push("after"); !strings.HasPrefix(status, "201 ") || err != nil {
		t.Errorf("push after: %s %s, %v", status, answer, err)
	}
	cell.Eventually(t, func() bool { return buffersOf(t, c, ingest.url).Pending == 0 })
	cell.Eventually(t, func() bool { return goroutines(t, c, ingest.url) <= before+10 })

	counts := map[string]int{}
	for _, transaction := range readAll(t, c, queue) {
		if counts[transaction]++; counts[transaction] > 1 {
			t.Errorf("%s is stored twice", transaction)
		}
	}
	if len(counts) != 22 {
		t.Errorf("what was answered is not stored: %v", counts)
	}
}
