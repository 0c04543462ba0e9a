package wire

import (
	"strconv"

	"github.com/google/uuid"

	"queen.internal/pkg/queue"
)

// transactionReader takes the operations out of a body that is valid JSON. It walks what it needs again, which costs less
// than knowing in advance what a member means whose type may stand behind it. The first fault of meaning sticks.
type transactionReader struct {
	data        []byte
	transaction Transaction
	fault       error
}

func (t *transactionReader) read(spans *topSpans) {
	for _, rider := range []struct {
		name string
		at   span
	}{{"kv", spans.kv}, {"timers", spans.timers}} {
		if !t.absent(rider.at) && !t.emptyArray(rider.at) {
			// Leaving it out would carry out half of what belongs together.
			t.refuse(rider.name, "is not supported")
		}
	}
	if key, given := t.text("idempotencyKey", spans.idempotencyKey); given && t.fault == nil {
		t.transaction.IdempotencyKey, t.fault = key, checkIdempotencyKey(key)
	}
	if t.array(spans.operations) {
		t.transaction.Operations = []Operation{}
		t.at(spans.operations).elements(t.operation)
	} else if t.fault == nil {
		t.fault = queue.Invalid("operations", noOperations)
	}
	t.leases(spans.requiredLeases)
	if t.fault != nil {
		t.transaction = Transaction{}
	}
}

func (t *transactionReader) leases(at span) {
	const field = "requiredLeases"
	if t.absent(at) {
		return
	}
	if !t.array(at) {
		t.refuse(field, "is not an array")
		return
	}
	t.at(at).elements(func(index int, at span) {
		if lease, _ := t.text(field+"["+strconv.Itoa(index)+"]", at); lease != "" {
			t.transaction.RequiredLeases = append(t.transaction.RequiredLeases, lease)
		}
	})
}

// operationSpans are the values of one operation or item.
type operationSpans struct {
	kind, items                                       span
	queue, partition, transactionID, payload, traceID span
	partitionID, leaseID, status, group, reason       span
	data                                              span
}

func (o *operationSpans) take(key string, at span) {
	switch key {
	case "type":
		o.kind = at
	case "items":
		o.items = at
	case "queue":
		o.queue = at
	case "partition":
		o.partition = at
	case "transactionId":
		o.transactionID = at
	case "payload":
		o.payload = at
	case "data":
		o.data = at
	case "traceId":
		o.traceID = at
	case "partitionId":
		o.partitionID = at
	case "leaseId":
		o.leaseID = at
	case "status":
		o.status = at
	case "consumerGroup":
		o.group = at
	case "error":
		o.reason = at
	}
}

func (t *transactionReader) operation(index int, at span) {
	if t.fault != nil {
		return
	}
	path := "operations[" + strconv.Itoa(index) + "]"
	spans, ok := t.object(path, at)
	if !ok {
		return
	}
	kind := ""
	if at := spans.kind; !t.absent(at) && t.data[at.start] == '"' {
		kind, _ = t.text(path+".type", at)
	}
	switch kind {
	case "ack":
		t.ack(path+".", &spans)
	case "push":
		if t.absent(spans.items) {
			t.push(path+".", &spans)
			return
		}
		if !t.array(spans.items) {
			t.refuse(path+".items", "is not an array")
			return
		}
		t.at(spans.items).elements(func(index int, at span) {
			path := path + ".items[" + strconv.Itoa(index) + "]"
			if item, ok := t.object(path, at); ok {
				t.push(path+".", &item)
			}
		})
	default:
		t.fault = queue.Invalid(path+".type", unsupportedType)
	}
}

func (t *transactionReader) object(path string, at span) (spans operationSpans, ok bool) {
	if t.fault != nil {
		return spans, false
	}
	if t.data[at.start] != '{' {
		t.refuse(path, "is not an object")
		return spans, false
	}
	t.at(at).members(spans.take)
	return spans, true
}

func (t *transactionReader) ack(path string, spans *operationSpans) {
	o := Operation{IsAck: true, Group: queue.QueueMode}
	o.Ack.TransactionID, _ = t.text(path+"transactionId", spans.transactionID)
	o.Ack.PartitionID, _ = t.text(path+"partitionId", spans.partitionID)
	o.Ack.LeaseID, _ = t.text(path+"leaseId", spans.leaseID)
	o.Ack.Reason, _ = t.text(path+"error", spans.reason)
	if status, given := t.text(path+"status", spans.status); given {
		o.Ack.Status = ackStatus(status)
	}
	if name, _ := t.text(path+"consumerGroup", spans.group); name != "" {
		o.Group = name
		t.check(path+"consumerGroup", queue.CheckName(path+"consumerGroup", name))
	}
	t.transaction.Operations = append(t.transaction.Operations, o)
}

func (t *transactionReader) push(path string, spans *operationSpans) {
	o := Operation{Push: PushItem{Partition: queue.DefaultPartition, Payload: []byte("{}")}}
	name, given := t.text(path+"queue", spans.queue)
	if !given {
		t.refuse(path+"queue", "is missing")
	}
	o.Push.Queue = name
	t.check(path+"queue", queue.CheckName(path+"queue", name))
	if partition, given := t.text(path+"partition", spans.partition); given {
		o.Push.Partition = partition
		t.check(path+"partition", queue.CheckName(path+"partition", partition))
	}
	o.Push.TransactionID, _ = t.text(path+"transactionId", spans.transactionID)
	t.check(path+"transactionId", queue.CheckTransactionID(path+"transactionId", o.Push.TransactionID))
	for _, at := range []span{spans.payload, spans.data} {
		if at.end > at.start {
			o.Push.Payload = t.data[at.start:at.end:at.end]
			break
		}
	}
	o.TraceID = t.uuid(spans.traceID)
	t.transaction.Operations = append(t.transaction.Operations, o)
}

// uuid is a value that is the text of one; everything else is none.
func (t *transactionReader) uuid(at span) *uuid.UUID {
	const quoted = 38
	if at.end-at.start != quoted || t.data[at.start] != '"' {
		return nil
	}
	id, err := uuid.ParseBytes(t.data[at.start+1 : at.end-1])
	if err != nil {
		return nil
	}
	return &id
}

// text is the text of a value that must be a string, and whether there is one; null counts as absent.
func (t *transactionReader) text(path string, at span) (string, bool) {
	if t.absent(at) {
		return "", false
	}
	if t.data[at.start] != '"' {
		t.refuse(path, "is not a string")
		return "", false
	}
	text, ok := unescape(nil, t.data[at.start+1:at.end-1])
	if !ok {
		t.refuse(path, "contains half of a surrogate pair")
		return "", false
	}
	return string(text), true
}

func (t *transactionReader) at(at span) *scanner { return &scanner{data: t.data, pos: at.start} }

func (t *transactionReader) absent(at span) bool {
	return at.end == at.start || t.data[at.start] == 'n'
}

func (t *transactionReader) array(at span) bool { return at.end > at.start && t.data[at.start] == '[' }

func (t *transactionReader) emptyArray(at span) bool {
	empty := t.array(at)
	if empty {
		t.at(at).elements(func(int, span) { empty = false })
	}
	return empty
}

func (t *transactionReader) refuse(path, what string) {
	if t.fault == nil {
		t.fault = badBody(path, path+" "+what)
	}
}

// check keeps the fault that a rule of pkg/queue found.
func (t *transactionReader) check(path string, err error) {
	if err != nil && t.fault == nil {
		t.fault = badBody(path, err.Error())
	}
}
