package wire

import (
	"fmt"
	"strconv"
	"strings"
	"unicode/utf8"

	"queen.internal/pkg/queue"
)

// PushItem is one message of a push as its producer wrote it.
type PushItem struct {
	Queue         string
	Partition     string // queue.DefaultPartition when the item names none
	TransactionID string // empty when the item has none: the message id takes its place
	Payload       []byte // the exact bytes of the JSON value, a slice of the body
}

// ScanPush reads the body of a push in one pass: it validates the JSON, payloads included, and unescapes the names.
// Items stay in request order, payloads alias body, unknown keys are ignored and of a repeated key the last counts. A
// body that cannot be a push is an error of kind Invalid whose text begins with "bad body: " and says which item and
// field is at fault; there is no item then, since a push is refused whole.
func ScanPush(body []byte) ([]PushItem, error) {
	if err := checkUTF8(body); err != nil {
		return nil, err
	}
	p := pushScanner{scanner: scanner{data: body}, index: outside}
	if !p.body() {
		return nil, p.syntaxError()
	}
	if p.fault != nil {
		return nil, p.fault
	}
	if !p.found {
		return nil, badBody("items", "items is missing")
	}
	return p.items, nil
}

// outside is the index while the scanner is in no item.
const outside = -1

// pushScanner walks the frame of a push. Faults of meaning are kept and scanning goes on: broken JSON later in the body
// is the better answer, and a repeated key may still replace the faulty value.
type pushScanner struct {
	scanner
	items []PushItem
	found bool  // items was there, whatever it was
	fault error // first fault of meaning inside the items that count
	index int   // of the item being scanned

	ids     strings.Builder // transaction ids of many items share one allocation
	scratch []byte          // for unescaping
}

func (p *pushScanner) body() bool {
	if p.blanks() != '{' {
		if !p.value(0) || !p.end() {
			return false
		}
		p.fault = badBody("", "the body is not an object")
		return true
	}
	for more := p.open(0) && p.first('}'); more; more = p.next('}') {
		key, ok := p.key()
		if !ok || !p.topMember(key) {
			return false
		}
	}
	return p.reason == "" && p.end()
}

func (p *pushScanner) end() bool {
	if p.blanks(); p.pos < len(p.data) {
		return p.fail("more follows after the end of the object")
	}
	return true
}

func (p *pushScanner) topMember(key []byte) bool {
	if p.name(key) != "items" {
		return p.value(1)
	}
	p.found, p.fault, p.items = true, nil, p.items[:0]
	switch p.blanks() {
	case '[':
		return p.array(1)
	case 'n':
		p.found = false // null is as good as absent
	default:
		p.fault = badBody("items", "items is not an array")
	}
	return p.value(1)
}

func (p *pushScanner) array(depth int) bool {
	start := p.pos
	p.index = 0
	for more := p.open(depth) && p.first(']'); more; more = p.next(']') {
		if !p.item(depth + 1) {
			return false
		}
		if p.index == 0 {
			p.reserve(p.pos - start)
		}
		p.index++
	}
	if p.reason != "" {
		return false
	}
	p.index = outside
	if p.items == nil {
		p.items = []PushItem{}
	}
	return true
}

// reserve makes room for as many items as the rest of the body can hold if all are about as long as the first one.
func (p *pushScanner) reserve(itemBytes int) {
	const most = 4096 // a first item shorter than the rest must not reserve a fortune
	n := min(len(p.data)/max(itemBytes, 1)+1, most)
	if p.fault == nil && cap(p.items) < n {
		p.items = append(make([]PushItem, 0, n), p.items...)
	}
}

// itemSpans are the values of one item as they are written; nil is absent.
type itemSpans struct {
	queue, partition, transactionID, payload []byte
	data                                     bool
}

func (p *pushScanner) item(depth int) bool {
	if p.blanks() != '{' {
		if !p.value(depth) {
			return false
		}
		p.refuse("", "is not an object")
		return true
	}
	var spans itemSpans
	for more := p.open(depth) && p.first('}'); more; more = p.next('}') {
		key, ok := p.key()
		if !ok {
			return false
		}
		p.blanks()
		start := p.pos
		if !p.value(depth + 1) {
			return false
		}
		value := p.data[start:p.pos:p.pos]
		switch p.name(key) {
		case "queue":
			spans.queue = value
		case "partition":
			spans.partition = value
		case "transactionId":
			spans.transactionID = value
		case "payload":
			spans.payload = value
		case "data":
			spans.data = true
		}
	}
	if p.reason != "" {
		return false
	}
	p.take(&spans)
	return true
}

// take turns one scanned item into a PushItem, unless an earlier one already made the push impossible.
func (p *pushScanner) take(spans *itemSpans) {
	if p.fault != nil {
		return
	}
	var last PushItem // items of one request mostly share queue and partition: their strings are shared, too
	if n := len(p.items); n > 0 {
		last = p.items[n-1]
	}
	item := PushItem{Partition: queue.DefaultPartition, Payload: spans.payload}
	raw, given := p.text("queue", spans.queue)
	switch {
	case p.fault != nil:
	case !given:
		p.refuse("queue", "is missing")
	default:
		item.Queue = p.checkedName("queue", raw, last.Queue)
	}
	if raw, given = p.text("partition", spans.partition); given {
		item.Partition = p.checkedName("partition", raw, last.Partition)
	}
	if raw, given = p.text("transactionId", spans.transactionID); given {
		item.TransactionID = p.checkedID(raw)
	}
	if spans.payload == nil {
		if spans.data {
			p.refuse("payload", "is missing (data is not a name for it)")
		} else {
			p.refuse("payload", "is missing")
		}
	}
	if p.fault == nil {
		p.items = append(p.items, item)
	}
}

// text is the unescaped text of a value that must be a string, and whether there is one; null counts as absent. The
// bytes are good until the next call.
func (p *pushScanner) text(field string, raw []byte) ([]byte, bool) {
	if raw == nil || raw[0] == 'n' {
		return nil, false
	}
	if raw[0] != '"' {
		p.refuse(field, "is not a string")
		return nil, false
	}
	raw = raw[1 : len(raw)-1]
	text, ok := unescape(p.scratch[:0], raw)
	if !ok {
		p.refuse(field, "contains half of a surrogate pair")
		return nil, false
	}
	if len(text) > 0 && len(raw) > 0 && &text[0] != &raw[0] {
		p.scratch = text
	}
	return text, true
}

func (p *pushScanner) checkedName(field string, text []byte, last string) string {
	if len(p.items) > 0 && string(text) == last {
		return last
	}
	name := string(text)
	p.check(field, queue.CheckName(field, name))
	return name
}

// checkedID copies an id into a chunk that it shares with other ids of the request.
func (p *pushScanner) checkedID(text []byte) string {
	if len(text) == 0 {
		return "" // an ack could not name it: as good as absent
	}
	if p.ids.Cap()-p.ids.Len() < len(text) {
		const chunk = 4096 // about a hundred UUIDs
		rest := len(p.data) - p.pos
		p.ids = strings.Builder{}
		p.ids.Grow(len(text) + min(chunk, rest))
	}
	start := p.ids.Len()
	p.ids.Write(text)
	id := p.ids.String()[start:]
	p.check("transactionId", queue.CheckTransactionID("transactionId", id))
	return id
}

// name is a known key, or empty. Keys may be escaped like any string.
func (p *pushScanner) name(key []byte) string {
	text, ok := unescape(nil, key)
	if !ok {
		return ""
	}
	switch string(text) {
	case "items":
		return "items"
	case "queue":
		return "queue"
	case "partition":
		return "partition"
	case "transactionId":
		return "transactionId"
	case "payload":
		return "payload"
	case "data":
		return "data"
	}
	return ""
}

// check keeps the fault that a rule of pkg/queue found in a field of the current item.
func (p *pushScanner) check(field string, err error) {
	if err != nil && p.fault == nil {
		p.fault = badBody(p.fieldPath(field), p.itemPath()+"."+err.Error())
	}
}

// refuse keeps a fault of the current item.
func (p *pushScanner) refuse(field, what string) {
	if p.fault == nil {
		p.fault = badBody(p.fieldPath(field), p.fieldPath(field)+" "+what)
	}
}

func (p *pushScanner) itemPath() string { return "items[" + strconv.Itoa(p.index) + "]" }

func (p *pushScanner) fieldPath(field string) string {
	if field == "" {
		return p.itemPath()
	}
	return p.itemPath() + "." + field
}

func (p *pushScanner) syntaxError() error {
	at := fmt.Sprintf("%s (byte %d)", p.reason, p.pos)
	if p.index == outside {
		return badBody("", at)
	}
	return badBody(p.itemPath(), p.itemPath()+": "+at)
}

func checkUTF8(body []byte) error {
	if utf8.Valid(body) {
		return nil
	}
	pos := 0
	for pos < len(body) {
		r, size := utf8.DecodeRune(body[pos:])
		if r == utf8.RuneError && size == 1 {
			break
		}
		pos += size
	}
	return badBody("", fmt.Sprintf("not valid UTF-8 (byte %d)", pos))
}

// badBody is the contract's answer to a body that is not what it should be.
func badBody(field, reason string) error {
	return queue.Invalid(field, "bad body: "+reason)
}
