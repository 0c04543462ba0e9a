package model_test

import (
	"encoding/json"
	"fmt"
	"strings"
)

// operation is an ack or a push of a transaction.
type operation struct {
	target        // of an ack
	group  string // empty: a push
	queue  string
	into   string // the partition
	body   string
}

// result is the answer to one operation.
type result struct {
	Type, TransactionID, MessageID, QueueName, Error string
	Success, DLQ, Duplicate                          bool
}

// transact acks up to two spans and pushes, in one commit.
func (h *history) transact() {
	var operations []operation
	var required []*lease
	with := h.number("leases", 0, 4) // 0: each names its own, 1: required, 2: none, 3: only the first names its own, 4: another is required
	for i := range h.number("spans", 0, 2) {
		s := h.lastSpan()
		last := h.number("up to", 0, s.last-s.first)
		signalled := h.number("signalled", 0, 2*last+1)
		for at := range last + 1 {
			what := completed
			if at == signalled {
				what = h.signal()
			}
			o := operation{target: h.target(s.partition, nil, s.partition.messages[s.first+at].key, what), group: s.group}
			if with == 0 || with == 3 && i == 0 {
				o.lease = s.lease
			}
			operations = append(operations, o)
		}
		switch with {
		case 1:
			required = append(required, s.lease)
		case 4:
			required = append(required, h.someLease())
		}
	}
	for range h.number("pushes", 0, 3) {
		h.pushed++
		operations = append(operations, operation{
			target: target{item: item{key: h.pick("key", keys...)}}, queue: h.queueName(h.pick("queue", h.queueNames...)),
			into: h.pick("partition", h.partitionNames...), body: fmt.Sprint(h.pushed),
		})
	}
	key := ""
	if h.oneIn(3, "idempotencyKey") {
		h.keyed++
		key = fmt.Sprintf(`,"idempotencyKey":"%s-%d"`, h.namespace, h.keyed)
	}
	h.commit(operations, required, key)
}

// commit sends a transaction, and once more if that must change nothing.
func (h *history) commit(operations []operation, required []*lease, key string) {
	var ops, text, leases []string
	for _, o := range operations {
		if o.group == "" {
			ops = append(ops, fmt.Sprintf(`{"type":"push","queue":%q,"partition":%q,"transactionId":%q,"payload":%s}`, o.queue, o.into, o.key, o.body))
			text = append(text, fmt.Sprintf("push %s/%s %s", short(o.queue), o.into, o.key))
			continue
		}
		id, status := "", ""
		if o.lease != nil {
			id = o.lease.id
		}
		if o.status != "" { // absent, which is not the same as empty
			status = fmt.Sprintf(`,"status":%q`, o.status)
		}
		ops = append(ops, fmt.Sprintf(`{"type":"ack","partitionId":%q,"transactionId":%q,"consumerGroup":%q,"leaseId":%q,"error":%q%s}`,
			o.partition.uid, o.key, o.group, id, o.reason, status))
		text = append(text, fmt.Sprintf("ack %s/%s %s %q for %s under %s", short(o.partition.queue.name), o.partition.name, o.key, o.status, o.group, named(o.lease)))
	}
	numbers := ""
	for _, l := range required {
		leases, numbers = append(leases, fmt.Sprintf("%q", l.id)), numbers+" "+named(l)
	}
	body := fmt.Sprintf(`{"operations":[%s],"requiredLeases":[%s]%s}`, strings.Join(ops, ","), strings.Join(leases, ","), key)
	status, answer := h.call("POST", "/api/v1/transaction", body)
	var got struct {
		Success       bool
		Error, Reason string
		Results       []result
	}
	if err := json.Unmarshal([]byte(answer), &got); err != nil || status != 200 {
		h.Fatalf("%d %s of %s", status, answer, body)
	}
	h.Logf("transaction requiring [%s]: %s: %v %s", strings.TrimSpace(numbers), strings.Join(text, ", "), got.Success, got.Reason)
	h.count(fmt.Sprint("transactions ", got.Success, " ", got.Reason), 1)
	want, reason := h.decideAll(operations, required)
	if got.Success != (reason == "") || got.Reason != reason {
		h.Fatalf("%s, want %q", answer, reason)
	}
	if reason != "" {
		return
	}
	if len(got.Results) != len(operations) {
		h.Fatalf("%s has not %d results", answer, len(operations))
	}
	h.pushedBy(operations, got.Results)
	for i, o := range operations {
		r := got.Results[i]
		if o.group != "" && (r.Type != "ack" || r.Success != want[i].Success || r.DLQ != want[i].Dead || !strings.Contains(r.Error, want[i].Error)) {
			h.Fatalf("ack of %s: %+v, want %+v", o.key, r, want[i])
		}
	}
	if key != "" {
		h.Logf("the same again")
		if _, second := h.call("POST", "/api/v1/transaction", body); second != answer {
			h.Fatalf("%s, and again %s", answer, second)
		}
	}
}

// decideAll has the model carry out a transaction, or nothing of it and then say why.
func (h *history) decideAll(operations []operation, required []*lease) (outcomes []outcome, reason string) {
	undo := h.remember()
	outcomes = make([]outcome, len(operations))
	for _, p := range parts(operations) {
		q := p.partition.queue
		s := q.groups[p.group]
		l := p.lease
		if l == nil && s != nil && s.cursors[p.partition] != nil {
			l = recorded(s.cursors[p.partition], p.anywhere, required)
		}
		decided := make([]outcome, len(p.items))
		if h.queue(q.name) == q {
			decided = q.ack(p.group, p.partition, l, p.items)
		} else {
			decided[0].Error = noConsumer
		}
		for i, d := range decided {
			if d.Error != "" && d.Error != committed {
				reason = "ack_rejected"
			}
			outcomes[p.places[i]] = d
		}
		spreadDead(decided, p, outcomes, operations)
	}
	if reason == "" && h.repeats(operations) {
		reason = "duplicate"
	}
	for _, o := range operations {
		if o.group == "" && (reason == "" || h.exists(o.queue, o.into)) { // what is pushed to in vain may have been made all the same
			h.provide(o.queue).provide(o.into)
		}
	}
	if reason != "" {
		undo()
	}
	return outcomes, reason
}

// repeats says whether a push of the transaction names a message that is there already.
func (h *history) repeats(operations []operation) bool {
	for _, o := range operations {
		if o.group != "" {
			continue
		}
		q := h.queue(o.queue)
		if q == nil || q.window == 0 {
			continue
		}
		if p := q.partition(o.into); p != nil && p.find(o.key, 0, len(p.messages)-1) >= 0 {
			return true
		}
	}
	return false
}

// exists says whether a partition does, for the model or in the cell.
func (h *history) exists(queueName, partitionName string) (is bool) {
	if q := h.queue(queueName); q != nil && q.partition(partitionName) != nil {
		return true
	}
	if err := h.db.QueryRow(h.Context(), `SELECT EXISTS (SELECT FROM queen.queues q JOIN queen.partitions p ON p.queue_id = q.id
		WHERE q.name = $1 AND p.name = $2 AND q.deleted_at IS NULL)`, queueName, partitionName).Scan(&is); err != nil {
		h.Fatal(err)
	}
	return is
}

// spreadDead has every ack of a partition and group say that a message there became a dead letter.
func spreadDead(decided []outcome, p *ackPart, outcomes []outcome, operations []operation) {
	for _, d := range decided {
		if !d.Dead {
			continue
		}
		for i, o := range operations {
			if o.group == p.group && o.partition == p.partition {
				outcomes[i].Dead = true
			}
		}
	}
}

// ackPart is the acks of a transaction that are decided as one.
type ackPart struct {
	partition *partition
	group     string
	lease     *lease
	anywhere  bool // some operation names a lease
	places    []int
	items     []item
}

// parts sorts acks by partition, group and lease; one that names none goes by the first that another one there names.
func parts(operations []operation) (found []*ackPart) {
	anywhere := false
	for _, o := range operations {
		anywhere = anywhere || o.lease != nil
	}
	for i, o := range operations {
		if o.group == "" {
			continue
		}
		for _, other := range operations {
			if o.lease == nil && other.group == o.group && other.partition == o.partition {
				o.lease = other.lease
			}
		}
		var into *ackPart
		for _, p := range found {
			if p.partition == o.partition && p.group == o.group && p.lease == o.lease {
				into = p
			}
		}
		if into == nil {
			into = &ackPart{partition: o.partition, group: o.group, lease: o.lease, anywhere: anywhere}
			found = append(found, into)
		}
		into.places, into.items = append(into.places, i), append(into.items, o.item)
	}
	return found
}

// nobodys is a lease that was never given.
var nobodys = &lease{number: -1}

// recorded is the lease of acks that name none.
func recorded(c *cursor, anywhere bool, required []*lease) *lease {
	if len(required) == 0 {
		if anywhere {
			return c.lease
		}
		return nil
	}
	for _, candidate := range []*lease{c.lease, c.completed} {
		for _, l := range required {
			if l == candidate && l != nil {
				return l
			}
		}
	}
	return nobodys
}

// remember returns what undoes all that happens to cursors and dead letters from now on.
func (h *history) remember() (undo func()) {
	cursors, letters := make(map[*cursor]cursor), make(map[*queue]int)
	for _, q := range h.queues {
		letters[q] = len(q.dead)
		for _, s := range q.groups {
			for _, c := range s.cursors {
				cursors[c] = *c
			}
		}
	}
	return func() {
		for c, before := range cursors {
			*c = before
		}
		for q, n := range letters {
			q.dead = q.dead[:n]
		}
	}
}

// pushedBy notes the messages of a transaction that was committed.
func (h *history) pushedBy(operations []operation, results []result) {
	first := make(map[string]string)
	for i, o := range operations {
		if o.group != "" {
			continue
		}
		r, name := results[i], o.queue+" "+o.into+" "+o.key
		id, again := first[name]
		if r.Type != "push" || !r.Success || r.MessageID == "" || r.QueueName != o.queue || r.TransactionID != o.key || r.Duplicate != again || again && r.MessageID != id {
			h.Fatalf("push of %s: %+v, duplicate %v of %s", o.key, r, again, id)
		}
		if !again {
			first[name] = r.MessageID
			p := h.queue(o.queue).partition(o.into)
			p.messages = append(p.messages, message{r.MessageID, o.key, o.body})
		}
	}
}
