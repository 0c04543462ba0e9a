package main

import (
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"

	"queen.internal/pkg/config"
	"queen.internal/pkg/pgtest"
	"queen.internal/pkg/queue"
	"queen.internal/pkg/seal"
	"queen.internal/pkg/store/log"
)

// bench is a console on a database of its own.
type bench struct {
	*testing.T
	database pgtest.Database
	url      string
}

// setup starts a console that believes the tenancy header and opens what key has sealed.
func setup(t *testing.T, key string) *bench {
	t.Helper()
	database := pgtest.New(t)
	s := at(database.Config)
	s.Tenancy.Header, s.Tenancy.TrustedProxy, s.Encryption.Key = true, true, config.Secret(key)
	return &bench{T: t, database: database, url: start(t, s)}
}

// ask gets a path as a tenant, the default one when it is empty.
func (b *bench) ask(tenant, path string) (int, string) {
	b.Helper()
	req, err := http.NewRequestWithContext(b.Context(), http.MethodGet, b.url+path, nil)
	if err != nil {
		b.Fatal(err)
	}
	if tenant != "" {
		req.Header.Set("x-queen-tenant", tenant)
	}
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}, Timeout: patience}
	res, err := client.Do(req)
	if err != nil {
		b.Fatal(err)
	}
	defer res.Body.Close()
	body, err := io.ReadAll(res.Body)
	if err != nil {
		b.Fatal(err)
	}
	return res.StatusCode, string(body)
}

// must is the body of an answer that has to be 200.
func (b *bench) must(path string) string {
	b.Helper()
	status, body := b.ask("", path)
	if status != http.StatusOK {
		b.Fatalf("%s is %d %s", path, status, body)
	}
	return body
}

func (b *bench) exec(sql string, args ...any) {
	b.Helper()
	if _, err := b.database.Pool.Exec(b.Context(), sql, args...); err != nil {
		b.Fatal(err)
	}
}

func (b *bench) partition(queueName, name string) log.Partition {
	b.Helper()
	found, err := log.New(b.database.Pool).Ensure(b.Context(), []log.Key{{Tenant: queue.DefaultTenant, Queue: queueName, Partition: name}})
	if err != nil {
		b.Fatal(err)
	}
	return found[0]
}

var failed = time.Date(2026, 1, 1, 12, 0, 0, 123_456_000, time.UTC)

// file files a dead letter and returns its id.
func (b *bench) file(p log.Partition, group, transactionID string, failedAt time.Time, payload []byte) uuid.UUID {
	b.Helper()
	id := uuid.New()
	b.exec(`INSERT INTO queen.dlq (id, queue_id, partition_id, message_offset, failed_at, created_at, retry_count, message_id, group_name,
			transaction_id, error, payload)
		SELECT $1, queue_id, id, 0, $3, $3, 2, gen_random_uuid(), $4, $5, 'it is "broken"', $6 FROM queen.partitions WHERE id = $2`,
		[16]byte(id), p.ID, failedAt, group, transactionID, payload)
	return id
}

const someKey = "000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f"

func TestDeadLetters_ListedToTheByte(t *testing.T) {
	t.Parallel()
	b := setup(t, "")
	if got, want := b.must("/api/v1/dlq"), `{"messages":[],"pagination":{"limit":100,"offset":0},"total":0,"truncated":false}`; got != want {
		t.Errorf("without any: %s", got)
	}
	p := b.partition("bills", "eu/1")
	id := b.file(p, "mailer", "t 1", failed, []byte(`{ "n" : 1e400,"s":"\u0000<" }`))
	want := `{"messages":[{"id":"` + id.String() + `","transactionId":"t 1","partitionId":"` + p.UID.String() + `","queue":"bills","partition":"eu/1",` +
		`"consumerGroup":"mailer","errorMessage":"it is \"broken\"","retryCount":2,"data":{ "n" : 1e400,"s":"\u0000<" },"producerSub":null,` +
		`"createdAt":"2026-01-01T12:00:00.123Z","failedAt":"2026-01-01T12:00:00.123Z"}],"pagination":{"limit":1,"offset":0},"total":1,"truncated":false}`
	if diff := cmp.Diff(want, b.must("/api/v1/dlq?queue=bills&consumerGroup=mailer&partition=eu%2F1&limit=1&offset=0&extra=1")); diff != "" {
		t.Error(diff)
	}
	if got := b.must("/api/v1/dlq?from=2026-01-01T12:00:00.123Z&to=2026-01-01T12:00:00.123Z"); !strings.Contains(got, `"total":1`) {
		t.Errorf("the times that were told do not find it again: %s", got)
	}
	if got := b.must("/api/v1/dlq?to=2026-01-01T12:00:00.122Z"); !strings.Contains(got, `"total":0`) {
		t.Errorf("found before it failed: %s", got)
	}
	if status, body := b.ask("00000000-0000-0000-0000-000000000002", "/api/v1/dlq?queue=bills"); status != http.StatusOK || !strings.Contains(body, `"total":0`) {
		t.Errorf("another tenant gets %d %s", status, body)
	}
}

func TestDeadLetters_OpensWhatItsKeyOpens(t *testing.T) {
	t.Parallel()
	b := setup(t, someKey)
	ours, err := seal.NewKeys(someKey)
	if err != nil {
		t.Fatal(err)
	}
	foreign, err := seal.NewKeys(strings.Repeat("77", 32))
	if err != nil {
		t.Fatal(err)
	}
	p := b.partition("q", "p")
	closed := foreign.Seal([]byte(`1`))
	b.file(p, "g", "opened", failed, ours.Seal([]byte(`{"a": 1}`)))
	b.file(p, "g", "plain", failed.Add(1*time.Second), []byte(`2`))
	b.file(p, "g", "closed", failed.Add(2*time.Second), closed)
	var answer struct {
		Messages []struct {
			TransactionID string
			Data          json.RawMessage
			IsEncrypted   *bool
		}
	}
	if err := json.Unmarshal([]byte(b.must("/api/v1/dlq")), &answer); err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, m := range answer.Messages {
		line := m.TransactionID + " " + string(m.Data)
		if m.IsEncrypted != nil && *m.IsEncrypted {
			line += " encrypted"
		}
		got = append(got, line)
	}
	if diff := cmp.Diff([]string{"closed " + string(closed) + " encrypted", "plain 2", `opened {"a": 1}`}, got); diff != "" {
		t.Error(diff)
	}
}

func TestDeadLetters_LargePayloadsAreLeftOut(t *testing.T) {
	t.Parallel()
	b := setup(t, "")
	p := b.partition("q", "p")
	large := []byte(`"` + strings.Repeat("x", 9<<20) + `"`)
	b.file(p, "g", "second", failed, large)
	b.file(p, "g", "first", failed.Add(time.Second), large)
	body := b.must("/api/v1/dlq")
	if n := strings.Count(body, `"payloadAvailable":false`); n != 1 || len(body) > 10<<20 || !strings.HasSuffix(body, `"total":2,"truncated":false}`) {
		t.Errorf("%d payloads are left out of %d bytes", n, len(body))
	}
}

func TestDeadLetters_RefusesWhatItCannotRead(t *testing.T) {
	t.Parallel()
	b := setup(t, "")
	for query, want := range map[string]string{
		"limit=x":             `{"error":"limit: \"x\" is not an integer between 0 and 10000"}`,
		"limit=-1":            `{"error":"limit: \"-1\" is not an integer between 0 and 10000"}`,
		"offset=99999999999":  `{"error":"offset: \"99999999999\" is not an integer between 0 and 1000000"}`,
		"from=yesterday":      `{"error":"from: \"yesterday\" is not a time such as 2026-01-31T12:00:00Z"}`,
		"to=1":                `{"error":"to: \"1\" is not a time such as 2026-01-31T12:00:00Z"}`,
		"queue=%00":           `{"error":"queue contains a control character"}`,
		"consumerGroup=%ff":   `{"error":"consumerGroup is not valid UTF-8"}`,
		"queue=%zz":           `{"error":"query: invalid URL escape \"%zz\""}`,
		"limit=x&from=nobody": `{"error":"from: \"nobody\" is not a time such as 2026-01-31T12:00:00Z"}`,
	} {
		if status, body := b.ask("", "/api/v1/dlq?"+query); status != http.StatusBadRequest || body != want {
			t.Errorf("%s is %d %s", query, status, body)
		}
	}
	for _, query := range []string{"limit=&offset=&queue=&consumerGroup=&from=&to=", "limit=0", "unknown=%20"} {
		if status, body := b.ask("", "/api/v1/dlq?"+query); status != http.StatusOK {
			t.Errorf("%s is %d %s", query, status, body)
		}
	}
	if status, body := b.ask("no uuid", "/api/v1/dlq"); status != http.StatusBadRequest || !strings.Contains(body, "x-queen-tenant") {
		t.Errorf("a bad tenant is %d %s", status, body)
	}
}

func TestDeadLetters_WithoutADatabase(t *testing.T) {
	t.Parallel()
	url := start(t, nowhere(t))
	if status, body := get(t, url+"/api/v1/dlq"); status != http.StatusServiceUnavailable || body != `{"error":"the database is not available"}` {
		t.Errorf("%d %s", status, body)
	}
}
