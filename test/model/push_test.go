package model_test

import (
	"fmt"
	"strings"

	"queen.internal/pkg/client"
)

// push pushes up to four messages to one or both queues.
func (h *history) push() {
	var items []client.Item
	for range h.number("items", 1, 4) {
		h.pushed++
		items = append(items, client.Item{
			Queue: h.queueName(h.pick("queue", h.queueNames...)), Partition: h.pick("partition", h.partitionNames...),
			TransactionID: h.pick("key", keys...), Payload: fmt.Append(nil, h.pushed),
		})
	}
	h.pushItems(items)
}

// backlog pushes one message after the other to one partition.
func (h *history) backlog() {
	var items []client.Item
	for _, key := range keys[:h.number("items", 2, len(keys))] {
		h.pushed++
		items = append(items, client.Item{Queue: h.queueName("a"), Partition: h.pick("partition", h.partitionNames...), TransactionID: key, Payload: fmt.Append(nil, h.pushed)})
	}
	h.pushItems(items)
}

func (h *history) pushItems(items []client.Item) {
	results, err := h.pusher().Push(h.Context(), items)
	if err != nil {
		h.Fatal(err)
	}
	h.Logf("push %s", told(items, results))
	for i := range items {
		h.stored(items[:i], &items[i], &results[i], results)
	}
}

// stored compares one result and notes the message if it is new. before are the items of the request before it.
func (h *history) stored(before []client.Item, it *client.Item, r *client.PushResult, results []client.PushResult) {
	q := h.provide(it.Queue)
	p := q.provide(it.Partition)
	allowed := make(map[string]bool) // ids that a duplicate may be told
	if q.window > 0 {
		for _, m := range p.messages {
			if m.key == it.TransactionID {
				allowed[m.id] = true
			}
		}
	}
	for i := range before {
		if before[i].Queue == it.Queue && before[i].Partition == it.Partition && before[i].TransactionID == it.TransactionID {
			allowed = map[string]bool{results[i].MessageID: true}
		}
	}
	want := client.Queued
	if len(allowed) > 0 {
		want = client.Duplicate
	}
	if r.Status != want || want == client.Duplicate && !allowed[r.MessageID] || r.TransactionID != it.TransactionID || r.Queue != it.Queue {
		h.Fatalf("push of %s to %s: %+v, want %s of %v", it.TransactionID, it.Partition, *r, want, allowed)
	}
	h.count(string(want), 1)
	if want == client.Queued {
		p.messages = append(p.messages, message{r.MessageID, it.TransactionID, string(it.Payload)})
	}
}

func told(items []client.Item, results []client.PushResult) string {
	var parts []string
	for i, it := range items {
		parts = append(parts, fmt.Sprintf("%s/%s %s: %s", short(it.Queue), it.Partition, it.TransactionID, results[i].Status))
	}
	return strings.Join(parts, ", ")
}

// configure sets some options of a queue.
func (h *history) configure() {
	name := h.queueName(h.pick("queue", h.queueNames...))
	q := h.provide(name)
	options := []string{fmt.Sprintf(`"namespace":%q`, h.namespace)} // one made here has none
	if h.oneIn(2, "retryLimit?") {
		q.retryLimit = h.number("retryLimit", 0, 2)
		options = append(options, fmt.Sprint(`"retryLimit":`, q.retryLimit))
	}
	if h.oneIn(3, "dead letters?") {
		q.dead1, q.dead2 = h.oneIn(3, "deadLetterQueue"), h.oneIn(3, "dlqAfterMaxRetries")
		options = append(options, fmt.Sprintf(`"deadLetterQueue":%v,"dlqAfterMaxRetries":%v`, q.dead1, q.dead2))
	}
	if h.oneIn(3, "deliveryLimit?") {
		q.deliveryLimit = []int{0, 2, 3}[h.number("deliveryLimit", 0, 2)]
		options = append(options, fmt.Sprint(`"deliveryLimit":`, q.deliveryLimit))
	}
	if h.oneIn(3, "dedupWindowSeconds?") {
		q.window = []int{3600, 0}[h.number("dedupWindowSeconds", 0, 1)]
		options = append(options, fmt.Sprint(`"dedupWindowSeconds":`, q.window))
	}
	body := fmt.Sprintf(`{"queue":%q,"options":{%s}}`, name, strings.Join(options, ","))
	h.Logf("configure %s %s", short(name), strings.Join(options[1:], " "))
	if status, answer := h.call("POST", "/api/v1/configure", body); status != 200 {
		h.Fatalf("%d %s", status, answer)
	}
}

// drop deletes a queue.
func (h *history) drop() {
	name := h.queueName(h.pick("queue", h.queueNames...))
	h.Logf("delete %s", short(name))
	q := h.queue(name)
	status, answer := h.call("DELETE", "/api/v1/resources/queues/"+name, "")
	if status != 200 || !strings.Contains(answer, fmt.Sprintf(`"existed":%v`, q != nil)) {
		h.Fatalf("%d %s", status, answer)
	}
	for i := range h.queues {
		if h.queues[i] == q {
			h.queues = append(h.queues[:i], h.queues[i+1:]...)
			break
		}
	}
}
