package wire

import (
	"bytes"
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"

	"queen.internal/pkg/queue"
)

func TestScanTransaction(t *testing.T) {
	t.Parallel()
	trace := uuid.MustParse("6f0c2a52-1b6e-4e0e-9f63-8b6e0c5f2d10")
	plain := PushItem{Queue: "q", Partition: queue.DefaultPartition, Payload: []byte("{}")}
	for name, test := range map[string]struct {
		body string
		want Transaction
	}{
		"no operations": {`{"operations":[]}`, Transaction{Operations: []Operation{}}},
		"every field of an ack": {
			`{"operations":[{"type":"ack","transactionId":"t","partitionId":"p","status":"dlq","consumerGroup":"g","leaseId":"l","error":"e"}]}`,
			Transaction{Operations: []Operation{{IsAck: true, Group: "g", Ack: AckItem{"t", "p", "l", AckDeadLetter, "e"}}}},
		},
		"an ack without anything": {
			`{"operations":[{"type":"ack","consumerGroup":"","status":null}]}`,
			Transaction{Operations: []Operation{{IsAck: true, Group: queue.QueueMode}}},
		},
		"an item in place, its type last": {
			`{"operations":[{"queue":"q","items":null,"partition":"p","payload": [1 , 2] ,"transactionId":"t","traceId":"6F0C2A52-1b6e-4e0e-9f63-8b6e0c5f2d10","type":"push"}]}`,
			Transaction{Operations: []Operation{{Push: PushItem{"q", "p", "t", []byte("[1 , 2]")}, TraceID: &trace}}},
		},
		"items go before what stands beside them": {
			`{"operations":[{"type":"push","queue":"no","items":[{"queue":"q"},{"queue":"r","data":null}]},{"type":"push","items":[]}]}`,
			Transaction{Operations: []Operation{{Push: plain}, {Push: PushItem{"r", queue.DefaultPartition, "", []byte("null")}}}},
		},
		"payload goes before data": {
			`{"operations":[{"type":"push","queue":"q","data":1,"payload":null,"transactionId":"","traceId":"{f0c2a52-1b6e-4e0e-9f63-8b6e0c5f2d10}"}]}`,
			Transaction{Operations: []Operation{{Push: PushItem{"q", queue.DefaultPartition, "", []byte("null")}}}},
		},
		"leases and a key": {
			`{"requiredLeases":["a",null,"","b"],"operations":[],"idempotencyKey":"\u0000k","kv":[],"timers":null,"more":{}}`,
			Transaction{Operations: []Operation{}, RequiredLeases: []string{"a", "b"}, IdempotencyKey: "\x00k"},
		},
		"the last of a key counts": {
			`{"operations":7,"\u006fperations":[{"type":"ack","type":"push","queue":"no","queue":"q"}],"requiredLeases":["x"],"requiredLeases":null}`,
			Transaction{Operations: []Operation{{Push: plain}}},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got, err := ScanTransaction([]byte(test.body))
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestScanTransaction_Faults(t *testing.T) {
	t.Parallel()
	const item = "operations[1].items[1]."
	nested := func(fields string) string {
		return `{"operations":[{"type":"ack"},{"type":"push","items":[{"queue":"q"},{` + fields + `}]}]}`
	}
	for body, want := range map[string]struct{ field, text string }{
		``:                                   {"", "bad body: "},
		`[]`:                                 {"", "bad body: the body is not an object"},
		`{"operations":[`:                    {"", "bad body: "},
		`{"operations":[]} x`:                {"", "bad body: "},
		"{\"operations\":[\"\xff\"]}":        {"", "bad body: not valid UTF-8"},
		`{}`:                                 {"operations", noOperations},
		`{"operations":null}`:                {"operations", noOperations},
		`{"operations":{}}`:                  {"operations", noOperations},
		`{"operations":[{}]}`:                {"operations[0].type", unsupportedType},
		`{"operations":[{"type":"kv"}]}`:     {"operations[0].type", unsupportedType},
		`{"operations":[{"type":["push"]}]}`: {"operations[0].type", unsupportedType},
		`{"operations":[{"type":"ack"},7]}`:  {"operations[1]", "operations[1] is not an object"},
		`{"operations":[{"type":"push"}]}`:   {"operations[0].queue", "is missing"},
		`{"operations":[{"type":"push","items":{}}]}`:                              {"operations[0].items", "is not an array"},
		`{"operations":[{"type":"push","items":[[]]}]}`:                            {"operations[0].items[0]", "is not an object"},
		`{"operations":[{"type":"ack","transactionId":1}]}`:                        {"operations[0].transactionId", "is not a string"},
		`{"operations":[{"type":"ack","consumerGroup":"a\u0001"}]}`:                {"operations[0].consumerGroup", "control character"},
		nested(`"queue":null`):                                                     {item + "queue", "is missing"},
		nested(`"queue":"a\tb"`):                                                   {item + "queue", "control character"},
		nested(`"queue":"` + strings.Repeat("x", 2049) + `"`):                      {item + "queue", "2049 bytes"},
		nested(`"queue":"q","partition":"\u007f"`):                                 {item + "partition", "control character"},
		nested(`"queue":"q","partition":7`):                                        {item + "partition", "is not a string"},
		nested(`"queue":"q","transactionId":"\ud800"`):                             {item + "transactionId", "surrogate"},
		nested(`"queue":"q","transactionId":"` + strings.Repeat("x", 65536) + `"`): {item + "transactionId", "65536 bytes"},
		`{"operations":[],"idempotencyKey":""}`:                                    {"idempotencyKey", "1 to 512"},
		`{"operations":[],"idempotencyKey":7}`:                                     {"idempotencyKey", "is not a string"},
		`{"operations":[],"idempotencyKey":"` + strings.Repeat("é", 257) + `"}`:    {"idempotencyKey", "514 bytes"},
		`{"operations":[],"requiredLeases":"l"}`:                                   {"requiredLeases", "is not an array"},
		`{"operations":[],"requiredLeases":["l",{}]}`:                              {"requiredLeases[1]", "is not a string"},
		`{"operations":[],"kv":[{}]}`:                                              {"kv", "is not supported"},
		`{"operations":[],"timers":7}`:                                             {"timers", "is not supported"},
	} {
		got, err := ScanTransaction([]byte(body))
		var fault *queue.Error
		if !errors.As(err, &fault) || fault.Kind != queue.KindInvalid || fault.Field != want.field || !strings.Contains(fault.Message, want.text) {
			t.Errorf("%.80s: %v", body, err)
		}
		if diff := cmp.Diff(Transaction{}, got); diff != "" {
			t.Errorf("%.80s: %s", body, diff)
		}
	}
}

func TestAppendTransaction(t *testing.T) {
	t.Parallel()
	id := uuid.MustParse("01990a10-7c1e-7b60-9f10-2f6c0a4b8d11")
	got := [][]byte{
		AppendTransaction(nil, id, nil),
		AppendTransaction(nil, id, []OperationResult{
			{IsAck: true, TransactionID: `"a"`},
			{IsAck: true, TransactionID: "b", Error: "already committed", DeadLettered: true},
			{TransactionID: "c", MessageID: id, Queue: "q<\n>"},
			{TransactionID: "c", MessageID: id, Queue: "q", Duplicate: true},
		}),
		AppendTransactionFailure(nil, id, &TransactionFailure{Error: `QTXN "x"`, Reason: ReasonAckRejected, Index: 0}),
		AppendTransactionFailure(nil, id, &TransactionFailure{Error: "QDUP duplicate", Reason: ReasonDuplicate, Index: 3, Duplicates: []TransactionDuplicate{
			{3, "x", id}, {4, "\u2028", uuid.Nil},
		}}),
		AppendTransactionFailure(nil, id, &TransactionFailure{Error: noOperations, Reason: ReasonBadRequest, Index: -1}),
	}
	golden(t, "transaction.jsonl", append(bytes.Join(got, []byte("\n")), '\n'))
}
