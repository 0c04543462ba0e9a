package acceptance

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"

	"queen.internal/pkg/client"
	"queen.internal/test/internal/cell"
)

var transactionLines = []entry{
	{81, "an ack and a push", ackAndPush},
	{82, "pushes to several queues and an ack", pushesToSeveralQueues},
	{83, "acks of one batch, two partitions, two queues", acksOfSeveralPlaces},
	{84, "a failed ack in a transaction", failedAckInATransaction},
	{85, "a push of five in a transaction", pushOfFive},
	{86, "one unknown id fails the whole transaction", oneUnknownIDFailsAll},
	{87, "a pipeline of three stages", pipelineOfThreeStages},
	{88, "a transactional consumer", transactionalConsumer},
	{89, "acks of a group in a transaction", acksOfAGroup},
	{90, "retry and dlq in transactions", retryAndDLQInTransactions},
	{91, "a large payload through a transaction", largePayloadThroughATransaction},
	{92, "an empty transaction does nothing", emptyTransaction},
}

// bundle is a transaction as the clients' builders make it: the leases of what is acknowledged stand beside the operations.
type bundle struct {
	Operations []any    `json:"operations"`
	Leases     []string `json:"requiredLeases"`
}

// ack adds acknowledgments of a group.
func (b *bundle) ack(group, status string, messages ...client.Message) *bundle {
	for _, m := range messages {
		operation := map[string]any{"type": "ack", "transactionId": m.TransactionID, "partitionId": m.PartitionID, "status": status}
		if group != "" {
			operation["consumerGroup"] = group
		}
		b.Operations = append(b.Operations, operation)
		b.Leases = append(b.Leases, m.LeaseID)
	}
	return b
}

// push adds one operation that pushes payloads to a queue.
func (b *bundle) push(queue string, payloads ...string) *bundle {
	var items []any
	for _, payload := range payloads {
		items = append(items, map[string]any{"queue": queue, "payload": json.RawMessage(payload)})
	}
	b.Operations = append(b.Operations, map[string]any{"type": "push", "items": items})
	return b
}

// transacted is the answer to a transaction.
type transacted struct {
	ID      string `json:"transactionId"`
	Success bool   `json:"success"`
	Error   string `json:"error"`
	Results []struct {
		Index        int     `json:"index"`
		Type         string  `json:"type"`
		Success      bool    `json:"success"`
		Error        *string `json:"error"`
		DeadLettered bool    `json:"dlq"`
		MessageID    string  `json:"messageId"`
		Queue        string  `json:"queueName"`
	} `json:"results"`
}

// transact sends a bundle. The test fails if it is not answered with 200.
func (l *line) transact(b *bundle) (answer transacted) {
	l.Helper()
	body, err := json.Marshal(b)
	if err != nil {
		l.Fatal(err)
	}
	l.post("/api/v1/transaction", string(body), http.StatusOK, &answer)
	return answer
}

// commit is transact of what must be committed, with a result for each of n flattened operations.
func (l *line) commit(b *bundle, n int) transacted {
	l.Helper()
	answer := l.transact(b)
	if !answer.Success || answer.ID == "" || len(answer.Results) != n {
		l.Fatalf("%+v", answer)
	}
	for i, r := range answer.Results {
		if r.Index != i || !r.Success || r.Error != nil || (r.Type == "push") != (r.MessageID != "" && r.Queue != "") {
			l.Errorf("%+v", r)
		}
	}
	return answer
}

// holds wants a queue to deliver these payloads.
func (l *line) holds(queue string, payloads ...string) {
	l.Helper()
	got := []string{}
	for _, m := range l.pop(client.PopRequest{Queue: queue, Partitions: 10}).Messages {
		got = append(got, string(m.Data))
	}
	l.same("payloads", append([]string{}, payloads...), got)
}

func ackAndPush(l *line) {
	source, target := cell.FreshQueue(), cell.FreshQueue()
	l.store(numbered(source, "", 0, 1)...)
	batch := l.pop(client.PopRequest{Queue: source})
	answer := l.commit(new(bundle).ack("", client.Completed, batch.Messages...).push(target, `{"from":0}`), 2)
	l.same("types", []string{"ack", "push"}, []string{answer.Results[0].Type, answer.Results[1].Type})
	l.holds(target, `{"from":0}`)
	l.popsNothing(client.PopRequest{Queue: source})
}

func pushesToSeveralQueues(l *line) {
	source := cell.FreshQueue()
	l.store(numbered(source, "", 0, 1)...)
	b := new(bundle).ack("", client.Completed, l.pop(client.PopRequest{Queue: source}).Messages...)
	targets := []string{cell.FreshQueue(), cell.FreshQueue(), cell.FreshQueue()}
	for i, target := range targets {
		b.push(target, fmt.Sprint(i))
	}
	l.commit(b, 4)
	for i, target := range targets {
		l.holds(target, fmt.Sprint(i))
	}
	l.popsNothing(client.PopRequest{Queue: source})
}

func acksOfSeveralPlaces(l *line) {
	batch, partitions, first, second, target := cell.FreshQueue(), cell.FreshQueue(), cell.FreshQueue(), cell.FreshQueue(), cell.FreshQueue()
	l.store(numbered(batch, "", 0, 3)...)
	l.commit(new(bundle).ack("", client.Completed, l.pop(client.PopRequest{Queue: batch}).Messages...).push(target, `"batch"`), 4)

	l.storeAcross(partitions, 2, 1)
	l.commit(new(bundle).ack("", client.Completed, l.pop(client.PopRequest{Queue: partitions, Partitions: 2}).Messages...), 2)

	l.store(append(numbered(first, "", 0, 1), numbered(second, "", 0, 1)...)...)
	b := new(bundle)
	for _, queue := range []string{first, second} { // two pops, hence two leases
		b.ack("", client.Completed, l.pop(client.PopRequest{Queue: queue}).Messages...)
	}
	l.commit(b.push(target, `"two queues"`), 3)

	l.holds(target, `"batch"`, `"two queues"`)
	for _, queue := range []string{batch, partitions, first, second} {
		l.popsNothing(client.PopRequest{Queue: queue, Partitions: 10})
	}
}

func failedAckInATransaction(l *line) {
	source, target := cell.FreshQueue(), cell.FreshQueue()
	l.configure(source, `"retryLimit":0`)
	l.store(numbered(source, "", 0, 1)...)
	batch := l.pop(client.PopRequest{Queue: source})
	answer := l.commit(new(bundle).ack("", client.NotCompleted, batch.Messages...).push(target, `1`), 2)
	l.same("dead letter", true, answer.Results[0].DeadLettered)
	l.popsNothing(client.PopRequest{Queue: source})
	l.wantDead(source, "0")
	l.holds(target, `1`)
}

func pushOfFive(l *line) {
	target := cell.FreshQueue()
	payloads := numbers(0, 5)
	answer := l.commit(new(bundle).push(target, payloads...), 5)
	ids := map[string]bool{}
	for _, r := range answer.Results {
		ids[r.MessageID] = true
	}
	l.same("ids", 5, len(ids))
	l.holds(target, payloads...)
}

func oneUnknownIDFailsAll(l *line) {
	source, target := cell.FreshQueue(), cell.FreshQueue()
	l.store(numbered(source, "", 0, 3)...)
	batch := l.pop(client.PopRequest{Queue: source})
	invented := batch.Messages[1]
	invented.TransactionID = "never pushed"
	answer := l.transact(new(bundle).ack("", client.Completed, batch.Messages[0], invented, batch.Messages[2]).push(target, `1`))
	if answer.Success || !strings.HasPrefix(answer.Error, "QTXN") || len(answer.Results) != 0 {
		l.Errorf("%+v", answer)
	}
	l.popsNothing(client.PopRequest{Queue: target})
	l.popsNothing(client.PopRequest{Queue: source}) // the lease lives on
	l.carriedOut(l.ack("", client.Retry, batch.Messages...))
	l.delivers(l.await(client.PopRequest{Queue: source}), "0", "1", "2")
}

func pipelineOfThreeStages(l *line) {
	stages := []string{cell.FreshQueue(), cell.FreshQueue(), cell.FreshQueue(), cell.FreshQueue()}
	l.store(client.Item{Queue: stages[0], Payload: json.RawMessage(`{"count":0}`)})
	for i, stage := range stages[:3] {
		m := l.pop(client.PopRequest{Queue: stage}).Messages[0]
		var state struct{ Count int }
		if err := json.Unmarshal(m.Data, &state); err != nil {
			l.Fatal(err)
		}
		l.commit(new(bundle).ack("", client.Completed, m).push(stages[i+1], fmt.Sprintf(`{"count":%d}`, state.Count+1)), 2)
		l.popsNothing(client.PopRequest{Queue: stage})
	}
	l.holds(stages[3], `{"count":3}`)
}

func transactionalConsumer(l *line) {
	source, target := cell.FreshQueue(), cell.FreshQueue()
	l.store(numbered(source, "", 0, 3)...)
	for range 3 {
		m := l.pop(client.PopRequest{Queue: source, Batch: 1}).Messages[0]
		l.commit(new(bundle).ack("", client.Completed, m).push(target, string(m.Data)), 2)
	}
	l.popsNothing(client.PopRequest{Queue: source})
	l.holds(target, "0", "1", "2")
}

func acksOfAGroup(l *line) {
	queue := cell.FreshQueue()
	l.store(numbered(queue, "", 0, 2)...)
	mine := client.PopRequest{Queue: queue, Group: "mine", Mode: "all"}
	l.commit(new(bundle).ack("mine", client.Completed, l.pop(mine).Messages...), 2)
	l.popsNothing(mine)
	l.delivers(l.pop(client.PopRequest{Queue: queue, Group: "other", Mode: "all"}), "0", "1")
}

func retryAndDLQInTransactions(l *line) {
	r := client.PopRequest{Queue: cell.FreshQueue()}
	l.configure(r.Queue, `"retryLimit":2`)
	l.store(numbered(r.Queue, "", 0, 2)...)
	for range 5 {
		answer := l.commit(new(bundle).ack("", client.Retry, l.await(r).Messages[0]), 1)
		l.same("dead letter", false, answer.Results[0].DeadLettered)
	}
	l.wantDead(r.Queue)
	answer := l.commit(new(bundle).ack("", client.DeadLetter, l.await(r).Messages[0]), 1)
	l.same("dead letter", true, answer.Results[0].DeadLettered)
	l.wantDead(r.Queue, "0")
	l.delivers(l.await(r), "1")
}

func largePayloadThroughATransaction(l *line) {
	objects := make([]string, 1000)
	for i := range objects {
		objects[i] = fmt.Sprintf(`{ "id": %d, "text": "object\u0020%d", "nested": {"values": [1.50, null, true]} }`, i, i)
	}
	payload := "[" + strings.Join(objects, ", ") + "]"
	source, target := cell.FreshQueue(), cell.FreshQueue()
	l.store(numbered(source, "", 0, 1)...)
	m := l.pop(client.PopRequest{Queue: source}).Messages[0]
	// Written by hand: the encoder would change the text of the payload.
	body := fmt.Sprintf(`{"operations":[{"type":"ack","transactionId":"0","partitionId":%q,"status":"completed"},
		{"type":"push","items":[{"queue":%q,"payload":%s}]}],"requiredLeases":[%q]}`, m.PartitionID, target, payload, m.LeaseID)
	var answer transacted
	l.post("/api/v1/transaction", body, http.StatusOK, &answer)
	l.same("success", true, answer.Success)
	l.holds(target, payload)
}

// emptyTransaction: that a client refuses to send one is its own affair; one that does is told that nothing happened.
func emptyTransaction(l *line) {
	var answer map[string]any
	l.post("/api/v1/transaction", `{"operations":[],"requiredLeases":[]}`, http.StatusOK, &answer)
	l.same("answer", []any{true, []any{}}, []any{answer["success"], answer["results"]})
	for _, body := range []string{`{}`, `{"operations":{}}`, `{"operations":[{"type":"delete"}]}`} {
		status, text := l.send(http.MethodPost, "/api/v1/transaction", body)
		if status != http.StatusBadRequest || !strings.Contains(text, `"success":false`) {
			l.Errorf("%s: %d %s", body, status, text)
		}
	}
}
