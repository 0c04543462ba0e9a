package acceptance

import (
	"encoding/json"
	"fmt"
	"net/http"

	"queen.internal/pkg/client"
	"queen.internal/pkg/route"
	"queen.internal/test/internal/cell"
)

var queueLines = []entry{
	{1, "configure says that it configured", configureSaysThatItConfigured},
	{2, "configure echoes the options that were sent", configureEchoesTheOptions},
	{3, "a deleted queue is empty until a push recreates it", deletedQueue},
	{4, "configure without options makes a usable queue", configureWithoutOptions},
	{5, "retry limit zero ends a message with its first failure", retryLimitZero},
}

func configureSaysThatItConfigured(l *line) {
	queue := cell.FreshQueue()
	var answer map[string]any
	l.post("/api/v1/configure", fmt.Sprintf(`{"queue":%q,"namespace":"n","task":"t","options":{"leaseTime":120}}`, queue), http.StatusOK, &answer)
	if id, _ := answer["queueId"].(string); id == "" {
		l.Errorf("queueId %v", answer["queueId"])
	}
	options, _ := answer["options"].(map[string]any)
	l.same("leaseTime", 120.0, options["leaseTime"])
	delete(answer, "queueId")
	delete(answer, "options")
	l.same("the rest", map[string]any{
		"configured": true, "partitionId": nil, "queue": queue, "namespace": "n", "task": "t", "storage": "segments",
	}, answer)
}

func configureEchoesTheOptions(l *line) {
	const sent = `"completedRetentionSeconds":11,"deadLetterQueue":true,"delayedProcessing":2,"dlqAfterMaxRetries":false,` +
		`"encryptionEnabled":%v,"leaseTime":12,"maxSize":13,"maxWaitTimeSeconds":14,"priority":5,"retentionEnabled":true,` +
		`"retentionSeconds":15,"retryDelay":16,"retryLimit":17,"ttl":18,"windowBuffer":19,"dedupWindowSeconds":20`
	options := fmt.Sprintf("{"+sent+"}", l.key) // a cell without a key refuses encryption; that is line 22
	var want map[string]any
	if err := json.Unmarshal([]byte(options), &want); err != nil {
		l.Fatal(err)
	}
	for name, body := range map[string]string{
		"in an object": `{"queue":%q,"options":` + options + `}`, "beside the queue": `{"queue":%q,` + options[1:],
	} {
		var answer cell.Settings
		l.post("/api/v1/configure", fmt.Sprintf(body, cell.FreshQueue()), http.StatusOK, &answer)
		got := map[string]any{}
		for option := range want {
			got[option] = answer.Options[option]
		}
		l.same(name, want, got)
	}
}

func deletedQueue(l *line) {
	queue := cell.FreshQueue()
	l.store(numbered(queue, "", 0, 3)...)
	l.delivers(l.pop(client.PopRequest{Queue: queue, Batch: 1}), "0")
	remove := func() map[string]any {
		status, answer := l.send(http.MethodDelete, "/api/v1/resources/queues/"+queue, "")
		var body map[string]any
		l.read(status, answer, http.StatusOK, &body)
		return body
	}
	l.same("answer", map[string]any{"deleted": true, "queue": queue, "existed": true}, remove())
	l.same("answer", map[string]any{
		"deleted": false, "queue": queue, "existed": false, "message": "Queue not found, nothing was deleted",
	}, remove())
	l.popsNothing(client.PopRequest{Queue: queue})
	// Its transaction ids are free again, and nothing of it comes back.
	for i := range l.addresses(route.Ingest) {
		l.store(numbered(queue, "", i, 1)...)
	}
	l.delivers(l.pop(client.PopRequest{Queue: queue}), numbers(0, len(l.addresses(route.Ingest)))...)
}

func configureWithoutOptions(l *line) {
	queue := cell.FreshQueue()
	l.post("/api/v1/configure", fmt.Sprintf(`{"queue":%q}`, queue), http.StatusOK, new(any))
	l.store(numbered(queue, "", 0, 2)...)
	batch := l.pop(client.PopRequest{Queue: queue})
	l.delivers(batch, "0", "1")
	l.complete("", batch)
	l.popsNothing(client.PopRequest{Queue: queue})
}

func retryLimitZero(l *line) {
	for _, end := range []struct {
		options string
		dead    bool
	}{{"", true}, {`,"deadLetterQueue":false,"dlqAfterMaxRetries":false`, false}} {
		queue := cell.FreshQueue()
		l.configure(queue, `"retryLimit":0`+end.options)
		l.store(numbered(queue, "", 0, 1)...)
		batch := l.pop(client.PopRequest{Queue: queue})
		l.same("dead letter", end.dead, l.carriedOut(l.ack("", client.NotCompleted, batch.Messages...)))
		l.popsNothing(client.PopRequest{Queue: queue})
		if end.dead {
			l.wantDead(queue, "0")
		} else {
			l.wantDead(queue)
		}
	}
}
