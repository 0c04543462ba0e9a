package acceptance

import (
	"fmt"
	"net/http"
	"strings"
	"time"

	"queen.internal/pkg/client"
	"queen.internal/pkg/route"
	"queen.internal/test/internal/cell"
)

var popLines = []entry{
	{26, "an empty queue is no error", emptyQueue},
	{27, "a waiting pop after the push", waitingPopAfterThePush},
	{28, "a long poll before the push", longPollBeforeThePush},
	{29, "a long poll on a quiet queue", longPollOnAQuietQueue},
	{30, "batch of three", batchOfThree},
	{31, "what a message carries", whatAMessageCarries},
	{32, "auto ack", autoAck},
	{33, "without ack the message returns", withoutAckTheMessageReturns},
	{34, "ack then pop", ackThenPop},
	{42, "the pop's lease overrides the queue's", popsLeaseOverrides},
	{43, "a late push reaches a long polling consumer", latePush},
}

func emptyQueue(l *line) {
	queue := cell.FreshQueue()
	for _, path := range []string{queue, queue + "/partition/p", queue + "?consumerGroup=g&batch=5"} {
		status, answer := l.send(http.MethodGet, "/api/v1/pop/queue/"+path, "")
		l.same(path, []any{http.StatusNoContent, ""}, []any{status, answer})
	}
	l.configure(queue, ``)
	l.popsNothing(client.PopRequest{Queue: queue})
}

func waitingPopAfterThePush(l *line) {
	queue := cell.FreshQueue()
	l.store(numbered(queue, "", 0, 1)...)
	l.delivers(l.await(client.PopRequest{Queue: queue}), "0")
}

func longPollBeforeThePush(l *line) {
	queue := cell.FreshQueue()
	l.configure(queue, ``)
	got := l.polling(client.PopRequest{Queue: queue, Wait: patience})
	l.passes(1500 * time.Millisecond)
	pushed := time.Now()
	l.store(numbered(queue, "", 0, 1)...)
	l.delivers(<-got, "0")
	if late := time.Since(pushed); late > patience/2 {
		l.Errorf("delivered %v after the push", late)
	}
	l.popsNothing(client.PopRequest{Queue: queue}) // once
}

// polling pops in the background.
func (l *line) polling(r client.PopRequest) <-chan client.Batch {
	got := make(chan client.Batch, 1)
	cl := l.at(route.Deliver)
	go func() {
		defer close(got)
		batch, err := cl.Pop(l.Context(), r)
		if err != nil {
			l.Error(err)
		}
		got <- batch
	}()
	return got
}

func longPollOnAQuietQueue(l *line) {
	const timeout, slack = 1500 * time.Millisecond, 5 * time.Second
	began := time.Now()
	path := fmt.Sprintf("/api/v1/pop/queue/%s?wait=true&timeout=%d", cell.FreshQueue(), timeout.Milliseconds())
	status, answer := l.send(http.MethodGet, path, "")
	took := time.Since(began)
	l.same("answer", []any{http.StatusNoContent, ""}, []any{status, answer})
	if took < timeout*3/4 || took > timeout+slack {
		l.Errorf("held for %v", took)
	}
}

func batchOfThree(l *line) {
	queue := cell.FreshQueue()
	l.store(numbered(queue, "", 0, 10)...)
	l.delivers(l.pop(client.PopRequest{Queue: queue, Batch: 3}), "0", "1", "2")
}

func whatAMessageCarries(l *line) {
	queue := cell.FreshQueue()
	stored := l.store(client.Item{Queue: queue, Partition: "p", Payload: []byte(`{"a":1}`)})
	var body map[string]any
	l.get("/api/v1/pop/queue/"+queue+"?consumerGroup=billing&subscriptionMode=all", &body)
	messages, _ := body["messages"].([]any)
	if len(messages) != 1 {
		l.Fatalf("%v", body)
	}
	m, _ := messages[0].(map[string]any)
	lease, partition := fmt.Sprint(m["leaseId"]), fmt.Sprint(m["partitionId"])
	if len(lease) != 36 || len(partition) != 36 {
		l.Errorf("lease %q, partition %q", lease, partition)
	}
	if at, err := time.Parse("2006-01-02T15:04:05.000000Z", fmt.Sprint(m["createdAt"])); err != nil || time.Since(at).Abs() > time.Hour {
		l.Errorf("created at %v: %v", m["createdAt"], err)
	}
	delete(m, "createdAt")
	var producer any
	if l.subject != "" {
		producer = l.subject
	}
	// deliveryAttempt is beyond the line: later clients read it.
	l.same("answer", map[string]any{
		"success": true, "queue": queue, "partition": "p", "partitionId": partition, "leaseId": lease,
		"consumerGroup": "billing", "partitionsClaimed": 1.0, "messages": []any{map[string]any{
			"id": stored[0].MessageID, "transactionId": stored[0].TransactionID, "traceId": nil, "data": map[string]any{"a": 1.0},
			"producerSub": producer, "partitionId": partition, "partition": "p", "leaseId": lease, "consumerGroup": "billing",
			"deliveryAttempt": 1.0,
		}},
	}, body)
}

func autoAck(l *line) {
	queue := cell.FreshQueue()
	l.store(numbered(queue, "", 0, 2)...)
	batch := l.pop(client.PopRequest{Queue: queue, AutoAck: true, Lease: time.Second})
	l.delivers(batch, "0", "1")
	l.same("leases", []string{"", "", ""}, []string{batch.LeaseID, batch.Messages[0].LeaseID, batch.Messages[1].LeaseID})
	l.staysEmpty(client.PopRequest{Queue: queue}, 2*time.Second)
}

func withoutAckTheMessageReturns(l *line) {
	queue := cell.FreshQueue()
	l.store(numbered(queue, "", 0, 1)...)
	popped := time.Now()
	first := l.pop(client.PopRequest{Queue: queue, Lease: time.Second})
	again := l.await(client.PopRequest{Queue: queue})
	if after := time.Since(popped); after < time.Second*9/10 {
		l.Errorf("came back after %v", after)
	}
	l.delivers(first, "0")
	l.delivers(again, "0")
	l.same("ids", first.Messages[0].ID, again.Messages[0].ID)
	l.same("attempts", []int{1, 2}, []int{first.Messages[0].DeliveryAttempt, again.Messages[0].DeliveryAttempt})
	if first.LeaseID == again.LeaseID {
		l.Errorf("both have the lease %s", first.LeaseID)
	}
}

func ackThenPop(l *line) {
	queue := cell.FreshQueue()
	l.store(numbered(queue, "", 0, 1)...)
	l.complete("", l.pop(client.PopRequest{Queue: queue}))
	l.popsNothing(client.PopRequest{Queue: queue})
}

func popsLeaseOverrides(l *line) {
	queue := cell.FreshQueue()
	l.configure(queue, `"leaseTime":60`)
	l.store(numbered(queue, "", 0, 1)...)
	l.delivers(l.pop(client.PopRequest{Queue: queue, Lease: time.Second}), "0")
	l.delivers(l.await(client.PopRequest{Queue: queue}), "0") // within half a minute
}

func latePush(l *line) {
	queue := cell.FreshQueue()
	l.store(numbered(queue, "", 0, 1)...)
	batch := l.await(client.PopRequest{Queue: queue})
	l.complete("", batch)
	l.staysEmpty(client.PopRequest{Queue: queue}, time.Second)
	got := l.polling(client.PopRequest{Queue: queue, Wait: patience})
	l.store(numbered(queue, "", 1, 1)...)
	next := <-got
	l.delivers(next, "1")
	l.complete("", next)
	if strings.Contains(fmt.Sprint(next.Messages), batch.LeaseID) {
		l.Errorf("the lease %s came twice", batch.LeaseID)
	}
}
