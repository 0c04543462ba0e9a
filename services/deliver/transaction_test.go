package main

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"queen.internal/pkg/queue"
)

// transacted is the answer to a transaction.
type transacted struct {
	TransactionID string
	Success       bool
	Error         string
	Reason        string
	FailedIndex   *int
	Duplicates    []struct {
		Index                    int
		TransactionID, MessageID string
	}
	Results []operationResult
	raw     string
}

type operationResult struct {
	Index                           int
	Type                            string
	Success                         bool
	TransactionID, MessageID, Error string
	QueueName                       string
	DLQ, Duplicate                  bool
}

type operation map[string]any

// acking is the ack of a message in a transaction, as SDKs write it: its lease goes to requiredLeases.
func (m message) acking(status string) operation {
	return operation{
		"type": "ack", "transactionId": m.TransactionID, "partitionId": m.PartitionID, "status": status, "consumerGroup": m.ConsumerGroup,
	}
}

func (p popped) acking(status string) (all []operation) {
	for _, m := range p.Messages {
		all = append(all, m.acking(status))
	}
	return all
}

func pushing(queueName, id string) operation {
	return operation{"type": "push", "items": []operation{{"queue": queueName, "payload": id, "transactionId": id}}}
}

// submit sends a transaction of these operations; leases are required ones.
func (p *process) submit(body any) (int, transacted, error) {
	text, isText := body.(string)
	if !isText {
		encoded, err := json.Marshal(body)
		if err != nil {
			return 0, transacted{}, err
		}
		text = string(encoded)
	}
	status, _, answer, err := p.do(context.Background(), http.MethodPost, "/api/v1/transaction", text)
	out := transacted{raw: string(answer)}
	if err == nil {
		err = json.Unmarshal(answer, &out)
	}
	return status, out, err
}

func (b *bundle) transact(required []string, operations ...operation) transacted {
	b.t.Helper()
	if operations == nil {
		operations = []operation{}
	}
	status, out, err := b.submit(map[string]any{"operations": operations, "requiredLeases": required})
	if err != nil || status != http.StatusOK {
		b.t.Fatalf("%d %s: %v", status, out.raw, err)
	}
	return out
}

// commit is transact that must succeed.
func (b *bundle) commit(required []string, operations ...operation) transacted {
	b.t.Helper()
	out := b.transact(required, operations...)
	if !out.Success || out.Error != "" {
		b.t.Fatal(out.raw)
	}
	for i, r := range out.Results {
		if r.Index != i || !r.Success {
			b.t.Fatal(out.raw)
		}
	}
	return out
}

// refuse is transact that must fail with this reason and change nothing that a table shows.
func (b *bundle) refuse(reason, text string, required []string, operations ...operation) transacted {
	b.t.Helper()
	before := b.state()
	out := b.transact(required, operations...)
	if out.Success || out.Reason != reason || !strings.Contains(out.Error, text) || len(out.Results) != 0 {
		b.t.Fatal(out.raw)
	}
	if diff := cmp.Diff(before, b.state()); diff != "" {
		b.t.Fatalf("a transaction that was rolled back left something: %s", diff)
	}
	return out
}

// state is everything that a transaction may change, but for queues and partitions that it creates.
func (b *bundle) state() (rows []string) {
	b.t.Helper()
	for _, table := range []string{"segments", "dedup", "cursors", "dlq", "transactions"} {
		found, err := b.database.Pool.Query(b.t.Context(), fmt.Sprintf(`SELECT '%s ' || t::text FROM queen.%s t ORDER BY 1`, table, table))
		if err != nil {
			b.t.Fatal(err)
		}
		for found.Next() {
			var row string
			if err := found.Scan(&row); err != nil {
				b.t.Fatal(err)
			}
			rows = append(rows, row)
		}
		if err := found.Err(); err != nil {
			b.t.Fatal(err)
		}
	}
	return rows
}

// stored is the transaction ids that a new reader finds in a queue.
func (b *bundle) stored(queueName string) string {
	b.t.Helper()
	got, err := b.pop(inQueue(queueName) + "?batch=1000&partitions=0&autoAck=true&subscriptionMode=all&consumerGroup=" + queue.NewID().String())
	if err != nil {
		b.t.Fatal(err)
	}
	return got.ids()
}

func (b *bundle) wantEmpty(path string) {
	b.t.Helper()
	b.mustPop(http.StatusNoContent, path)
}

func TestTransaction_AckAndPushHappenTogether(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.push("source", "p", "a")
	got := b.mustPop(http.StatusOK, "/queue/source")
	out := b.commit([]string{got.LeaseID}, got.Messages[0].acking("completed"), pushing("target", "from a"))
	target := b.mustPop(http.StatusOK, "/queue/target")
	want := fmt.Sprintf(`{"transactionId":%q,"success":true,"results":[`+
		`{"index":0,"type":"ack","success":true,"transactionId":"a","error":null,"dlq":false},`+
		`{"index":1,"type":"push","success":true,"transactionId":"from a","messageId":%q,"queueName":"target"}]}`, out.TransactionID, target.Messages[0].ID)
	if out.raw != want {
		t.Errorf("%s\nwant %s", out.raw, want)
	}
	if target.ids() != "from a" || string(target.Messages[0].Data) != `"from a"` {
		t.Error(target.Raw)
	}
	b.exec(`UPDATE queen.cursors SET lease_expires_at = clock_timestamp() WHERE lease_id IS NOT NULL`)
	b.wantEmpty("/queue/source")
}

func TestTransaction_SeveralQueuesPartitionsAndLeases(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.push("one", "p1", "a", "b", "c")
	b.push("one", "p2", "d")
	b.push("two", "p", "e")
	first := b.mustPop(http.StatusOK, "/queue/one?partitions=2&batch=10")
	second := b.mustPop(http.StatusOK, "/queue/two")
	operations := append(first.acking("completed"), second.acking("completed")...)
	operations = append(operations, pushing("three", "x"), pushing("four", "y"))
	b.commit([]string{first.LeaseID, second.LeaseID}, operations...)
	b.wantEmpty("/queue/one?partitions=2")
	b.wantEmpty("/queue/two")
	if b.stored("three") != "x" || b.stored("four") != "y" {
		t.Error("a push is missing")
	}
	var live int
	if err := b.database.Pool.QueryRow(t.Context(), `SELECT count(*) FROM queen.cursors WHERE lease_id IS NOT NULL`).Scan(&live); err != nil || live != 0 {
		t.Errorf("%d leases are left: %v", live, err)
	}
	if n := b.metric("queen_lease_registry_leases"); n != 0 {
		t.Errorf("%v leases are remembered", n)
	}
}

func TestTransaction_FiveItemsAndOneOfThemTwice(t *testing.T) {
	t.Parallel()
	b := setup(t)
	status, out, err := b.submit(`{"operations":[{"type":"push","items":[
		{"queue":"q","payload": {"n" : 12345678901234567890 },"transactionId":"1"},
		{"queue":"q","data":[1],"transactionId":"2","traceId":"6f0c2a52-1b6e-4e0e-9f63-8b6e0c5f2d10"},
		{"queue":"q","transactionId":"","traceId":"no uuid"},
		{"queue":"q","payload":null,"transactionId":"1"}]},
		{"type":"push","queue":"q","partition":null,"payload":"x","data":"y","transactionId":"3","producerSub":"mallory"}]}`)
	if err != nil || status != http.StatusOK || !out.Success || len(out.Results) != 5 {
		t.Fatal(status, out.raw, err)
	}
	got := b.mustPop(http.StatusOK, "/queue/q?batch=10")
	if diff := cmp.Diff([]string{`{"n" : 12345678901234567890 }`, `[1]`, `{}`, `"x"`}, got.data()); diff != "" {
		t.Error(diff)
	}
	for i, want := range []int{0, 1, 2, 0, 3} {
		m, r := got.Messages[want], out.Results[i]
		if r.MessageID != m.ID || r.TransactionID != m.TransactionID || r.Duplicate != (i == 3) || r.QueueName != "q" || r.Type != "push" {
			t.Errorf("result %d: %+v of %+v", i, r, m)
		}
	}
	if got.Messages[2].TransactionID != got.Messages[2].ID {
		t.Error("a message without a transaction id has another one than its own")
	}
	if trace := got.Messages[1].TraceID; trace == nil || *trace != "6f0c2a52-1b6e-4e0e-9f63-8b6e0c5f2d10" || got.Messages[2].TraceID != nil {
		t.Error(got.Raw)
	}
	if got.Messages[3].ProducerSub != nil || got.Messages[3].Partition != "Default" {
		t.Error(got.Raw)
	}
}

func TestTransaction_IsRolledBackWhole(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.push("source", "p", "a", "b")
	b.push("target", "Default", "there")
	got := b.mustPop(http.StatusOK, "/queue/source?batch=10")
	a := got.Messages[0]
	required := []string{got.LeaseID}
	foreign := queue.NewID().String()

	out := b.refuse("duplicate", "QDUP duplicate", required, a.acking("completed"), pushing("other", "new"), pushing("target", "fresh"), pushing("target", "there"))
	if len(out.Duplicates) != 1 || out.Duplicates[0].Index != 3 || *out.FailedIndex != 3 || out.Duplicates[0].TransactionID != "there" {
		t.Error(out.raw)
	}
	if there := b.mustPop(http.StatusOK, "/queue/target?autoAck=true&subscriptionMode=all&consumerGroup=look"); there.Messages[0].ID != out.Duplicates[0].MessageID {
		t.Error(out.raw)
	}

	unknown := a.acking("completed")
	unknown["transactionId"] = "never pushed"
	out = b.refuse("ack_rejected", "QTXN ack references unknown transactionId; transaction rolled back", required, pushing("target", "x"), a.acking("completed"), unknown)
	if *out.FailedIndex != 2 {
		t.Error(out.raw)
	}
	stale := a.acking("completed")
	stale["leaseId"] = foreign
	b.refuse("ack_rejected", "QTXN ack rejected: invalid or expired lease", nil, pushing("target", "x"), stale)
	stale["leaseId"] = "no uuid"
	b.refuse("ack_rejected", "invalid or expired lease", nil, pushing("target", "x"), stale)
	b.refuse("ack_rejected", "invalid or expired lease", []string{foreign}, pushing("target", "x"), a.acking("completed"))
	nobody := a.acking("completed")
	nobody["consumerGroup"] = "nobody"
	b.refuse("ack_rejected", "QTXN ack rejected: consumer not found", required, pushing("target", "x"), nobody)
	nowhere := a.acking("completed")
	nowhere["partitionId"] = foreign
	b.refuse("ack_rejected", "consumer not found", required, pushing("target", "x"), nowhere)
	nowhere["partitionId"] = "p"
	b.refuse("ack_rejected", "is not a UUID", required, pushing("target", "x"), nowhere)

	b.exec(`UPDATE queen.cursors SET lease_expires_at = clock_timestamp() WHERE lease_id IS NOT NULL`)
	b.refuse("ack_rejected", "invalid or expired lease", required, pushing("target", "x"), a.acking("completed"))
	// Nothing of it stands in the way of the next attempt.
	again := b.mustPop(http.StatusOK, "/queue/source?batch=10")
	b.commit([]string{again.LeaseID}, again.Messages[0].acking("completed"), again.Messages[1].acking("completed"), pushing("target", "x"))
	if b.stored("target") != "there x" {
		t.Error(b.stored("target"))
	}
}
