package wire

import (
	"strconv"

	"queen.internal/pkg/queue"
)

// AckStatus is what an ack says of one message.
type AckStatus int

// The statuses every spelling comes down to.
const (
	AckCompleted AckStatus = iota
	AckRetry
	AckFailed
	AckDeadLetter
)

// AckItem is one message of an ack. Identifiers are as the client wrote them, empty when absent.
type AckItem struct {
	TransactionID string
	PartitionID   string
	LeaseID       string
	Status        AckStatus
	Reason        string
}

// AckRequest is the body of an ack, single or batch.
type AckRequest struct {
	Group string // queue.QueueMode when none was named
	Items []AckItem
}

// ScanAck reads the body of a single ack, which is one item. Unknown keys are ignored, null is the same as absent and
// of a repeated key the last counts. A body that cannot be an ack is an error of kind Invalid whose text begins with
// "bad body: ".
func ScanAck(body []byte) (AckRequest, error) {
	return scanAck(body, false)
}

// ScanAckBatch reads the body of a batch ack: a group and a list of items in request order, which may be empty. The
// rules are those of ScanAck.
func ScanAckBatch(body []byte) (AckRequest, error) {
	return scanAck(body, true)
}

func scanAck(body []byte, batch bool) (AckRequest, error) {
	if err := checkUTF8(body); err != nil {
		return AckRequest{}, err
	}
	a := ackScanner{scanner: scanner{data: body}, text: string(body), batch: batch}
	if !a.body() {
		return AckRequest{}, badBody("", a.reason+" (byte "+strconv.Itoa(a.pos)+")")
	}
	if a.fault != nil {
		return AckRequest{}, a.fault
	}
	group, err := a.group()
	if err != nil {
		return AckRequest{}, err
	}
	return AckRequest{Group: group, Items: a.items}, nil
}

// ackScanner walks an ack. Every string of the result is a slice of text, one copy of the body, unless an escape makes
// it another one.
type ackScanner struct {
	scanner
	text  string
	batch bool

	groupSpan span
	items     []AckItem
	fault     error // first fault of meaning; broken JSON further on goes before it
}

// span is where a value stands in the body; zero is absent.
type span struct{ start, end int }

// ackSpans are the values of one item.
type ackSpans struct{ transactionID, partitionID, leaseID, status, reason span }

func (a *ackScanner) body() bool {
	if a.blanks() != '{' {
		a.fault = badBody("", "the body is not an object")
		return a.value(0) && a.end()
	}
	var single ackSpans
	for more := a.open(0) && a.first('}'); more; more = a.next('}') {
		key, ok := a.key()
		if !ok || !a.topMember(ackKey(key), &single) {
			return false
		}
	}
	if a.reason != "" || !a.end() {
		return false
	}
	if !a.batch {
		a.take("", &single)
	}
	return true
}

func (a *ackScanner) end() bool {
	if a.blanks(); a.pos < len(a.data) {
		return a.fail("more follows after the end of the value")
	}
	return true
}

func (a *ackScanner) topMember(key string, single *ackSpans) bool {
	switch {
	case key == "consumerGroup":
		return a.span(1, &a.groupSpan)
	case a.batch && key == "acknowledgments":
		return a.list()
	case a.batch:
		return a.value(1)
	}
	return a.member(1, key, single)
}

// span moves over a value and keeps where it stands.
func (a *ackScanner) span(depth int, s *span) bool {
	a.blanks()
	s.start = a.pos
	ok := a.value(depth)
	s.end = a.pos
	return ok
}

func (a *ackScanner) list() bool {
	a.items, a.fault = nil, nil // of a repeated key the last counts
	switch a.blanks() {
	case '[':
	case 'n':
		return a.value(1)
	default:
		a.refuse("acknowledgments", "is not an array")
		return a.value(1)
	}
	index := 0
	for more := a.open(1) && a.first(']'); more; more = a.next(']') {
		if !a.item("acknowledgments[" + strconv.Itoa(index) + "]") {
			return false
		}
		index++
	}
	return a.reason == ""
}

func (a *ackScanner) item(path string) bool {
	if a.blanks() != '{' {
		a.refuse(path, "is not an object")
		return a.value(2)
	}
	var spans ackSpans
	for more := a.open(2) && a.first('}'); more; more = a.next('}') {
		key, ok := a.key()
		if !ok || !a.member(3, ackKey(key), &spans) {
			return false
		}
	}
	if a.reason != "" {
		return false
	}
	a.take(path+".", &spans)
	return true
}

func (a *ackScanner) member(depth int, key string, spans *ackSpans) bool {
	switch key {
	case "transactionId":
		return a.span(depth, &spans.transactionID)
	case "partitionId":
		return a.span(depth, &spans.partitionID)
	case "leaseId":
		return a.span(depth, &spans.leaseID)
	case "status":
		return a.span(depth, &spans.status)
	case "error":
		return a.span(depth, &spans.reason)
	}
	return a.value(depth)
}

func (a *ackScanner) take(path string, spans *ackSpans) {
	var item AckItem
	item.TransactionID, _ = a.string(path+"transactionId", spans.transactionID)
	item.PartitionID, _ = a.string(path+"partitionId", spans.partitionID)
	item.LeaseID, _ = a.string(path+"leaseId", spans.leaseID)
	item.Reason, _ = a.string(path+"error", spans.reason)
	if status, given := a.string(path+"status", spans.status); given {
		item.Status = ackStatus(status)
	}
	a.items = append(a.items, item)
}

// string is the text of a value that must be a string, and whether there is one; null counts as absent.
func (a *ackScanner) string(path string, s span) (string, bool) {
	if s.end == s.start || a.data[s.start] == 'n' {
		return "", false
	}
	if a.data[s.start] != '"' {
		a.refuse(path, "is not a string")
		return "", false
	}
	raw := a.data[s.start+1 : s.end-1]
	text, ok := unescape(nil, raw)
	if !ok {
		a.refuse(path, "contains half of a surrogate pair")
		return "", false
	}
	if len(text) == len(raw) { // an escape is always longer than what it stands for
		return a.text[s.start+1 : s.end-1], true
	}
	return string(text), true
}

// group is the consumer group in force; the empty name is as good as none.
func (a *ackScanner) group() (string, error) {
	const field = "consumerGroup"
	name, _ := a.string(field, a.groupSpan)
	if a.fault != nil || name == "" {
		return queue.QueueMode, a.fault
	}
	if err := queue.CheckName(field, name); err != nil {
		return "", badBody(field, err.Error())
	}
	return name, nil
}

func (a *ackScanner) refuse(path, what string) {
	if a.fault == nil {
		a.fault = badBody(path, path+" "+what)
	}
}

// ackStatus is the exact, case-sensitive table of the contract: what is none of its words is a failure.
func ackStatus(text string) AckStatus {
	switch text {
	case "completed", "success", "acked", "ok":
		return AckCompleted
	case "retry":
		return AckRetry
	case "dlq":
		return AckDeadLetter
	}
	return AckFailed
}

// ackKey is a known key, or empty. Keys may be escaped like any string.
func ackKey(key []byte) string {
	text, ok := unescape(nil, key)
	if !ok {
		return ""
	}
	switch string(text) {
	case "transactionId":
		return "transactionId"
	case "partitionId":
		return "partitionId"
	case "leaseId":
		return "leaseId"
	case "status":
		return "status"
	case "error":
		return "error"
	case "consumerGroup":
		return "consumerGroup"
	case "acknowledgments":
		return "acknowledgments"
	}
	return ""
}
