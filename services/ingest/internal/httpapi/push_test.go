package httpapi

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"
	"go.uber.org/goleak"

	"queen.internal/pkg/appendlog"
	"queen.internal/pkg/health"
	"queen.internal/pkg/httpd"
	"queen.internal/pkg/metrics"
	"queen.internal/pkg/queue"
	"queen.internal/pkg/route"
	"queen.internal/services/ingest/internal/batch"
	"queen.internal/services/ingest/internal/room"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// ledger is an Appender in memory: it keeps what it stores, knows duplicates, and fails the partitions named in broken.
type ledger struct {
	broken map[string]error

	mu     sync.Mutex
	stored []appendlog.Group
	ids    map[string]uuid.UUID // by partition and transaction id
}

func (l *ledger) Append(_ context.Context, groups []appendlog.Group) []appendlog.Result {
	l.mu.Lock()
	defer l.mu.Unlock()
	results := make([]appendlog.Result, len(groups))
	for i, g := range groups {
		if results[i].Err = l.broken[g.Key.Partition]; results[i].Err != nil {
			continue
		}
		l.stored = append(l.stored, g)
		for _, m := range g.Messages {
			key := g.Key.Tenant.String() + g.Key.Queue + "/" + g.Key.Partition + "/" + m.TransactionID
			first, known := l.ids[key]
			if !known {
				first = m.ID
				l.ids[key] = first
			}
			results[i].Outcomes = append(results[i].Outcomes, appendlog.Outcome{Duplicate: known, MessageID: first})
		}
	}
	return results
}

// service is the API over a ledger, behind a real httpd.
type service struct {
	handler http.Handler
	ledger  *ledger
	ready   error
}

func serve(t *testing.T, set func(s *service, o *httpd.Options)) *service {
	t.Helper()
	s := &service{ledger: &ledger{ids: map[string]uuid.UUID{}}}
	batcher := batch.New(s.ledger, batch.Defaults())
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- batcher.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})

	api := &API{Push: batcher.Push, Room: room.New(batch.Defaults().QueuedBytes, 0), Ready: func() error { return s.ready }}
	options := httpd.Options{
		Role: route.Ingest, Logger: slog.New(slog.DiscardHandler), Metrics: metrics.New("ingest", "test"),
		Health: health.New(health.Options{Version: "test"}), MaxBodyBytes: 1 << 20, Handlers: api.Handlers(),
	}
	if set != nil {
		set(s, &options)
	}
	server, err := httpd.New(options)
	if err != nil {
		t.Fatal(err)
	}
	s.handler = server.Handler()
	return s
}

func (s *service) push(body string, headers ...string) *httptest.ResponseRecorder {
	r := httptest.NewRequest(http.MethodPost, "/api/v1/push", strings.NewReader(body))
	for i := 0; i < len(headers); i += 2 {
		r.Header.Set(headers[i], headers[i+1])
	}
	w := httptest.NewRecorder()
	s.handler.ServeHTTP(w, r)
	return w
}

// result is one element of an answer, as a client reads it.
type result struct {
	Index         int     `json:"index"`
	MessageID     string  `json:"message_id"`
	TransactionID string  `json:"transaction_id"`
	Queue         string  `json:"queueName"`
	Status        string  `json:"status"`
	Error         *string `json:"error"`
}

func decode(t *testing.T, w *httptest.ResponseRecorder) []result {
	t.Helper()
	if w.Code != http.StatusCreated || w.Header().Get("Content-Type") != "application/json" {
		t.Fatalf("%d %s: %s", w.Code, w.Header(), w.Body)
	}
	var results []result
	if err := json.Unmarshal(w.Body.Bytes(), &results); err != nil {
		t.Fatalf("%v in %s", err, w.Body)
	}
	return results
}

// statuses is the answer in short: index, key and status of each item.
func statuses(results []result) []string {
	short := []string{}
	for _, r := range results {
		short = append(short, fmt.Sprintf("%d %s/%s %s", r.Index, r.Queue, r.TransactionID, r.Status))
	}
	return short
}

func TestPush_StoresAndAnswersInRequestOrder(t *testing.T) {
	t.Parallel()
	s := serve(t, nil)
	results := decode(t, s.push(`{"items":[
		{"queue":"a","transactionId":"1","payload":{"n": 1}},
		{"queue":"b","partition":"p","transactionId":"1","payload":[]},
		{"queue":"a","transactionId":"2","payload":12345678901234567890}
	]}`))
	if diff := cmp.Diff([]string{"0 a/1 queued", "1 b/1 queued", "2 a/2 queued"}, statuses(results)); diff != "" {
		t.Error(diff)
	}
	var stored []string
	for _, g := range s.ledger.stored {
		for _, m := range g.Messages {
			stored = append(stored, fmt.Sprintf("%s/%s %s %s", g.Key.Queue, g.Key.Partition, m.TransactionID, m.Payload))
			if g.Key.Tenant != queue.DefaultTenant || m.TraceID != nil || m.ProducerSub != "" {
				t.Errorf("stored %+v for %v", m, g.Key)
			}
		}
	}
	want := []string{`a/Default 1 {"n": 1}`, `a/Default 2 12345678901234567890`, `b/p 1 []`}
	if diff := cmp.Diff(want, stored); diff != "" {
		t.Error(diff)
	}
}

func TestPush_NoItemsIsNoWork(t *testing.T) {
	t.Parallel()
	s := serve(t, func(s *service, _ *httpd.Options) { s.ready = errors.New("down") })
	if w := s.push(`{"items":[]}`); w.Code != http.StatusCreated || w.Body.String() != "[]" {
		t.Errorf("%d %s", w.Code, w.Body)
	}
}

func TestPush_AnItemWithoutKeyGetsTheMessageID(t *testing.T) {
	t.Parallel()
	s := serve(t, nil)
	results := decode(t, s.push(`{"items":[{"queue":"q","payload":1},{"queue":"q","payload":1,"transactionId":""},{"queue":"q","payload":1,"transactionId":null}]}`))
	seen := map[string]bool{}
	for _, r := range results {
		id, err := uuid.Parse(r.MessageID)
		if err != nil || id.Version() != 7 || r.TransactionID != r.MessageID || r.Status != "queued" || seen[r.MessageID] {
			t.Errorf("got %+v (%v)", r, err)
		}
		seen[r.MessageID] = true
	}
}

func TestPush_RepeatedKeysInsideARequest(t *testing.T) {
	t.Parallel()
	body := `{"items":[
		{"queue":"q","transactionId":"k","payload":1},
		{"queue":"q","transactionId":"k","payload":2},
		{"queue":"q","transactionId":"other","payload":3},
		{"queue":"q","partition":"p","transactionId":"k","payload":4},
		{"queue":"q","transactionId":"k","payload":5}
	]}`
	s := serve(t, nil)
	first := decode(t, s.push(body))
	want := []string{"0 q/k queued", "1 q/k duplicate", "2 q/other queued", "3 q/k queued", "4 q/k duplicate"}
	if diff := cmp.Diff(want, statuses(first)); diff != "" {
		t.Error(diff)
	}
	if first[1].MessageID != first[0].MessageID || first[4].MessageID != first[0].MessageID || first[3].MessageID == first[0].MessageID {
		t.Errorf("ids: %+v", first)
	}

	again := decode(t, s.push(body)) // the leader is a duplicate itself now
	for i, r := range again {
		if r.Status != "duplicate" || r.MessageID != first[i].MessageID {
			t.Errorf("again, item %d: %+v, first time %+v", i, r, first[i])
		}
	}
	if n := len(s.ledger.stored[0].Messages); n != 2 {
		t.Errorf("%d messages reached the store, want 2", n)
	}
}

func TestPush_ALostOriginalIsAllZero(t *testing.T) {
	t.Parallel()
	s := serve(t, nil)
	s.ledger.ids[queue.DefaultTenant.String()+"q/Default/k"] = uuid.Nil
	results := decode(t, s.push(`{"items":[{"queue":"q","transactionId":"k","payload":1},{"queue":"q","transactionId":"k","payload":1}]}`))
	for _, r := range results {
		if r.Status != "duplicate" || r.MessageID != "00000000-0000-0000-0000-000000000000" {
			t.Errorf("got %+v", r)
		}
	}
}

func TestPush_PartlyStoredSaysSoPerItem(t *testing.T) {
	t.Parallel()
	s := serve(t, func(s *service, _ *httpd.Options) {
		s.ledger.broken = map[string]error{
			"down":  queue.Unavailable("PostgreSQL is down", 0, errors.New("secret host")),
			"other": queue.Unavailable("the partition is locked", 0, nil),
			"bug":   errors.New("secret"),
		}
	})
	results := decode(t, s.push(`{"items":[
		{"queue":"q","partition":"down","transactionId":"k","payload":1},
		{"queue":"q","partition":"fine","transactionId":"k","payload":1},
		{"queue":"q","partition":"down","transactionId":"k","payload":1},
		{"queue":"q","partition":"other","transactionId":"k","payload":1},
		{"queue":"q","partition":"bug","transactionId":"k","payload":1}
	]}`))
	want := []string{"0 q/k failed", "1 q/k queued", "2 q/k failed", "3 q/k failed", "4 q/k failed"}
	if diff := cmp.Diff(want, statuses(results)); diff != "" {
		t.Error(diff)
	}
	var texts []string
	for _, r := range results {
		if r.Error != nil {
			texts = append(texts, *r.Error)
		}
	}
	wantTexts := []string{"PostgreSQL is down", "PostgreSQL is down", "PostgreSQL did not take the push: the partition is locked", "internal error"}
	if diff := cmp.Diff(wantTexts, texts); diff != "" {
		t.Error(diff)
	}
}

func TestPush_NothingStoredFailsTheRequest(t *testing.T) {
	t.Parallel()
	unknown := &queue.Error{Kind: queue.KindUnknown, Message: "PostgreSQL did not confirm the commit", RetryAfter: 1}
	tests := map[string]struct {
		broken     map[string]error
		status     int
		body       string
		retryAfter string
	}{
		"database down": {
			map[string]error{"p": queue.Unavailable("no connection", 1, nil), "q": queue.Unavailable("no connection", 1, nil)},
			503, `{"error":"PostgreSQL did not take the push: no connection"}`, "1",
		},
		"commit unknown": {
			map[string]error{"p": queue.Unavailable("PostgreSQL is down", 0, nil), "q": unknown},
			503, `{"error":"PostgreSQL did not confirm the commit"}`, "1",
		},
		"one will pass later, one never": {
			map[string]error{"p": queue.Invalid("payload", "bad"), "q": queue.Unavailable("PostgreSQL is down", 0, nil)},
			503, `{"error":"PostgreSQL is down"}`, "",
		},
		"none will ever pass": {
			map[string]error{"p": queue.Invalid("payload", "bad"), "q": queue.Invalid("payload", "bad")},
			400, `{"error":"bad"}`, "",
		},
		"a bug": {
			map[string]error{"p": errors.New("secret"), "q": queue.Invalid("payload", "bad")},
			500, `{"error":"internal error"}`, "",
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := serve(t, func(s *service, _ *httpd.Options) { s.ledger.broken = test.broken })
			w := s.push(`{"items":[{"queue":"q","partition":"p","payload":1},{"queue":"q","partition":"q","payload":1}]}`)
			if w.Code != test.status || w.Body.String() != test.body || w.Header().Get("Retry-After") != test.retryAfter {
				t.Errorf("%d %s, Retry-After %q", w.Code, w.Body, w.Header().Get("Retry-After"))
			}
		})
	}
}

func TestPush_RefusesBadBodiesWhole(t *testing.T) {
	t.Parallel()
	tests := []struct {
		body   string
		status int
		answer string
	}{
		{``, 400, `{"error":"bad body: the JSON ends where a value should follow (byte 0)"}`},
		{`{"items":[{"queue":"q","payload":1},{"payload":1}]}`, 400, `{"error":"bad body: items[1].queue is missing"}`},
		{`{"items":[{"queue":"q","payload":1},{"queue":"q","data":1}]}`, 400, `{"error":"bad body: items[1].payload is missing (data is not a name for it)"}`},
		{`{"items":[{"queue":"q","payload":"` + strings.Repeat("x", 1<<20) + `"}]}`, 413, ``},
	}
	for _, test := range tests {
		t.Run(fmt.Sprintf("%d %s", test.status, test.answer), func(t *testing.T) {
			t.Parallel()
			s := serve(t, nil)
			w := s.push(test.body)
			if w.Code != test.status || test.answer != "" && w.Body.String() != test.answer {
				t.Errorf("%d %s", w.Code, w.Body)
			}
			if !json.Valid(w.Body.Bytes()) {
				t.Errorf("the answer is not JSON: %s", w.Body)
			}
			if len(s.ledger.stored) > 0 {
				t.Error("something was stored")
			}
		})
	}
}

func TestPush_BelongsToItsTenant(t *testing.T) {
	t.Parallel()
	s := serve(t, func(_ *service, o *httpd.Options) { o.Tenancy = true })
	const body = `{"items":[{"queue":"q","transactionId":"k","payload":1}]}`
	tenant := "11111111-2222-3333-4444-555555555555"
	one, other := decode(t, s.push(body, "x-queen-tenant", tenant)), decode(t, s.push(body))
	if one[0].Status != "queued" || other[0].Status != "queued" || s.ledger.stored[0].Key.Tenant.String() != tenant {
		t.Errorf("got %+v and %+v for %v", one, other, s.ledger.stored[0].Key)
	}
	if w := s.push(body, "x-queen-tenant", "nonsense"); w.Code != 400 {
		t.Errorf("%d %s", w.Code, w.Body)
	}
}

func TestPush_ARefusedRequestIsA503WithRetryAfter(t *testing.T) {
	t.Parallel()
	stopped := batch.New(&ledger{}, batch.Defaults())
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := stopped.Run(ctx); err != nil {
		t.Fatal(err)
	}
	s := serve(t, func(_ *service, o *httpd.Options) {
		o.Handlers = (&API{Push: stopped.Push, Room: room.New(1<<20, 0), Ready: func() error { return nil }}).Handlers()
	})
	w := s.push(`{"items":[{"queue":"q","payload":1}]}`)
	if w.Code != 503 || w.Header().Get("Retry-After") != "1" {
		t.Errorf("%d %s %v", w.Code, w.Body, w.Header())
	}
}
