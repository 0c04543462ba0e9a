package e2e

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/jackc/pgx/v5"

	"queen.internal/compose/local"
	"queen.internal/pkg/client"
	"queen.internal/pkg/seal"
	"queen.internal/pkg/segment"
	"queen.internal/pkg/testkit"
	"queen.internal/test/internal/cell"
)

const (
	jwtSecret = "a secret of the end-to-end tests"
	sealKey   = "000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f"
)

// TestGuardedCell is about a stack that asks for tokens and can seal.
func TestGuardedCell(t *testing.T) {
	t.Parallel()
	c := world.Own(t, local.Options{Ingest: 2, Env: []string{
		"QUEEN_ENCRYPTION_KEY=" + sealKey, "JWT_ENABLED=on", "JWT_SECRET=" + jwtSecret, "JWT_ISSUER=e2e",
	}})
	t.Run("EncryptedQueueGivesClearPayloadsAndStoresNone", func(t *testing.T) {
		t.Parallel()
		testEncryptedQueue(t, c)
	})
	t.Run("ProducerIsTheTokensSubjectAndNeverTheBodys", func(t *testing.T) {
		t.Parallel()
		testProducer(t, c)
	})
	t.Run("TokensReachAsFarAsTheirRoles", func(t *testing.T) {
		t.Parallel()
		testLevels(t, c)
	})
}

func tokenOf(t *testing.T, role, subject string) string {
	t.Helper()
	return testkit.Token(t, jwtSecret, map[string]any{"iss": "e2e", "role": role, "sub": subject})
}

// as is a client of the edge with a token.
func clientAs(t *testing.T, c *cell.Cell, token string) *client.Client {
	t.Helper()
	cl, err := client.New(client.Options{URL: c.Edge, Token: token})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(cl.Close)
	return cl
}

// ask sends one request with a token, none when it is empty.
func ask(t *testing.T, token, method, url, body string) (int, string) {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), method, url, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	if token != "" {
		r.Header.Set("Authorization", "Bearer "+token)
	}
	response, err := http.DefaultTransport.RoundTrip(r)
	if err != nil {
		t.Fatal(err)
	}
	defer hangUp(t, response.Body)
	answer, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatal(err)
	}
	return response.StatusCode, string(answer)
}

// rows are the messages of a queue as they lie in the database.
func rows(t *testing.T, c *cell.Cell, queue string) []segment.Message {
	t.Helper()
	var messages []segment.Message
	conn, err := pgx.Connect(t.Context(), c.Stack.DSN())
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := conn.Close(t.Context()); err != nil {
			t.Error(err)
		}
	}()
	found, err := conn.Query(t.Context(), `SELECT g.codec, g.raw_bytes, (g.end_offset - g.base_offset + 1)::int, g.payload
		FROM queen.segments g JOIN queen.partitions p ON p.id = g.partition_id JOIN queen.queues q ON q.id = p.queue_id
		WHERE q.name = $1 ORDER BY g.partition_id, g.base_offset`, queue)
	if err != nil {
		t.Fatal(err)
	}
	var codec int16
	var size, count int
	var blob []byte
	if _, err := pgx.ForEachRow(found, []any{&codec, &size, &count, &blob}, func() error {
		decoded, err := segment.Decode(codec, size, count, bytes.Clone(blob))
		messages = append(messages, decoded...)
		return err
	}); err != nil {
		t.Fatal(err)
	}
	return messages
}

// Acceptance line 22, with a key.
func testEncryptedQueue(t *testing.T, c *cell.Cell) {
	t.Helper()
	queue := cell.FreshQueue()
	producer, consumer := clientAs(t, c, tokenOf(t, "write-only", "producer")), clientAs(t, c, tokenOf(t, "read-write", "consumer"))
	configure := func(on bool) {
		t.Helper()
		body := fmt.Sprintf(`{"queue":%q,"options":{"encryptionEnabled":%v}}`, queue, on)
		status, answer := ask(t, tokenOf(t, "admin", ""), http.MethodPost, c.Edge+"/api/v1/configure", body)
		if status != http.StatusOK || !strings.Contains(answer, fmt.Sprintf(`"encryptionEnabled":%v`, on)) {
			t.Fatalf("%d %s", status, answer)
		}
	}
	push := func(payloads ...string) {
		t.Helper()
		var items []client.Item
		for _, payload := range payloads {
			items = append(items, client.Item{Queue: queue, TransactionID: payload, Payload: json.RawMessage(payload)})
		}
		results, err := producer.Push(t.Context(), items)
		if err != nil {
			t.Fatal(err)
		}
		for _, r := range results {
			if r.Status != client.Queued {
				t.Errorf("%+v", r)
			}
		}
	}
	configure(true)
	hidden := []string{`{ "card" : "TOPSECRET" , "n":12345678901234567890 }`, `"TOPSECRET"`, `null`}
	push(hidden...)
	// The same keys again: duplicates are found, though the payloads' bytes differ each time.
	again, err := producer.Push(t.Context(), []client.Item{{Queue: queue, TransactionID: hidden[0], Payload: json.RawMessage(hidden[0])}})
	if err != nil || again[0].Status != client.Duplicate {
		t.Errorf("%+v, %v", again, err)
	}
	messages := rows(t, c, queue)
	if len(messages) != len(hidden) {
		t.Errorf("%d messages are stored", len(messages))
	}
	for i, m := range messages {
		if !seal.IsEnvelope(m.Payload) || bytes.Contains(m.Payload, []byte("SECRET")) {
			t.Errorf("message %d lies there as %s", i, m.Payload)
		}
	}

	configure(false)
	push(`"clear"`)
	batch, err := consumer.Pop(t.Context(), client.PopRequest{Queue: queue, Batch: 10})
	if err != nil {
		t.Fatal(err)
	}
	var data, producers []string
	for _, m := range batch.Messages {
		data, producers = append(data, string(m.Data)), append(producers, fmt.Sprint(deref(m.ProducerSub)))
	}
	if diff := cmp.Diff(append(hidden, `"clear"`), data); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff([]string{"producer", "producer", "producer", "producer"}, producers); diff != "" {
		t.Error(diff)
	}
}

// Acceptance line 22, without a key: the item fails where another broker would store it in clear.
func TestEncryptedQueueWithoutAKeyStoresNothing(t *testing.T) {
	t.Parallel()
	c := shared(t)
	queue := cell.FreshQueue()
	c.Push(t, client.Item{Queue: queue, Payload: []byte(`"before"`)})
	conn, err := pgx.Connect(t.Context(), c.Stack.DSN())
	if err != nil {
		t.Fatal(err)
	}
	_, err = conn.Exec(t.Context(), `UPDATE queen.queues SET encryption_enabled = true WHERE name = $1`, queue)
	if closed := conn.Close(t.Context()); err != nil || closed != nil {
		t.Fatal(err, closed)
	}
	status, body := c.Post(t, "/api/v1/push", fmt.Sprintf(`{"items":[{"queue":%q,"payload":"hidden"}]}`, queue))
	if status != http.StatusCreated || !strings.Contains(string(body), `"status":"failed"`) || !strings.Contains(string(body), "QUEEN_ENCRYPTION_KEY") {
		t.Errorf("%d %s", status, body)
	}
	if messages := rows(t, c, queue); len(messages) != 1 || string(messages[0].Payload) != `"before"` {
		t.Errorf("%d messages", len(messages))
	}
	if batch := c.Pop(t, client.PopRequest{Queue: queue, Batch: 10}); len(batch.Messages) != 1 || string(batch.Messages[0].Data) != `"before"` {
		t.Errorf("%+v", batch)
	}
}

func deref(text *string) any {
	if text == nil {
		return nil
	}
	return *text
}

// Acceptance line 23.
func testProducer(t *testing.T, closed *cell.Cell) {
	t.Helper()
	const items = `{"items":[{"queue":%q,"payload":{"producerSub":"mallory"},"producerSub":"mallory"}]}`
	open := shared(t)
	for name, test := range map[string]struct {
		at          *cell.Cell
		token, want string
	}{
		"WithoutAuthentication": {open, "", `"producerSub":null`},
		"UncheckedToken":        {open, tokenOf(t, "admin", "svc"), `"producerSub":null`},
		"Authenticated":         {closed, tokenOf(t, "read-write", "svc"), `"producerSub":"svc"`},
		"EmptySubject":          {closed, tokenOf(t, "read-write", ""), `"producerSub":null`},
	} {
		queue := cell.FreshQueue()
		if status, answer := ask(t, test.token, http.MethodPost, test.at.Edge+"/api/v1/push", fmt.Sprintf(items, queue)); status != http.StatusCreated {
			t.Errorf("%s: %d %s", name, status, answer)
		}
		status, answer := ask(t, test.token, http.MethodGet, test.at.Edge+"/api/v1/pop/queue/"+queue, "")
		if status != http.StatusOK || !strings.Contains(answer, `"data":{"producerSub":"mallory"},`+test.want+`,`) {
			t.Errorf("%s: %d %s", name, status, answer)
		}
	}
}

func testLevels(t *testing.T, c *cell.Cell) {
	t.Helper()
	const body = `{"items":[{"queue":"levels","payload":1}]}`
	const forbidden, required = `{"error":"Insufficient permissions"}`, `{"error":"Authentication required"}`
	paths := map[string]string{"GET": "/api/v1/pop/queue/levels", "POST": "/api/v1/push"}
	for _, test := range []struct {
		role, method string
		want         int
		answer       string
	}{
		{"write-only", "POST", 201, `"status":"queued"`},
		{"write-only", "GET", 403, forbidden},
		{"read-only", "POST", 403, forbidden},
		{"read-only", "GET", 403, forbidden},
		{"read-write", "POST", 201, `"status":"queued"`},
		{"read-write", "GET", 200, `"success":true`},
		{"admin", "POST", 201, `"status":"queued"`},
		{"nobody", "POST", 403, forbidden},
		{"", "POST", 401, required},
		{"", "GET", 401, required},
	} {
		token := ""
		if test.role != "" {
			token = tokenOf(t, test.role, "svc")
		}
		straight := map[string]string{"GET": c.Deliver[0], "POST": c.Ingest[0]}[test.method]
		for _, address := range []string{straight, c.Edge} {
			if address == c.Edge && test.want == http.StatusOK {
				continue // the one before has leased what there is
			}
			if status, answer := ask(t, token, test.method, address+paths[test.method], body); status != test.want || !strings.Contains(answer, test.answer) {
				t.Errorf("%s %s at %s: %d %s", test.role, test.method, address, status, answer)
			}
		}
	}
	stranger := testkit.Token(t, "another secret", map[string]any{"iss": "e2e", "role": "admin"})
	expired := testkit.Token(t, jwtSecret, map[string]any{"iss": "e2e", "role": "admin", "exp": 1})
	for token, want := range map[string]string{
		stranger: `{"error":"Invalid token signature"}`, expired: `{"error":"Token has expired"}`, "x": `{"error":"Bad token header"}`,
		testkit.RoleToken(t, jwtSecret, "admin", ""): `{"error":"Invalid token issuer"}`,
	} {
		if status, answer := ask(t, token, http.MethodPost, c.Edge+"/api/v1/push", body); status != http.StatusUnauthorized || answer != want {
			t.Errorf("%d %s, want %s", status, answer, want)
		}
	}
	for _, address := range c.All() {
		for _, path := range []string{"/health", "/livez", "/readyz", "/metrics/prometheus"} {
			if status, answer := ask(t, "", http.MethodGet, address+path, ""); status != http.StatusOK {
				t.Errorf("%s%s: %d %.200s", address, path, status, answer)
			}
		}
		if address == c.Edge {
			continue
		}
		if status, answer := ask(t, "", http.MethodGet, address+"/status", ""); status != http.StatusUnauthorized {
			t.Errorf("%s/status: %d %s", address, status, answer)
		}
	}
	// Neither the key nor the secret is told anywhere.
	for _, service := range local.Names() {
		for _, line := range strings.Split(c.Stack.Logs(service), "\n") {
			if strings.Contains(line, sealKey) || strings.Contains(line, jwtSecret) {
				t.Errorf("%s printed %s", service, line)
			}
		}
	}
}

func TestBootFailsOnKeysAndTokensThatCannotWork(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		services []string
		settings map[string]string
		want     []string
	}{
		"ShortKey": {
			[]string{"ingest", "deliver"},
			map[string]string{"QUEEN_ENCRYPTION_KEY": sealKey[1:]},
			[]string{"QUEEN_ENCRYPTION_KEY has 63 characters"},
		},
		"BadPreviousKey": {
			[]string{"deliver"},
			map[string]string{"QUEEN_ENCRYPTION_KEY": sealKey, "QUEEN_ENCRYPTION_KEY_PREVIOUS": "z" + sealKey[1:]},
			[]string{"QUEEN_ENCRYPTION_KEY_PREVIOUS", "not hexadecimal"},
		},
		"NoSecret":    {withDatabase, map[string]string{"JWT_ENABLED": "true"}, []string{"JWT_SECRET"}},
		"NotABoolean": {[]string{"ingest"}, map[string]string{"JWT_ENABLED": "maybe"}, []string{`JWT_ENABLED="maybe" is not a boolean`}},
		"Algorithm": {
			[]string{"console"},
			map[string]string{"JWT_ENABLED": "true", "JWT_SECRET": jwtSecret, "JWT_ALGORITHM": "EdDSA"},
			[]string{`JWT_ALGORITHM="EdDSA": this build verifies HS256 only`},
		},
		"NoAlgorithm": {
			[]string{"maintainer"},
			map[string]string{"JWT_ENABLED": "true", "JWT_SECRET": jwtSecret, "JWT_ALGORITHM": "ES256"},
			[]string{`JWT_ALGORITHM="ES256" is none of`},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for _, service := range test.services {
				output := bootFailure(t, service, test.settings)
				fatalLine(t, output, test.want...)
				if strings.Contains(output, sealKey[1:]) || strings.Contains(output, jwtSecret) {
					t.Errorf("%s told a secret:\n%s", service, output)
				}
			}
		})
	}
}
