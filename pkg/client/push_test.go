package client_test

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"queen.internal/pkg/client"
)

const queued = `[{"index":0,"message_id":"m","transaction_id":"t","queueName":"q","status":"queued"}]`

func TestPush(t *testing.T) {
	t.Parallel()

	t.Run("PayloadTravelsByteForByte", func(t *testing.T) {
		t.Parallel()
		cl, cell := setup(t, answer(201, queued))
		payload := `{"b": 12345678901234567890.10, "a":"<&>é\u0000\ud800"  ,"a":[ ]}`
		item := client.Item{Queue: `a/"b"`, Partition: "p é", TransactionID: "t", Payload: json.RawMessage(payload)}
		results, err := cl.Push(t.Context(), []client.Item{item})
		if err != nil {
			t.Fatal(err)
		}
		want := []client.PushResult{{MessageID: "m", TransactionID: "t", Queue: "q", Status: client.Queued}}
		if diff := cmp.Diff(want, results); diff != "" {
			t.Error(diff)
		}
		request := cell.asked()[0]
		if wantURI := "/cells/one/api/v1/push"; request.uri != wantURI || request.method != "POST" {
			t.Errorf("asked %s %s, want POST %s", request.method, request.uri, wantURI)
		}
		if request.auth != "Bearer secret" || request.contentType != "application/json" {
			t.Errorf("Authorization %q, Content-Type %q", request.auth, request.contentType)
		}
		wantBody := `{"items":[{"queue":"a/\"b\"","partition":"p é","transactionId":"t","payload":` + payload + `}]}`
		if request.body != wantBody {
			t.Errorf("body\n%s\nwant\n%s", request.body, wantBody)
		}
	})

	t.Run("AbsentNamesAreLeftOut", func(t *testing.T) {
		t.Parallel()
		cl, cell := setup(t, answer(201, queued))
		if _, err := cl.Push(t.Context(), []client.Item{{Queue: "q", Payload: json.RawMessage("null")}}); err != nil {
			t.Fatal(err)
		}
		if want := `{"items":[{"queue":"q","payload":null}]}`; cell.asked()[0].body != want {
			t.Errorf("body %s, want %s", cell.asked()[0].body, want)
		}
	})

	t.Run("RefusesAPayloadThatIsNotJSON", func(t *testing.T) {
		t.Parallel()
		cl, cell := setup(t, answer(201, queued))
		for _, payload := range []string{"", "{", `1,"queue":"other"`} {
			items := []client.Item{{Queue: "q", Payload: json.RawMessage("1")}, {Queue: "q", Payload: json.RawMessage(payload)}}
			if _, err := cl.Push(t.Context(), items); err == nil || !strings.Contains(err.Error(), "item 1") {
				t.Errorf("payload %q: error %v, want one that names item 1", payload, err)
			}
		}
		if n := len(cell.asked()); n != 0 {
			t.Errorf("%d requests arrived, want none", n)
		}
	})

	t.Run("AnswerOfAnotherLengthIsAnError", func(t *testing.T) {
		t.Parallel()
		cl, _ := setup(t, answer(201, `[]`))
		if _, err := cl.Push(t.Context(), []client.Item{{Queue: "q", Payload: json.RawMessage("1")}}); err == nil {
			t.Error("no error")
		}
	})
}

func TestPushIsRepeatedOnlyWithTransactionIDs(t *testing.T) {
	t.Parallel()
	withID := client.Item{Queue: "q", TransactionID: "t", Payload: json.RawMessage("1")}
	without := client.Item{Queue: "q", Payload: json.RawMessage("1")}
	two := strings.Replace(queued, "]", ","+queued[1:], 1)
	refused := answer(503, `{"error":"database is down"}`)
	for name, test := range map[string]struct {
		items    []client.Item
		first    http.HandlerFunc
		then     string
		requests int
		fails    bool
	}{
		"AllHaveOne/HangUp":      {[]client.Item{withID, withID}, hangUp, two, 2, false},
		"AllHaveOne/503":         {[]client.Item{withID}, refused, queued, 2, false},
		"AllHaveOne/400":         {[]client.Item{withID}, answer(400, `{"error":"bad body"}`), queued, 1, true},
		"OneHasNone/HangUp":      {[]client.Item{withID, without}, hangUp, two, 1, true},
		"OneHasNone/503":         {[]client.Item{without}, refused, queued, 1, true},
		"AllHaveOne/BrokenReply": {[]client.Item{withID}, answer(201, `[`), queued, 1, true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			cl, cell := setup(t, test.first, answer(201, test.then))
			_, err := cl.Push(t.Context(), test.items)
			if (err != nil) != test.fails {
				t.Errorf("error %v, want one: %v", err, test.fails)
			}
			if n := len(cell.asked()); n != test.requests {
				t.Errorf("%d requests, want %d", n, test.requests)
			}
		})
	}
}
