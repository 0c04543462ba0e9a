package model_test

import (
	"fmt"
	"strings"
	"time"

	"queen.internal/pkg/client"
)

// pop pops a queue, some partition of it, or all of them by their namespace.
func (h *history) pop(kind string) {
	request := client.PopRequest{
		Group: h.pick("group", h.groupNames...), Mode: h.pick("mode", "all", "new"), Batch: h.number("batch", 1, 5),
		Lease: 10 * time.Minute, AutoAck: h.oneIn(6, "autoAck"), Partitions: h.number("partitions", 1, 3),
	}
	if request.Group != "late" {
		request.Mode = "all"
	}
	if request.AutoAck {
		request.Lease = 0
	}
	where := "namespace"
	switch kind {
	case "queue":
		request.Queue = h.queueName(h.pick("queue", h.queueNames...))
		where = short(request.Queue)
	case "partition":
		name := h.pick("partition", h.partitionNames...)
		request.Queue, request.Partition = h.queueName(h.pick("queue", h.queueNames...)), &name
		where = short(request.Queue) + "/" + name
	default:
		request.Namespace = h.namespace
	}
	h.popAs(request, where)
}

func (h *history) popAs(request client.PopRequest, where string) {
	batch, err := h.reader().Pop(h.Context(), request)
	if err != nil {
		h.Fatal(err)
	}
	p := &delivery{history: h, request: &request, batch: batch, budget: request.Batch, partitions: request.Partitions}
	if len(batch.Messages) > 0 && !request.AutoAck {
		p.lease = &lease{len(h.leases) + 1, batch.LeaseID}
		h.leases = append(h.leases, p.lease)
	}
	h.Logf("pop %s for %s (%s, batch %d, partitions %d, autoAck %v): %s", where, request.Group, request.Mode, request.Batch, request.Partitions, request.AutoAck, p.told())
	p.contact()
	p.learn()
	p.compare()
}

// delivery is one answered pop.
type delivery struct {
	*history
	request    *client.PopRequest
	batch      client.Batch
	lease      *lease
	open       []*partition // where it may have looked
	budget     int
	partitions int
	taken      int
	alone      bool
}

// contact is what the pop makes of the group, and where it looks.
func (p *delivery) contact() {
	r := p.request
	switch {
	case r.Partition != nil:
		p.partitions = 1
		if q := p.queue(r.Queue); q != nil {
			if found := q.pin(r.Group, *r.Partition, r.Mode); found != nil {
				p.open = append(p.open, found)
			}
		}
	case r.Queue != "":
		p.provide(r.Queue).register(r.Group, r.Mode)
		p.open = p.queue(r.Queue).partitions
	default:
		for _, q := range p.queues {
			if s := q.groups[r.Group]; s != nil && s.registered || p.registered(q, r.Group) {
				q.register(r.Group, r.Mode)
				p.open = append(p.open, q.partitions...)
			}
		}
	}
}

// registered says whether the group has come to a queue. A discovery that has its messages does not look at further queues.
func (h *history) registered(q *queue, group string) (is bool) {
	if err := h.db.QueryRow(h.Context(), `SELECT EXISTS (SELECT FROM queen.queues q JOIN queen.subscriptions s ON s.queue_id = q.id
		WHERE q.name = $1 AND q.deleted_at IS NULL AND s.group_name = $2 AND s.registered_at IS NOT NULL)`, q.name, group).Scan(&is); err != nil {
		h.Fatal(err)
	}
	return is
}

// learn finds out which exhausted heads the pop has come across.
func (p *delivery) learn() {
	for _, found := range p.open {
		q := found.queue
		if !q.exhausted(p.request.Group, found) {
			continue
		}
		var at int
		if err := p.db.QueryRow(p.Context(), `SELECT c.committed FROM queen.queues q JOIN queen.partitions p ON p.queue_id = q.id AND p.name = $2
			JOIN queen.subscriptions s ON s.queue_id = q.id AND s.group_name = $3
			JOIN queen.cursors c ON c.partition_id = p.id AND c.subscription_id = s.id
			WHERE q.name = $1 AND q.deleted_at IS NULL`, q.name, found.name, p.request.Group).Scan(&at); err != nil {
			p.Fatal(err)
		}
		if at > q.groups[p.request.Group].cursors[found].committed {
			p.count("exhausted heads", 1)
			q.giveUp(p.request.Group, found)
		}
	}
}

// compare goes through the messages, partition by partition.
func (p *delivery) compare() {
	messages := p.batch.Messages
	for len(messages) > 0 {
		n := 1
		for n < len(messages) && messages[n].PartitionID == messages[0].PartitionID {
			n++
		}
		p.span(messages[:n])
		messages = messages[n:]
	}
	if p.batch.PartitionsClaimed != p.taken {
		p.Fatalf("partitionsClaimed is %d, there are %d", p.batch.PartitionsClaimed, p.taken)
	}
	if p.taken == 0 {
		p.count("empty pops", 1)
	}
	if p.taken > 1 {
		p.count("pops of several", 1)
	}
	if p.alone || p.budget == 0 || p.partitions == 0 {
		return
	}
	for _, left := range p.open {
		first, attempt, can := left.queue.has(p.request.Group, left)
		// What goes alone does not join others, and ends the search of a pop that has something.
		if can && (p.taken == 0 || left.queue.deliveryLimit == 0) {
			p.Fatalf("%s/%s has offset %d for %s (attempt %d), and was not delivered", short(left.queue.name), left.name, first, p.request.Group, attempt)
		}
	}
}

// span compares what was delivered of one partition, and moves the cursor.
func (p *delivery) span(messages []client.Message) {
	found := p.where(messages[0].ID)
	q, group := found.queue, p.request.Group
	first, attempt, can := q.has(group, found)
	again := q.again(attempt)
	last := min(first+p.budget-1, len(found.messages)-1)
	if again {
		last = first
	}
	if !can || p.partitions == 0 || p.budget == 0 || p.alone || again && p.taken > 0 || q.exhausted(group, found) {
		p.Fatalf("%s/%s must not be delivered: work %v, %d messages and %d partitions wanted, attempt %d, %d taken, alone %v, exhausted %v",
			short(q.name), found.name, can, p.budget, p.partitions, attempt, p.taken, p.alone, q.exhausted(group, found))
	}
	if len(messages) != last-first+1 {
		p.Fatalf("%s/%s: %d messages, want those at %d..%d", short(q.name), found.name, len(messages), first, last)
	}
	leaseID := ""
	if p.lease != nil {
		leaseID = p.lease.id
	} else {
		attempt = 1
	}
	for i, m := range messages {
		want := found.messages[first+i]
		if m.ID != want.id || m.TransactionID != want.key || string(m.Data) != want.payload || m.DeliveryAttempt != attempt ||
			m.LeaseID != leaseID || m.Group != group || m.Partition != found.name || m.PartitionID != p.batch.Messages[0].PartitionID && p.taken == 0 {
			p.Fatalf("%s/%s offset %d: %+v, want %+v, attempt %d, lease %s", short(q.name), found.name, first+i, m, want, attempt, leaseID)
		}
	}
	if found.uid != "" && found.uid != messages[0].PartitionID {
		p.Fatalf("%s/%s was %s and is %s", short(q.name), found.name, found.uid, messages[0].PartitionID)
	}
	found.uid = messages[0].PartitionID
	q.take(group, found, last, p.lease)
	if p.lease != nil {
		p.spans = append(p.spans, span{group, p.lease, found, first, last})
	}
	p.count("spans", 1)
	if again {
		p.count("spans of one", 1)
	} else if attempt > 1 {
		p.count("spans again", 1)
	}
	p.budget, p.partitions, p.taken, p.alone = p.budget-len(messages), p.partitions-1, p.taken+1, again
}

// where finds the partition of a message among those that may be delivered.
func (p *delivery) where(id string) *partition {
	for _, found := range p.open {
		for _, m := range found.messages {
			if m.id == id {
				return found
			}
		}
	}
	p.Fatalf("message %s is in none of the partitions that were asked for", id)
	return nil
}

func (p *delivery) told() string {
	if len(p.batch.Messages) == 0 {
		return "nothing"
	}
	var text strings.Builder
	fmt.Fprint(&text, named(p.lease))
	last := ""
	for _, m := range p.batch.Messages {
		if m.PartitionID != last {
			fmt.Fprintf(&text, ", %s (%d.):", m.Partition, m.DeliveryAttempt)
			last = m.PartitionID
		}
		fmt.Fprint(&text, " ", m.TransactionID)
	}
	return text.String()
}
