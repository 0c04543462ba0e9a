package acceptance

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"

	"queen.internal/pkg/client"
	"queen.internal/test/internal/cell"
)

var deadLetterLines = []entry{
	{79, "two failures make one dead letter", twoFailuresMakeOneDeadLetter},
	{80, "dead letters of a clean queue", deadLettersOfACleanQueue},
}

// letter is a dead letter as the list tells it.
type letter struct {
	ID            string          `json:"id"`
	TransactionID string          `json:"transactionId"`
	PartitionID   string          `json:"partitionId"`
	Queue         string          `json:"queue"`
	Partition     string          `json:"partition"`
	Group         string          `json:"consumerGroup"`
	Error         string          `json:"errorMessage"`
	RetryCount    int             `json:"retryCount"`
	Data          json.RawMessage `json:"data"`
}

// deadLetters are those of a queue; filter is more of the query.
func (l *line) deadLetters(queue, filter string) []letter {
	l.Helper()
	var answer struct {
		Messages []letter `json:"messages"`
		Total    *int     `json:"total"`
	}
	l.get("/api/v1/dlq?queue="+url.QueryEscape(queue)+filter, &answer)
	if answer.Messages == nil || answer.Total == nil || *answer.Total != len(answer.Messages) {
		l.Fatalf("%+v", answer)
	}
	return answer.Messages
}

// wantDead wants the dead letters of a queue to be these, the newest first.
func (l *line) wantDead(queue string, want ...string) {
	l.Helper()
	got := []string{}
	for _, d := range l.deadLetters(queue, "") {
		got = append(got, d.TransactionID)
	}
	l.same("dead letters", append([]string{}, want...), got)
}

func twoFailuresMakeOneDeadLetter(l *line) {
	r := client.PopRequest{Queue: cell.FreshQueue(), Group: "g", Mode: "all"}
	l.configure(r.Queue, `"retryLimit":1`)
	l.store(client.Item{Queue: r.Queue, Partition: "p", TransactionID: "poison", Payload: json.RawMessage(`{"inv":55}`)})
	var m client.Message
	for failure := 1; failure <= 2; failure++ {
		l.wantDead(r.Queue)
		m = l.await(r).Messages[0]
		nack := client.AckOf(m, client.NotCompleted)
		nack.Error = fmt.Sprint("smtp 550, failure ", failure)
		l.same("dead letter", failure == 2, l.carriedOut(l.ackAll("g", nack)))
	}
	l.popsNothing(r)
	letters := l.deadLetters(r.Queue, "")
	if len(letters) != 1 || letters[0].ID == "" {
		l.Fatalf("%+v", letters)
	}
	letters[0].ID = ""
	l.same("dead letter", letter{
		TransactionID: "poison", PartitionID: m.PartitionID, Queue: r.Queue, Partition: "p", Group: "g",
		Error: "smtp 550, failure 2", RetryCount: 1, Data: json.RawMessage(`{"inv":55}`),
	}, letters[0])
}

func deadLettersOfACleanQueue(l *line) {
	queue := cell.FreshQueue()
	l.store(numbered(queue, "", 0, 3)...)
	for _, filter := range []string{"", "&consumerGroup=g", "&limit=10&offset=5", "&consumerGroup=g&limit=1&offset=0", "&limit=0"} {
		l.same(filter, 0, len(l.deadLetters(queue, filter)))
	}
	// The same filters find what there is.
	for range 2 {
		l.carriedOut(l.ack("", client.DeadLetter, l.await(client.PopRequest{Queue: queue}).Messages[0]))
	}
	for filter, want := range map[string]int{
		"": 2, "&consumerGroup=g": 0, "&consumerGroup=__QUEUE_MODE__": 2, "&limit=1": 1, "&limit=10&offset=1": 1, "&offset=2": 0,
	} {
		l.same(filter, want, len(l.deadLetters(queue, filter)))
	}
	status, answer := l.send(http.MethodGet, "/api/v1/dlq?queue="+cell.FreshQueue(), "")
	if status != http.StatusOK {
		l.Errorf("of a queue that does not exist: %d %s", status, answer)
	}
}
