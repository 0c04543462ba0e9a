package wire

import (
	"encoding/json"
	"strconv"
	"testing"
	"unicode/utf16"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"

	"queen.internal/pkg/queue"
)

// FuzzScanPush compares the scanner with the standard decoder: both accept the same bodies and find the same bytes.
func FuzzScanPush(f *testing.F) {
	for _, seed := range []string{
		`{"items":[{"queue":"a","partition":"p","transactionId":"t","payload":{"x":[1,2.5e-3,"\u0000\ud83d\ude00"]}}]}`,
		`{"items":[],"items":[{"queue":"\ud800","queue":"q","payload":null,"payload":1}]}`,
		`{"items":[{"queue":"\ud83d\ude00","data":1}]} `,
		`{"\u0069tems":[{"queue":"","partition":null,"transactionId":"\\\"","payload":-0}, {"payload":tru}]}`,
		"[[[[{\"items\":\"\x80\"}]]]]",
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		want, accept := decodePush(body)
		got, err := ScanPush(body)
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

// decodePush is ScanPush by way of encoding/json, with everything that package does otherwise put right.
func decodePush(body []byte) ([]PushItem, bool) {
	var top map[string]json.RawMessage
	if !utf8.Valid(body) || depth(body) > MaxDepth || json.Unmarshal(body, &top) != nil {
		return nil, false
	}
	var raws []json.RawMessage
	if json.Unmarshal(top["items"], &raws) != nil || raws == nil {
		return nil, false
	}
	items := []PushItem{}
	for _, raw := range raws {
		var fields map[string]json.RawMessage
		if json.Unmarshal(raw, &fields) != nil || fields == nil || fields["payload"] == nil {
			return nil, false
		}
		name, ok1 := decodeText(fields["queue"])
		partition, ok2 := decodeText(fields["partition"])
		id, ok3 := decodeText(fields["transactionId"])
		if !ok1 || !ok2 || !ok3 || name == nil {
			return nil, false
		}
		item := PushItem{Queue: *name, Partition: queue.DefaultPartition, Payload: fields["payload"]}
		if partition != nil {
			item.Partition = *partition
		}
		if id != nil {
			item.TransactionID = *id
		}
		if queue.CheckName("", item.Queue) != nil || queue.CheckName("", item.Partition) != nil ||
			queue.CheckTransactionID("", item.TransactionID) != nil {
			return nil, false
		}
		items = append(items, item)
	}
	return items, true
}

func decodeText(raw json.RawMessage) (text *string, ok bool) {
	if raw == nil {
		return nil, true
	}
	if json.Unmarshal(raw, &text) != nil {
		return nil, false
	}
	return text, !halfSurrogate(raw)
}

// halfSurrogate looks for an escaped surrogate that is not part of a pair, which encoding/json replaces silently.
func halfSurrogate(raw []byte) bool {
	var units []uint16 // of the escapes just read, without a gap
	broken := func() bool {
		for _, r := range utf16.Decode(units) {
			if r == utf8.RuneError {
				return true
			}
		}
		return false
	}
	for i := 0; i < len(raw); i++ {
		if raw[i] != '\\' {
			if broken() {
				return true
			}
			units = units[:0]
			continue
		}
		i++
		if raw[i] != 'u' {
			if broken() {
				return true
			}
			units = units[:0]
			continue
		}
		unit, _ := strconv.ParseUint(string(raw[i+1:i+5]), 16, 16)
		if unit == utf8.RuneError { // the character itself, written as an escape
			unit = 'x'
		}
		units = append(units, uint16(unit))
		i += 4
	}
	return broken()
}

// depth is how deep brackets nest outside strings; only meaningful for valid JSON.
func depth(body []byte) int {
	level, most, inText := 0, 0, false
	for i := 0; i < len(body); i++ {
		switch c := body[i]; {
		case inText && c == '\\':
			i++
		case c == '"':
			inText = !inText
		case inText:
		case c == '[' || c == '{':
			level++
			most = max(most, level)
		case c == ']' || c == '}':
			level--
		}
	}
	return most
}
