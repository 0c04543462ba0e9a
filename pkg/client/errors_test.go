package client_test

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"queen.internal/pkg/client"
)

func TestErrorTellsTheAnswer(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		answer    http.HandlerFunc
		want      client.Error
		transient bool
	}{
		"JSON": {
			answer(404, `{"error":"Not Found","code":"no_such_route"}`),
			client.Error{Status: 404, Message: "Not Found", Code: "no_such_route"},
			false,
		},
		"RetryAfter": {
			answer(503, `{"error":"PostgreSQL is down"}`, "Retry-After", "7"),
			client.Error{Status: 503, Message: "PostgreSQL is down", RetryAfter: 7 * time.Second},
			true,
		},
		"RateLimit": {answer(429, `{"error":"slow down"}`), client.Error{Status: 429, Message: "slow down"}, true},
		"PlainText": {answer(400, "wait: not a boolean\nsecond line"), client.Error{Status: 400, Message: "wait: not a boolean"}, false},
		"Empty":     {answer(413, ""), client.Error{Status: 413}, false},
		"Redirect":  {answer(307, "", "Location", "/elsewhere"), client.Error{Status: 307}, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			cl, _ := setup(t, test.answer)
			_, err := cl.Pop(t.Context(), client.PopRequest{Queue: "q"})
			var got *client.Error
			if !errors.As(err, &got) {
				t.Fatalf("error %v, want *client.Error", err)
			}
			if diff := cmp.Diff(test.want, *got); diff != "" {
				t.Error(diff)
			}
			if client.Transient(err) != test.transient {
				t.Errorf("Transient = %v", !test.transient)
			}
		})
	}
}

func TestCallEndsWithItsContext(t *testing.T) {
	t.Parallel()

	t.Run("WhileWaitingForTheAnswer", func(t *testing.T) {
		t.Parallel()
		ctx, cancel := context.WithCancel(t.Context())
		cl, _ := setup(t, func(_ http.ResponseWriter, r *http.Request) {
			cancel()
			<-r.Context().Done()
		})
		if _, err := cl.Pop(ctx, client.PopRequest{Queue: "q", Wait: time.Hour}); !errors.Is(err, context.Canceled) {
			t.Errorf("error %v, want %v", err, context.Canceled)
		}
	})

	t.Run("WhilePausingBeforeARepetition", func(t *testing.T) {
		t.Parallel()
		ctx, cancel := context.WithCancel(t.Context())
		cl, cell := setup(t, func(w http.ResponseWriter, r *http.Request) {
			answer(503, `{"error":"later"}`, "Retry-After", "25")(w, r)
			context.AfterFunc(r.Context(), cancel) // once the answer is out
		})
		item := client.Item{Queue: "q", TransactionID: "t", Payload: json.RawMessage("1")}
		_, err := cl.Push(ctx, []client.Item{item})
		if err == nil || ctx.Err() == nil || len(cell.asked()) != 1 {
			t.Errorf("error %v after %d requests, want one after 1", err, len(cell.asked()))
		}
	})
}

func TestCallThatIsToldToComeBackMuchLaterEnds(t *testing.T) {
	t.Parallel()
	cl, cell := setup(t, answer(503, `{"error":"later"}`, "Retry-After", "3600"))
	_, err := cl.Push(t.Context(), []client.Item{{Queue: "q", TransactionID: "t", Payload: json.RawMessage("1")}})
	if !client.Transient(err) || len(cell.asked()) != 1 {
		t.Errorf("error %v after %d requests, want a transient one after 1", err, len(cell.asked()))
	}
}

func TestNewRefusesWhatIsNoAddress(t *testing.T) {
	t.Parallel()
	for _, address := range []string{"", "localhost:6632", "ftp://localhost", "http://", "http://[::1", "/api"} {
		if _, err := client.New(client.Options{URL: address}); err == nil {
			t.Errorf("New(%q): no error", address)
		}
	}
}
