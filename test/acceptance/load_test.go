package acceptance

import (
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"sync"

	"queen.internal/pkg/client"
	"queen.internal/test/internal/cell"
)

var loadLines = []entry{
	{101, "a hundred thousand messages in hundreds", hundredThousand},
	{102, "two thousand in batches of two hundred", twoThousand},
}

func hundredThousand(l *line) {
	const total, batch, partitions, workers = 100_000, 100, 16, 4
	queue := cell.FreshQueue()
	var working sync.WaitGroup
	for w := range workers {
		working.Go(func() {
			for first := w * batch; first < total; first += workers * batch {
				l.pushText(queue, fmt.Sprint("p", first/batch%partitions), first, batch)
			}
		})
	}
	seen := make([]bool, total)
	var mu sync.Mutex
	left := total
	for range workers {
		working.Go(func() {
			for !l.Failed() {
				numbers := l.popText(queue, 1000)
				mu.Lock()
				for _, n := range numbers {
					if seen[n] {
						l.Errorf("message %d came again", n)
						continue
					}
					seen[n] = true
					left--
				}
				done := left == 0
				mu.Unlock()
				if done {
					return
				}
			}
		})
	}
	working.Wait()
	l.same("messages that did not come", 0, left)
	l.popsNothing(client.PopRequest{Queue: queue})
}

// pushText pushes numbers without a struct for each.
func (l *line) pushText(queue, partition string, first, count int) {
	l.Helper()
	var body strings.Builder
	for i, id := range numbers(first, count) {
		if i > 0 {
			body.WriteByte(',')
		}
		fmt.Fprintf(&body, `{"queue":%q,"partition":%q,"transactionId":%q,"payload":%s}`, queue, partition, id, id)
	}
	status, answer := l.send(http.MethodPost, "/api/v1/push", `{"items":[`+body.String()+`]}`)
	if queued := strings.Count(answer, `"status":"queued"`); status != http.StatusCreated || queued != count {
		l.Errorf("%d: %d queued", status, queued)
	}
}

// popText pops and completes numbers of one partition, without a struct for each. It waits a second for some.
func (l *line) popText(queue string, batch int) (got []int) {
	l.Helper()
	status, answer := l.send(http.MethodGet, fmt.Sprintf("/api/v1/pop/queue/%s?batch=%d&wait=true&timeout=1000", queue, batch), "")
	if status != http.StatusOK {
		if status != http.StatusNoContent {
			l.Errorf("%d %.200s", status, answer)
		}
		return nil
	}
	value := func(name string) string { // of the next one in what is left of the answer
		_, rest, _ := strings.Cut(answer, `"`+name+`":"`)
		text, rest, _ := strings.Cut(rest, `"`)
		if name == "transactionId" {
			answer = rest
		}
		return text
	}
	ack := client.Acknowledgment{PartitionID: value("partitionId"), LeaseID: value("leaseId"), Status: client.Completed}
	for id := value("transactionId"); id != ""; id = value("transactionId") {
		n, err := strconv.Atoi(id)
		if err != nil {
			l.Errorf("transaction id %q: %v", id, err)
			return got
		}
		ack.TransactionID = id
		got = append(got, n)
	}
	if result := l.ackOne("", ack); !result.Success || !result.LeaseReleased {
		l.Errorf("%s", said(result))
	}
	return got
}

func twoThousand(l *line) {
	r := client.PopRequest{Queue: cell.FreshQueue(), Batch: 200}
	for i := range 10 {
		l.store(numbered(r.Queue, "", 200*i, 200)...)
	}
	for i := range 10 {
		batch := l.pop(r)
		l.delivers(batch, numbers(200*i, 200)...)
		l.complete("", batch)
	}
	l.popsNothing(r)
}
