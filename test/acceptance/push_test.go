package acceptance

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"sync"

	"queen.internal/pkg/client"
	"queen.internal/test/internal/cell"
)

var pushLines = []entry{
	{6, "one item gives one result", oneItemOneResult},
	{7, "results are in the order of the items", resultsInOrder},
	{8, "a repeated transaction id is a duplicate", repeatedTransaction},
	{9, "another partition is another scope", anotherPartitionIsAnotherScope},
	{10, "deduplication on an explicit partition", deduplicationOnAnExplicitPartition},
	{11, "three items of one key in one request", threeItemsOfOneKey},
	{12, "two items with the key of a stored message", twoItemsOfAStoredKey},
	{13, "eight concurrent pushes of one key", eightConcurrentPushes},
	{14, "a hundred items without transaction id", itemsWithoutTransaction},
	{15, "no items", noItems},
	{16, "malformed trace id", malformedTraceID},
	{17, "payloads survive", payloadsSurvive},
	{18, "push creates queue and partition", pushCreates},
	{19, "each item goes to its own partition", eachItemsOwnPartition},
}

func oneItemOneResult(l *line) {
	queue := cell.FreshQueue()
	var results []map[string]any
	l.post("/api/v1/push", fmt.Sprintf(`{"items":[{"queue":%q,"payload":{"n":1}}]}`, queue), http.StatusCreated, &results)
	if len(results) != 1 {
		l.Fatalf("%v", results)
	}
	for _, id := range []string{"message_id", "transaction_id"} {
		if text, _ := results[0][id].(string); text == "" {
			l.Errorf("%s is %v", id, results[0][id])
		}
		delete(results[0], id)
	}
	l.same("the rest", map[string]any{"index": 0.0, "queueName": queue, "status": "queued"}, results[0])
}

func resultsInOrder(l *line) {
	first, second := cell.FreshQueue(), cell.FreshQueue()
	// Items of several queues and partitions, interleaved: groups are stored apart and answered together.
	var items []client.Item
	for i, id := range numbers(0, 20) {
		items = append(items, client.Item{Queue: []string{first, second}[i%2], Partition: fmt.Sprint(i % 3), TransactionID: id, Payload: json.RawMessage(id)})
	}
	for i, r := range l.store(items...) {
		l.same("result", []any{i, items[i].TransactionID, items[i].Queue}, []any{r.Index, r.TransactionID, r.Queue})
	}
}

func repeatedTransaction(l *line) {
	item := client.Item{Queue: cell.FreshQueue(), TransactionID: "k", Payload: json.RawMessage(`1`)}
	id := l.store(item)[0].MessageID
	for range 3 {
		l.duplicates(id, l.push(item))
	}
	l.delivers(l.pop(client.PopRequest{Queue: item.Queue}), "k")
}

// duplicates wants every result to be a duplicate of the message.
func (l *line) duplicates(id string, results []client.PushResult) {
	l.Helper()
	for _, r := range results {
		if r.Status != client.Duplicate || r.MessageID != id {
			l.Errorf("%+v, want a duplicate of %s", r, id)
		}
	}
}

func anotherPartitionIsAnotherScope(l *line) {
	queue := cell.FreshQueue()
	item := client.Item{Queue: queue, TransactionID: "k", Payload: json.RawMessage(`1`)}
	other := item
	other.Partition = "other"
	if a, b := l.store(item)[0], l.store(other)[0]; a.MessageID == b.MessageID {
		l.Errorf("%+v and %+v", a, b)
	}
	l.delivers(l.pop(client.PopRequest{Queue: queue, Partitions: 5}), "k", "k")
}

func deduplicationOnAnExplicitPartition(l *line) {
	item := client.Item{Queue: cell.FreshQueue(), Partition: "cust-7", TransactionID: "k", Payload: json.RawMessage(`1`)}
	l.duplicates(l.store(item)[0].MessageID, l.push(item))
	l.delivers(l.pop(client.PopRequest{Queue: item.Queue, Partition: &item.Partition}), "k")
}

func threeItemsOfOneKey(l *line) {
	item := client.Item{Queue: cell.FreshQueue(), TransactionID: "k", Payload: json.RawMessage(`1`)}
	results := l.push(item, item, item)
	if results[0].Status != client.Queued {
		l.Errorf("%+v", results[0])
	}
	l.duplicates(results[0].MessageID, results[1:])
	l.delivers(l.pop(client.PopRequest{Queue: item.Queue}), "k")
}

func twoItemsOfAStoredKey(l *line) {
	item := client.Item{Queue: cell.FreshQueue(), TransactionID: "k", Payload: json.RawMessage(`1`)}
	id := l.store(item)[0].MessageID
	fresh := item
	fresh.TransactionID = "fresh"
	results := l.push(item, fresh, item)
	l.duplicates(id, []client.PushResult{results[0], results[2]})
	l.same("the item between them", client.Queued, results[1].Status)
	l.delivers(l.pop(client.PopRequest{Queue: item.Queue}), "k", "fresh")
}

func eightConcurrentPushes(l *line) {
	item := client.Item{Queue: cell.FreshQueue(), TransactionID: "k", Payload: json.RawMessage(`1`)}
	var mu sync.Mutex
	statuses, ids := map[client.Status]int{}, map[string]int{}
	var pushing sync.WaitGroup
	for range 8 {
		pushing.Go(func() {
			results := l.push(item)
			mu.Lock()
			defer mu.Unlock()
			statuses[results[0].Status]++
			ids[results[0].MessageID]++
		})
	}
	pushing.Wait()
	l.same("statuses", map[client.Status]int{client.Queued: 1, client.Duplicate: 7}, statuses)
	if len(ids) != 1 {
		l.Errorf("ids %v", ids)
	}
	l.delivers(l.pop(client.PopRequest{Queue: item.Queue}), "k")
}

func itemsWithoutTransaction(l *line) {
	queue := cell.FreshQueue()
	items := make([]client.Item, 100)
	for i := range items {
		items[i] = client.Item{Queue: queue, Payload: json.RawMessage(`"the same"`)}
	}
	ids := map[string]bool{}
	for _, r := range l.store(items...) {
		ids[r.MessageID] = true
		l.same("transaction id", r.MessageID, r.TransactionID)
	}
	l.same("distinct ids", 100, len(ids))
}

func noItems(l *line) {
	status, answer := l.send(http.MethodPost, "/api/v1/push", `{"items":[]}`)
	l.same("answer", []any{http.StatusCreated, "[]"}, []any{status, answer})
}

func malformedTraceID(l *line) {
	queue := cell.FreshQueue()
	for i, trace := range []string{`"no uuid"`, `""`, `7`, `{"a":[]}`, `null`, `"01990a10-7c1e-7b60-9f10-2f6c0a4b8d11"`} {
		var results []client.PushResult
		l.post("/api/v1/push", fmt.Sprintf(`{"items":[{"queue":%q,"payload":%d,"traceId":%s}]}`, queue, i, trace), http.StatusCreated, &results)
		if len(results) != 1 || results[0].Status != client.Queued {
			l.Errorf("trace id %s: %+v", trace, results)
		}
	}
	batch := l.pop(client.PopRequest{Queue: queue})
	l.same("messages", 6, len(batch.Messages))
	for _, m := range batch.Messages {
		if m.TraceID != nil {
			l.Errorf("trace id %s", *m.TraceID)
		}
	}
}

func payloadsSurvive(l *line) {
	object := `{"id":%d,"name":"object %d","nested":{"tags":["a","b",null],"deep":{"value":%d.50,"text":"` + strings.Repeat("long text ", 10) + `"}}}`
	objects := make([]string, 10_000)
	for i := range objects {
		objects[i] = fmt.Sprintf(object, i, i, i)
	}
	large := "[" + strings.Join(objects, ",") + "]"
	if len(large) < 2<<20*9/10 {
		l.Fatalf("%d bytes are no large payload", len(large))
	}
	for _, payload := range []string{`null`, `{}`, large} {
		queue := cell.FreshQueue()
		l.store(client.Item{Queue: queue, Payload: json.RawMessage(payload)})
		batch := l.pop(client.PopRequest{Queue: queue})
		if len(batch.Messages) != 1 || string(batch.Messages[0].Data) != payload {
			l.Errorf("pushed %.100s, popped %d messages", payload, len(batch.Messages))
		}
	}
}

func pushCreates(l *line) {
	queue, partition := cell.FreshQueue(), "never seen"
	l.store(numbered(queue, partition, 0, 1)...)
	batch := l.pop(client.PopRequest{Queue: queue})
	l.delivers(batch, "0")
	l.same("partition", partition, batch.Messages[0].Partition)
}

func eachItemsOwnPartition(l *line) {
	queue := cell.FreshQueue()
	want := map[string]string{"to a": "a", "to b": "b", "to none": "Default", "to null": "Default", "to Default": "Default"}
	var results []client.PushResult
	l.post("/api/v1/push", fmt.Sprintf(`{"items":[{"queue":%[1]q,"partition":"a","transactionId":"to a","payload":1},
		{"queue":%[1]q,"partition":"b","transactionId":"to b","payload":1},{"queue":%[1]q,"transactionId":"to none","payload":1},
		{"queue":%[1]q,"partition":null,"transactionId":"to null","payload":1},
		{"queue":%[1]q,"partition":"Default","transactionId":"to Default","payload":1}]}`, queue), http.StatusCreated, &results)
	got := map[string]string{}
	for _, m := range l.pop(client.PopRequest{Queue: queue, Partitions: 10}).Messages {
		got[m.TransactionID] = m.Partition
	}
	l.same("partitions", want, got)
}
