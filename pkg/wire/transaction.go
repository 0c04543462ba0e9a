package wire

import (
	"strconv"

	"github.com/google/uuid"

	"queen.internal/pkg/queue"
)

// MaxIdempotencyKeyBytes bounds what a client may call a transaction.
const MaxIdempotencyKeyBytes = 512

// Transaction is the body of a transaction.
type Transaction struct {
	Operations     []Operation // every pushed item is one, in request order
	RequiredLeases []string    // as the client wrote them, without empty ones
	IdempotencyKey string      // empty: none
}

// Operation is one ack, or one message to push.
type Operation struct {
	IsAck   bool
	Ack     AckItem
	Group   string // of the ack, queue.QueueMode when none was named
	Push    PushItem
	TraceID *uuid.UUID // of the message; nil when what stands there is none
}

// What the contract says word by word of bodies that are no transaction.
const (
	noOperations    = "transaction requires an operations array"
	unsupportedType = "segments transaction supports only push and ack operations"
)

// ScanTransaction reads the body of a transaction. Payloads are slices of body, unknown keys are ignored, null is the same
// as absent, except as a payload, and of a repeated key the last counts. A body that is no JSON object is an error of kind
// Invalid without a field; every other fault, of the same kind, names one.
func ScanTransaction(body []byte) (Transaction, error) {
	if err := checkUTF8(body); err != nil {
		return Transaction{}, err
	}
	s := scanner{data: body}
	var spans topSpans
	object := s.blanks() == '{'
	if object {
		s.members(func(key string, at span) {
			spans.take(key, at)
		})
	} else {
		s.value(0)
	}
	if s.blanks(); s.reason == "" && s.pos < len(s.data) {
		s.fail("more follows after the end of the value")
	}
	if s.reason != "" {
		return Transaction{}, badBody("", s.reason+" (byte "+strconv.Itoa(s.pos)+")")
	}
	if !object {
		return Transaction{}, badBody("", "the body is not an object")
	}
	t := transactionReader{data: body}
	t.read(&spans)
	return t.transaction, t.fault
}

// topSpans are the values of a body.
type topSpans struct{ operations, requiredLeases, idempotencyKey, kv, timers span }

func (t *topSpans) take(key string, at span) {
	switch key {
	case "operations":
		t.operations = at
	case "requiredLeases":
		t.requiredLeases = at
	case "idempotencyKey":
		t.idempotencyKey = at
	case "kv":
		t.kv = at
	case "timers":
		t.timers = at
	}
}

// members moves over the object at pos and tells of each member where its value stands.
func (s *scanner) members(tell func(key string, at span)) {
	for more := s.open(0) && s.first('}'); more; more = s.next('}') {
		raw, ok := s.key()
		if !ok {
			return
		}
		s.blanks()
		start := s.pos
		if !s.value(1) {
			return
		}
		if name, ok := unescape(nil, raw); ok {
			tell(string(name), span{start, s.pos})
		}
	}
}

// elements moves over the array at pos and tells of each element where it stands.
func (s *scanner) elements(tell func(index int, at span)) {
	index := 0
	for more := s.open(0) && s.first(']'); more; more = s.next(']') {
		s.blanks()
		start := s.pos
		if !s.value(1) {
			return
		}
		tell(index, span{start, s.pos})
		index++
	}
}

// checkIdempotencyKey says whether a given key may be one. It is only compared, so it may hold anything.
func checkIdempotencyKey(key string) error {
	const field = "idempotencyKey"
	if len(key) == 0 || len(key) > MaxIdempotencyKeyBytes {
		return queue.Invalid(field, "bad body: "+field+" is "+strconv.Itoa(len(key))+" bytes long, 1 to "+
			strconv.Itoa(MaxIdempotencyKeyBytes)+" are allowed")
	}
	return nil
}
