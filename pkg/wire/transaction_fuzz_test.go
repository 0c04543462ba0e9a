package wire

import (
	"encoding/json"
	"testing"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"

	"queen.internal/pkg/queue"
)

// FuzzScanTransaction compares the scanner with the standard decoder: both accept the same bodies and find the same.
func FuzzScanTransaction(f *testing.F) {
	for _, seed := range []string{
		`{"operations":[{"type":"ack","transactionId":"t","partitionId":"p","status":"retry","consumerGroup":"g","leaseId":"l","error":"e"}],"requiredLeases":["l",null,""]}`,
		`{"operations":[{"items":[{"queue":"q","payload":{"x":[1,2.5e-3]}},{"queue":"\ud83d\ude00","data":null,"partition":"","transactionId":"\u0041"}],"type":"push"}],"idempotencyKey":"k"}`,
		`{"operations":[{"type":"push","queue":"q","traceId":"6f0c2a52-1b6e-4e0e-9f63-8b6e0c5f2d10","payload":1,"payload":null}],"kv":[],"timers":null}`,
		`{"operations":[{"type":"ack"}],"operations":[{"\u0074ype":"push","queue":"\ud800"}]}`,
		`{"operations":[],"requiredLeases":{},"idempotencyKey":""} `,
		"[{\"operations\":\"\x80\"}]",
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		want, accept := decodeTransaction(body)
		got, err := ScanTransaction(body)
		if accept != (err == nil) {
			t.Fatalf("accept is %v, error is %v", accept, err)
		}
		if err != nil {
			if queue.KindOf(err) != queue.KindInvalid || !utf8.ValidString(err.Error()) {
				t.Fatalf("a bad body is told by %q", err)
			}
			return
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Fatal(diff)
		}
	})
}

// decodeTransaction is ScanTransaction by way of encoding/json.
func decodeTransaction(body []byte) (Transaction, bool) {
	var top map[string]json.RawMessage
	if !utf8.Valid(body) || depth(body) > MaxDepth || json.Unmarshal(body, &top) != nil || top == nil {
		return Transaction{}, false
	}
	for _, rider := range []string{"kv", "timers"} {
		var elements []json.RawMessage
		if raw := top[rider]; raw != nil && (json.Unmarshal(raw, &elements) != nil || len(elements) > 0) {
			return Transaction{}, false
		}
	}
	t := Transaction{Operations: []Operation{}}
	key, ok := decodeText(top["idempotencyKey"])
	if !ok || key != nil && (len(*key) == 0 || len(*key) > MaxIdempotencyKeyBytes) {
		return Transaction{}, false
	}
	t.IdempotencyKey = value(key)
	var leases, operations []json.RawMessage
	if raw := top["requiredLeases"]; raw != nil && json.Unmarshal(raw, &leases) != nil {
		return Transaction{}, false
	}
	for _, raw := range leases {
		lease, ok := decodeText(raw)
		if !ok {
			return Transaction{}, false
		}
		if value(lease) != "" {
			t.RequiredLeases = append(t.RequiredLeases, *lease)
		}
	}
	if json.Unmarshal(top["operations"], &operations) != nil || operations == nil {
		return Transaction{}, false
	}
	for _, raw := range operations {
		found, ok := decodeOperation(raw)
		if !ok {
			return Transaction{}, false
		}
		t.Operations = append(t.Operations, found...)
	}
	return t, true
}

func value(text *string) string {
	if text == nil {
		return ""
	}
	return *text
}

func decodeOperation(raw json.RawMessage) ([]Operation, bool) {
	var fields map[string]json.RawMessage
	if json.Unmarshal(raw, &fields) != nil || fields == nil {
		return nil, false
	}
	kind, _ := decodeText(fields["type"])
	switch value(kind) {
	case "ack":
		o, ok := decodeAckOperation(fields)
		return []Operation{o}, ok
	case "push":
	default:
		return nil, false
	}
	items := []json.RawMessage{raw}
	if list := fields["items"]; list != nil && string(list) != "null" && json.Unmarshal(list, &items) != nil {
		return nil, false
	}
	var all []Operation
	for _, item := range items {
		o, ok := decodePushOperation(item)
		if !ok {
			return nil, false
		}
		all = append(all, o)
	}
	return all, true
}

func decodeAckOperation(fields map[string]json.RawMessage) (Operation, bool) {
	o := Operation{IsAck: true, Group: queue.QueueMode}
	var texts [6]*string
	for i, name := range []string{"transactionId", "partitionId", "leaseId", "error", "status", "consumerGroup"} {
		text, ok := decodeText(fields[name])
		if !ok {
			return o, false
		}
		texts[i] = text
	}
	o.Ack = AckItem{TransactionID: value(texts[0]), PartitionID: value(texts[1]), LeaseID: value(texts[2]), Reason: value(texts[3])}
	if texts[4] != nil {
		o.Ack.Status = ackStatus(*texts[4])
	}
	if name := value(texts[5]); name != "" {
		o.Group = name
	}
	return o, queue.CheckName("", o.Group) == nil
}

func decodePushOperation(raw json.RawMessage) (Operation, bool) {
	o := Operation{Push: PushItem{Partition: queue.DefaultPartition, Payload: []byte("{}")}}
	var fields map[string]json.RawMessage
	if json.Unmarshal(raw, &fields) != nil || fields == nil {
		return o, false
	}
	name, ok1 := decodeText(fields["queue"])
	partition, ok2 := decodeText(fields["partition"])
	id, ok3 := decodeText(fields["transactionId"])
	if !ok1 || !ok2 || !ok3 || name == nil {
		return o, false
	}
	o.Push.Queue, o.Push.TransactionID = *name, value(id)
	if partition != nil {
		o.Push.Partition = *partition
	}
	for _, field := range []string{"data", "payload"} {
		if raw := fields[field]; raw != nil {
			o.Push.Payload = raw
		}
	}
	var trace string
	if json.Unmarshal(fields["traceId"], &trace) == nil && string(fields["traceId"]) == `"`+trace+`"` && len(trace) == 36 {
		if id, err := uuid.Parse(trace); err == nil {
			o.TraceID = &id
		}
	}
	return o, queue.CheckName("", o.Push.Queue) == nil && queue.CheckName("", o.Push.Partition) == nil &&
		queue.CheckTransactionID("", o.Push.TransactionID) == nil
}
