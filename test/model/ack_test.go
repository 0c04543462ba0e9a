package model_test

import (
	"fmt"
	"strings"

	"github.com/google/uuid"

	"queen.internal/pkg/client"
)

// said is how signals are spelt on the wire.
var said = map[signal][]string{
	completed: {"completed", "", "success", "acked", "ok"}, retry: {"retry"}, failed: {"failed", "nack", "Completed"}, dead: {"dlq"},
}

// target is one item of an ack, and of what.
type target struct {
	item
	partition *partition // nil: unknown to everybody
	lease     *lease     // nil: none
	status    string
}

func (h *history) target(p *partition, l *lease, key string, s signal) target {
	t := target{item{key, s, ""}, p, l, h.pick("status", said[s]...)}
	if s != completed && h.oneIn(2, "reason?") {
		t.reason = fmt.Sprint("because of ", key)
	}
	return t
}

func (h *history) signal() signal {
	return []signal{completed, completed, failed, failed, retry, dead}[h.number("signal", 0, 5)]
}

// lastSpan is one of the spans delivered lately.
func (h *history) lastSpan() *span {
	if len(h.spans) == 0 {
		h.Skip("nothing was delivered")
	}
	return &h.spans[max(len(h.spans)-1-h.number("span", 0, 2), 0)]
}

// ackSpan acknowledges all that a pop delivered of a partition, or the beginning of it, with one signal at any place.
func (h *history) ackSpan() {
	s := h.lastSpan()
	last := h.number("up to", 0, s.last-s.first)
	var targets []target
	signalled := h.number("signalled", 0, 2*last+1) // half of the time none
	for i := range last + 1 {
		what := completed
		if i == signalled {
			what = h.signal()
		}
		targets = append(targets, h.target(s.partition, s.lease, s.partition.messages[s.first+i].key, what))
	}
	h.ack(s.group, targets)
}

// ackLast acknowledges the last message of a span, and nothing else.
func (h *history) ackLast() {
	s := h.lastSpan()
	h.ack(s.group, []target{h.target(s.partition, s.lease, s.partition.messages[s.last].key, h.signal())})
}

// ackAnything acknowledges whatever comes to mind, of any partition, under any lease or none, for any group.
func (h *history) ackAnything() {
	group := h.pick("group", h.groupNames...)
	var targets []target
	for range h.number("items", 1, 4) {
		s := h.lastSpan()
		t := h.target(s.partition, s.lease, h.pick("key", keys...), h.signal())
		switch h.number("lease", 0, 5) {
		case 0, 1:
			t.lease = nil
		case 2:
			t.lease = h.leases[h.number("of all", 0, len(h.leases)-1)]
		case 3:
			t.partition = nil
		}
		if h.oneIn(2, "group of the span") {
			group = s.group
		}
		targets = append(targets, t)
	}
	h.ack(group, targets)
}

// ack sends one call and compares its results.
func (h *history) ack(group string, targets []target) {
	acks := make([]client.Acknowledgment, len(targets))
	var text []string
	for i, t := range targets {
		a := client.Acknowledgment{TransactionID: t.key, PartitionID: uuid.Max.String(), Status: t.status, Error: t.reason}
		where := "nowhere"
		if t.partition != nil {
			a.PartitionID, where = t.partition.uid, short(t.partition.queue.name)+"/"+t.partition.name
		}
		if t.lease != nil {
			a.LeaseID = t.lease.id
		}
		acks[i] = a
		text = append(text, fmt.Sprintf("%s %s %q under %s", where, t.key, t.status, named(t.lease)))
	}
	h.Logf("ack for %s: %s", group, strings.Join(text, ", "))
	var results []client.AckResult
	var err error
	if cl := h.reader(); len(acks) == 1 {
		var result client.AckResult
		result, err = cl.Ack(h.Context(), group, acks[0])
		results = append(results, result)
	} else {
		results, err = cl.AckBatch(h.Context(), group, acks)
	}
	if err != nil {
		h.Fatal(err)
	}
	for i, want := range h.decide(group, targets) {
		switch {
		case want.Error != "":
			h.count("refused: "+want.Error, 1)
		case want.Noop:
			h.count("noop", 1)
		case want.Dead:
			h.count("dead", 1)
		default:
			h.count("applied", 1)
		}
		h.acked(&targets[i], &results[i], want)
	}
}

// decide has the model decide on each part of a call, in the order of partitions and then of the call.
func (h *history) decide(group string, targets []target) []outcome {
	type part struct {
		partition *partition
		lease     *lease
		places    []int
		items     []item
	}
	var parts []*part
	for i, t := range targets {
		var into *part
		for _, known := range parts {
			if known.partition == t.partition && known.lease == t.lease {
				into = known
			}
		}
		if into == nil {
			into = &part{partition: t.partition, lease: t.lease}
			parts = append(parts, into)
		}
		into.places, into.items = append(into.places, i), append(into.items, t.item)
	}
	outcomes := make([]outcome, len(targets))
	var late []*part
	for _, each := range parts {
		decided, done := h.decidePart(group, each.partition, each.lease, each.items, false)
		if !done {
			late = append(late, each)
		}
		for i := range decided {
			outcomes[each.places[i]] = decided[i]
		}
	}
	// Parts are independent of each other; those that file a dead letter are decided after the others, which shows when
	// two of a partition are in one call.
	for _, each := range late {
		decided, _ := h.decidePart(group, each.partition, each.lease, each.items, true)
		for i := range decided {
			outcomes[each.places[i]] = decided[i]
		}
	}
	return outcomes
}

// decidePart decides on one part; one that files a dead letter is not done without bury.
func (h *history) decidePart(group string, p *partition, l *lease, items []item, bury bool) (decided []outcome, done bool) {
	if p == nil || h.queue(p.queue.name) != p.queue {
		decided = make([]outcome, len(items))
		for i := range decided {
			decided[i].Error = noConsumer
		}
		return decided, true
	}
	q, filed := p.queue, len(p.queue.dead)
	var before cursor
	s := q.groups[group]
	if s != nil && s.cursors[p] != nil {
		before = *s.cursors[p]
	}
	if decided = q.ack(group, p, l, items); bury || len(q.dead) == filed {
		return decided, true
	}
	*s.cursors[p], q.dead = before, q.dead[:filed]
	return nil, false
}

func (h *history) acked(t *target, got *client.AckResult, want outcome) {
	message := ""
	if got.Error != nil {
		message = *got.Error
	}
	if got.Success != want.Success || got.LeaseReleased != want.Released || got.DeadLettered != want.Dead || got.Noop != want.Noop ||
		(message == "") != (want.Error == "") || !strings.Contains(message, want.Error) || got.TransactionID != t.key {
		h.Fatalf("ack of %s: %+v (%s), want %+v", t.key, *got, message, want)
	}
}
