package wire

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"queen.internal/pkg/queue"
)

func TestScanPush(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		body string
		want []PushItem
	}{
		"an empty array is no item": {`{"items":[]}`, []PushItem{}},
		"the contract's example": {
			`{"items":[
			  {"queue":"billing.invoice","partition":"cust-7","transactionId":"inv-55-created","payload":{"inv":55}},
			  {"queue":"billing.invoice","payload":"any JSON value"}
			]}`,
			[]PushItem{
				{"billing.invoice", "cust-7", "inv-55-created", []byte(`{"inv":55}`)},
				{"billing.invoice", "Default", "", []byte(`"any JSON value"`)},
			},
		},
		"payload bytes are verbatim": {
			`{"items":[{"queue":"q","payload": {"b" : 12345678901234567890.10, "a":	[ ],"n":-0.0e+00,"e":"\u0041\/\u0000\ud800<&>"}  }]}`,
			[]PushItem{{"q", "Default", "", []byte(`{"b" : 12345678901234567890.10, "a":	[ ],"n":-0.0e+00,"e":"\u0041\/\u0000\ud800<&>"}`)}},
		},
		"null is a payload": {`{"items":[{"queue":"q","payload":null}]}`, []PushItem{{"q", "Default", "", []byte(`null`)}}},
		"null is absent elsewhere": {
			`{"items":[{"queue":"q","partition":null,"transactionId":null,"traceId":null,"producerSub":null,"payload":0}]}`,
			[]PushItem{{"q", "Default", "", []byte(`0`)}},
		},
		"an empty transaction id is absent, empty names are names": {
			`{"items":[{"queue":"","partition":"","transactionId":"","payload":1}]}`,
			[]PushItem{{"", "", "", []byte(`1`)}},
		},
		"escapes in names": {
			`{"items":[{"queue":"a\u0026\u003C\u003e\/\\\"","partition":"\u00e9\ud83d\udE00ß😀","transactionId":"\u0074x","payload":[]}]}`,
			[]PushItem{{`a&<>/\"`, "é😀ß😀", "tx", []byte(`[]`)}},
		},
		"escaped keys": {
			`{"\u0069tems":[{"queu\u0065":"q","p\u0061yload":{}}]}`,
			[]PushItem{{"q", "Default", "", []byte(`{}`)}},
		},
		"keys are case sensitive and unknown ones ignored": {
			`{"Items":7,"x":{"items":[1]},"items":[{"QUEUE":5,"queue":"q","traceId":[{}],"data":3,"\ud800":1,"payload":1}],"y":[[]]}`,
			[]PushItem{{"q", "Default", "", []byte(`1`)}},
		},
		"of a repeated key the last counts": {
			`{"items":[5],"items":[{"queue":5,"queue":"\ud800","queue":"q","partition":"x","partition":null,"payload":1,"payload":2}]}`,
			[]PushItem{{"q", "Default", "", []byte(`2`)}},
		},
		"items keep their order and their own names": {
			`{"items":[{"queue":"a","partition":"p","payload":1},{"queue":"b","partition":"p","payload":2},{"queue":"a","payload":3}]}`,
			[]PushItem{{"a", "p", "", []byte(`1`)}, {"b", "p", "", []byte(`2`)}, {"a", "Default", "", []byte(`3`)}},
		},
		"blanks everywhere": {
			" \t\r\n{ \"items\" : [ { \"queue\" : \"q\" , \"payload\" : true } ] } \n",
			[]PushItem{{"q", "Default", "", []byte(`true`)}},
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got, err := ScanPush([]byte(test.body))
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestScanPush_Refuses(t *testing.T) {
	t.Parallel()
	item := func(fields string) string { return `{"items":[{"queue":"q","payload":1},{` + fields + `}]}` }
	tests := []struct{ body, field, reason string }{
		{``, "", `the JSON ends where a value should follow (byte 0)`},
		{`nonsense`, "", `found 'o' where null should be (byte 1)`},
		{`[1`, "", `the JSON ends where ',' or ']' should follow (byte 2)`},
		{`[]`, "", `the body is not an object`},
		{`null`, "", `the body is not an object`},
		{`{}`, "items", `items is missing`},
		{`{"items":null}`, "items", `items is missing`},
		{`{"items":[],"items":null}`, "items", `items is missing`},
		{`{"items":{}}`, "items", `items is not an array`},
		{`{"items":"[]"}`, "items", `items is not an array`},
		{`{"items":[]} x`, "", `more follows after the end of the object (byte 13)`},
		{`{"items":[]}{}`, "", `more follows after the end of the object (byte 12)`},
		{`{"items":[],}`, "", `found '}' where a quoted key should be (byte 12)`},
		{`{"items":[]`, "", `the JSON ends where ',' or '}' should follow (byte 11)`},
		{"\ufeff{\"items\":[]}", "", `found '\ufeff' where a value should be (byte 0)`},
		{"{\"items\":[{\"queue\":\"q\",\"payload\":\"\xff\"}]}", "", `not valid UTF-8 (byte 34)`},
		{"{\"items\":[],\"\xed\xa0\x80\":1}", "", `not valid UTF-8 (byte 13)`},

		{`{"items":[5]}`, "items[0]", `items[0] is not an object`},
		{item(``), "items[1].queue", `items[1].queue is missing`},
		{item(`"queue":null,"payload":1`), "items[1].queue", `items[1].queue is missing`},
		{item(`"queue":5,"payload":1`), "items[1].queue", `items[1].queue is not a string`},
		{item(`"queue":"q","partition":["p"],"payload":1`), "items[1].partition", `items[1].partition is not a string`},
		{item(`"queue":"q","transactionId":1,"payload":1`), "items[1].transactionId", `items[1].transactionId is not a string`},
		{item(`"queue":"q"`), "items[1].payload", `items[1].payload is missing`},
		{item(`"queue":"q","data":{}`), "items[1].payload", `items[1].payload is missing (data is not a name for it)`},
		{item(`"queue":"a\u001fb","payload":1`), "items[1].queue", `items[1].queue contains a control character`},
		{item(`"queue":"a\u0000b","payload":1`), "items[1].queue", `items[1].queue contains a control character`},
		{item(`"queue":"q","partition":"\n","payload":1`), "items[1].partition", `items[1].partition contains a control character`},
		{item(`"queue":"q","transactionId":"` + "\x7f" + `","payload":1`), "items[1].transactionId", `items[1].transactionId contains a control character`},
		{item(`"queue":"\ud800","payload":1`), "items[1].queue", `items[1].queue contains half of a surrogate pair`},
		{item(`"queue":"\udc00\ud800","payload":1`), "items[1].queue", `items[1].queue contains half of a surrogate pair`},
		{item(`"queue":"q","transactionId":"\ud83d\u0041","payload":1`), "items[1].transactionId", `items[1].transactionId contains half of a surrogate pair`},
		{item(`"queue":"q","partition":"\ud83d\\ude00","payload":1`), "items[1].partition", `items[1].partition contains half of a surrogate pair`},
		{item(`"queue":"q","transactionId":"` + strings.Repeat("x", 65536) + `","payload":1`), "items[1].transactionId", `items[1].transactionId is 65536 bytes long, at most 65535 are allowed`},
		{item(`"queue":"` + strings.Repeat("x", 2049) + `","payload":1`), "items[1].queue", `items[1].queue is 2049 bytes long, at most 2048 are allowed`},

		{item(`"queue":"q","payload":01`), "items[1]", `items[1]: found '1' where ',' or '}' should be (byte 60)`},
		{item(`"queue":"q","payload":-`), "items[1]", `items[1]: found '}' where a digit should be (byte 60)`},
		{item(`"queue":"q","payload":1.`), "items[1]", `items[1]: found '}' where a digit should be (byte 61)`},
		{item(`"queue":"q","payload":tru`), "items[1]", `items[1]: found '}' where true should be (byte 62)`},
		{item(`"queue":"q","payload":"\x"`), "items[1]", `items[1]: found 'x' where an escape should be (byte 61)`},
		{item(`"queue":"q","payload":"\u12g4"`), "items[1]", `items[1]: found 'g' where a hexadecimal digit should be (byte 64)`},
		{item("\"queue\":\"q\",\"payload\":\"a\nb\""), "items[1]", `items[1]: a string contains an unescaped control character (byte 61)`},
		{item(`"queue":"q","payload":[1,]`), "items[1]", `items[1]: found ']' where a value should be (byte 62)`},
		{item(`"queue":"q","payload":{"a"1}`), "items[1]", `items[1]: found '1' where ':' should be (byte 63)`},
		{`{"items":[{"queue":"q","payload":NaN}]}`, "items[0]", `items[0]: found 'N' where a value should be (byte 33)`},
		{`{"items":[{"queue":5}, {"queue"`, "items[1]", `items[1]: the JSON ends where ':' should follow (byte 31)`}, // broken JSON beats a bad field
	}
	for _, test := range tests {
		t.Run(test.reason, func(t *testing.T) {
			t.Parallel()
			items, err := ScanPush([]byte(test.body))
			var e *queue.Error
			if !errors.As(err, &e) {
				t.Fatalf("got items %v and error %v, want an error of pkg/queue", items, err)
			}
			if diff := cmp.Diff(queue.Error{Kind: queue.KindInvalid, Field: test.field, Message: "bad body: " + test.reason}, *e); diff != "" {
				t.Error(diff)
			}
			if items != nil {
				t.Errorf("items %v beside an error", items)
			}
		})
	}
}

func TestScanPush_TransactionIDAtTheBound(t *testing.T) {
	t.Parallel()
	id := strings.Repeat("x", 65535)
	items, err := ScanPush([]byte(`{"items":[{"queue":"q","payload":1,"transactionId":"` + id + `"}]}`))
	if err != nil || len(items) != 1 || items[0].TransactionID != id {
		t.Errorf("an id of 65535 bytes: %v", err)
	}
}

func TestScanPush_DepthIsBounded(t *testing.T) {
	t.Parallel()
	const frame = 3 // body, items and item are containers themselves
	body := func(depth int) []byte {
		open, closing := strings.Repeat(`[{"a":`, depth/2), strings.Repeat(`}]`, depth/2)
		return []byte(`{"items":[{"queue":"q","payload":` + strings.Repeat("[", depth%2) + open + "1" + closing + strings.Repeat("]", depth%2) + `}]}`)
	}
	if _, err := ScanPush(body(MaxDepth - frame)); err != nil {
		t.Errorf("payload at the bound: %v", err)
	}
	_, err := ScanPush(body(MaxDepth - frame + 1))
	if err == nil || !strings.Contains(err.Error(), "bad body: items[0]: arrays and objects nest deeper than 1000") {
		t.Errorf("payload over the bound: %v", err)
	}
	if _, err = ScanPush([]byte(strings.Repeat("[", 1<<20))); err == nil {
		t.Error("a million brackets were accepted")
	}
}

func TestScanPush_PayloadsAreSlicesOfTheBody(t *testing.T) {
	t.Parallel()
	body := []byte(`{"items":[{"queue":"q","payload":[1,2]}]}`)
	items, err := ScanPush(body)
	if err != nil {
		t.Fatal(err)
	}
	payload := items[0].Payload
	if &payload[0] != &body[33] || cap(payload) != len(payload) {
		t.Error("the payload was copied, or an append to it would write into the body")
	}
}

func TestScanPush_ManyIDsOfDifferentLengthsStayApart(t *testing.T) {
	t.Parallel()
	var body strings.Builder
	body.WriteString(`{"items":[`)
	var want []string
	for i := range 3000 {
		id := fmt.Sprintf("%d-%s", i, strings.Repeat("é", i%50))
		want = append(want, id)
		if i > 0 {
			body.WriteByte(',')
		}
		fmt.Fprintf(&body, `{"queue":"q","transactionId":%s,"payload":0}`, strings.ReplaceAll(fmt.Sprintf("%q", id), "é", `\u00e9`))
	}
	body.WriteString(`]}`)
	items, err := ScanPush([]byte(body.String()))
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, item := range items {
		got = append(got, item.TransactionID)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}
