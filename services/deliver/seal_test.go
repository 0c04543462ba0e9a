package main

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"queen.internal/pkg/appendlog"
	"queen.internal/pkg/config"
	"queen.internal/pkg/queue"
	"queen.internal/pkg/seal"
	"queen.internal/pkg/segment"
	"queen.internal/pkg/testkit"
)

var (
	keyNow   = strings.Repeat("5a", 32)
	keyOnce  = strings.Repeat("a5", 32)
	keyOther = strings.Repeat("77", 32)
)

// sealed is an envelope around text.
func sealed(t *testing.T, key, text string) string {
	t.Helper()
	keys, err := seal.NewKeys(key)
	if err != nil {
		t.Fatal(err)
	}
	return string(keys.Seal([]byte(text)))
}

// data is the payloads of a pop, as they stand in its answer.
func (p popped) data() []string {
	var all []string
	for _, m := range p.Messages {
		all = append(all, string(m.Data))
	}
	return all
}

func TestPop_OpensWhatItsKeysOpen(t *testing.T) {
	t.Parallel()
	b := setup(t)
	const text = `{ "a" : [ 1 , 12345678901234567890 ] , "s":"\u0000<&>" }`
	now, once, other := sealed(t, keyNow, text), sealed(t, keyOnce, text), sealed(t, keyOther, text)
	twice := sealed(t, keyNow, now) // a producer pushed an envelope
	stored := []string{now, text, once, other, twice, `{"encrypted":"x","iv":"y","authTag":"z"}`}
	var ids []string
	var payloads [][]byte
	for i, payload := range stored {
		ids, payloads = append(ids, fmt.Sprint(i)), append(payloads, []byte(payload))
	}
	b.pushPayloads("q", "p", ids, payloads)

	for name, test := range map[string]struct {
		key, previous string
		want          []string
		unopened      float64
	}{
		"NoKey":       {"", "", stored, 4},
		"Key":         {keyNow, "", []string{text, text, once, other, now, stored[5]}, 2},
		"Previous":    {keyNow, keyOnce, []string{text, text, text, other, now, stored[5]}, 1},
		"OnlyToRead":  {"", keyOnce + "," + keyNow, []string{text, text, text, other, now, stored[5]}, 1},
		"AnotherOnly": {keyOther, "", []string{now, text, once, text, twice, stored[5]}, 3},
	} {
		p := &bundle{t: t, process: start(t, b.database.Config, func(s *settings) {
			s.Key, s.Previous = config.Secret(test.key), config.Secret(test.previous)
		})}
		got := p.mustPop(http.StatusOK, "/queue/q?batch=10&subscriptionMode=all&consumerGroup="+name)
		if diff := cmp.Diff(test.want, got.data()); diff != "" {
			t.Errorf("%s: %s", name, diff)
		}
		if n := p.metric("queen_decrypt_failures_total"); n != test.unopened {
			t.Errorf("%s: %v payloads count as not opened, want %v", name, n, test.unopened)
		}
		if results := p.mustAck(name, got.items("completed")...); len(results) != len(stored) {
			t.Errorf("%s: %+v", name, results)
		}
	}
}

func TestPop_ShowsWhoProduced(t *testing.T) {
	t.Parallel()
	b := setup(t)
	g := appendlog.Group{Key: appendlog.Key{Tenant: queue.DefaultTenant, Queue: "q", Partition: "p"}}
	for i, producer := range []string{"svc", "", `od"d<é` + "\u0001"} {
		g.Messages = append(g.Messages, segment.Message{
			ID: queue.NewID(), TransactionID: fmt.Sprint(i), ProducerSub: producer, Payload: []byte(`{"producerSub":"mallory"}`),
		})
	}
	if err := b.appender.Append(t.Context(), []appendlog.Group{g})[0].Err; err != nil {
		t.Fatal(err)
	}
	got := b.mustPop(http.StatusOK, "/queue/q?batch=10")
	for i, m := range got.Messages {
		want := g.Messages[i].ProducerSub
		if (m.ProducerSub == nil) != (want == "") || m.ProducerSub != nil && *m.ProducerSub != want {
			t.Errorf("message %d: %s", i, got.Raw)
		}
	}
}

func TestAuthentication_GuardsPopsAndAcks(t *testing.T) {
	t.Parallel()
	const secret = "a secret"
	b := setup(t)
	b.push("q", "p", "a")
	p := start(t, b.database.Config, func(s *settings) {
		s.Enabled, s.Secret, s.Issuer = true, secret, "tests"
	})
	token := func(role string) string {
		return testkit.Token(t, secret, map[string]any{"iss": "tests", "roles": []string{role}})
	}
	for _, test := range []struct {
		method, path, token string
		want                int
	}{
		{"GET", "/api/v1/pop/queue/q", "", 401},
		{"GET", "/api/v1/pop/queue/q", testkit.RoleToken(t, secret, "admin", ""), 401}, // of another issuer
		{"GET", "/api/v1/pop/queue/q?wait=true&timeout=60000", token("write-only"), 403},
		{"GET", "/api/v1/pop/queue/q", token("read-only"), 403},
		{"POST", "/api/v1/ack", token("write-only"), 403},
		{"POST", "/api/v1/push", token("read-only"), 403}, // whose route it is, is not told
		{"GET", "/api/v1/nothing", token("read-only"), 403},
		{"GET", "/status", token("write-only"), 403},
		{"GET", "/status", token("read-only"), 200},
		{"GET", "/health", "", 200},
		{"GET", "/metrics/prometheus", "", 200},
		{"GET", "/api/v1/pop/queue/q", token("read-write"), 200},
	} {
		req, err := http.NewRequestWithContext(context.Background(), test.method, p.url+test.path, http.NoBody)
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("Authorization", "bearer "+test.token)
		if test.token == "" {
			req.Header.Del("Authorization")
		}
		res, err := p.client.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		body, err := io.ReadAll(res.Body)
		_ = res.Body.Close()
		if err != nil || res.StatusCode != test.want {
			t.Errorf("%s %s: %d %s (%v), want %d", test.method, test.path, res.StatusCode, body, err, test.want)
		}
	}
}
