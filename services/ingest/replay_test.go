package main

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"

	"queen.internal/pkg/config"
	"queen.internal/pkg/pgtest"
	"queen.internal/pkg/queue"
	"queen.internal/pkg/seal"
	"queen.internal/pkg/store/log"
	"queen.internal/pkg/testkit"
)

// buried is a dead letter of a test.
type buried struct{ id, partition uuid.UUID }

// bury makes a dead letter in a partition, which is created when it is missing.
func bury(t *testing.T, db pgtest.Database, name, partition, transactionID string, payload []byte) buried {
	t.Helper()
	found, err := log.New(db.Pool).Ensure(t.Context(), []log.Key{{Tenant: queue.DefaultTenant, Queue: name, Partition: partition}})
	if err != nil {
		t.Fatal(err)
	}
	b := buried{uuid.New(), found[0].UID}
	if _, err := db.Pool.Exec(t.Context(), `INSERT INTO queen.dlq SELECT $1, queue_id, id, 0, clock_timestamp(), clock_timestamp(), 3, gen_random_uuid(), 'g', $3, 'why', $4
		FROM queen.partitions WHERE id = $2`, [16]byte(b.id), found[0].ID, transactionID, payload); err != nil {
		t.Fatal(err)
	}
	return b
}

func deadLetters(t *testing.T, db pgtest.Database) (n int) {
	t.Helper()
	if err := db.Pool.QueryRow(t.Context(), `SELECT count(*) FROM queen.dlq`).Scan(&n); err != nil {
		t.Fatal(err)
	}
	return n
}

// post sends a POST below /api/v1.
func (s *service) post(t *testing.T, path, body string) (int, string) {
	t.Helper()
	status, _, answer, err := do(http.MethodPost, s.url+"/api/v1"+path, body)
	if err != nil {
		t.Fatal(err)
	}
	return status, answer
}

func TestRetry_MovesTheNewestDeadLetterOfAMessage(t *testing.T) {
	t.Parallel()
	db := pgtest.New(t)
	s := ready(t, db.Config, nil)
	const id, payload = "t 1/é", `{ "n" : 1e400 }`
	bury(t, db, "bills", "eu", id, []byte(`"older"`))
	newest := bury(t, db, "bills", "eu", id, []byte(payload))

	address := "/messages/" + newest.partition.String() + "/" + url.PathEscape(id) + "/retry"
	status, answer := s.post(t, address, "")
	messages := stored(t, db, "bills", "eu")
	if status != http.StatusOK || len(messages) != 1 {
		t.Fatalf("%d %s, stored %v", status, answer, messages)
	}
	want := fmt.Sprintf(`{"success":true,"result":"moved","queue":"bills","partition":"eu","consumerGroup":"g","dlqId":"%[1]s","originalTransactionId":"%[2]s",`+
		`"replayedAs":{"index":0,"message_id":"%[3]s","transaction_id":"dlq:%[1]s","queueName":"bills","status":"queued","offset":0},"dlqRowRemoved":true}`,
		newest.id, id, messages[0].ID)
	if diff := cmp.Diff(want, answer); diff != "" {
		t.Error(diff)
	}
	if m := messages[0]; m.TransactionID != "dlq:"+newest.id.String() || string(m.Payload) != payload {
		t.Errorf("stored as %s %s", m.TransactionID, m.Payload)
	}
	if status, answer = s.post(t, address, "whatever"); status != http.StatusOK || deadLetters(t, db) != 0 {
		t.Errorf("the older one: %d %s", status, answer)
	}
	for _, path := range []string{
		address, "/messages/no%20uuid/x/retry", "/messages/" + uuid.Max.String() + "/x/retry", "/messages/" + newest.partition.String() + "/%00/retry",
	} {
		status, answer := s.post(t, path, "")
		if status != http.StatusNotFound || !strings.HasPrefix(answer, `{"success":false,"partitionId":"`) || !strings.Contains(answer, `"error":"Message not found"`) {
			t.Errorf("%s is %d %s", path, status, answer)
		}
	}
}

func TestReplay_GoesWhereTheBodySays(t *testing.T) {
	t.Parallel()
	db := pgtest.New(t)
	s := ready(t, db.Config, nil)
	for _, test := range []struct{ body, queue, partition string }{
		{"", "bills", "eu"},
		{"null", "bills", "eu"},
		{"{}", "bills", "eu"},
		{`{"queue":null,"partition":null}`, "bills", "eu"},
		{`{"queue":" other ","partition":"p/1"}`, "other", "p/1"},
		{`{"queue":"third"}`, "third", "eu"},
		{`{"partition":"us"}`, "bills", "us"},
	} {
		b := bury(t, db, "bills", "eu", "t1", []byte(`1`))
		status, answer := s.post(t, "/dlq/"+b.id.String()+"/replay", test.body)
		var got struct {
			Result, Queue, Partition string
			ReplayedAs               struct{ QueueName string }
		}
		if err := json.Unmarshal([]byte(answer), &got); err != nil || status != http.StatusOK || got.Result != "moved" || got.Queue != test.queue ||
			got.Partition != test.partition || got.ReplayedAs.QueueName != test.queue {
			t.Errorf("%s is %d %s (%v)", test.body, status, answer, err)
		}
		messages := stored(t, db, test.queue, test.partition)
		if last := messages[len(messages)-1]; last.TransactionID != "dlq:"+b.id.String() {
			t.Errorf("%s: stored as %s", test.body, last.TransactionID)
		}
	}
	b := bury(t, db, "bills", "eu", "t1", []byte(`1`))
	for body, field := range map[string]string{
		`{"queue":" "}`: "queue", `{"partition":""}`: "partition", `{"queue":1}`: "queue", `{"queue":"a\u0001"}`: "queue", `[]`: "bad body", `{`: "bad body",
	} {
		if status, answer := s.post(t, "/dlq/"+b.id.String()+"/replay", body); status != http.StatusBadRequest || !strings.HasPrefix(answer, `{"error":"`+field) {
			t.Errorf("%s is %d %s", body, status, answer)
		}
	}
	for _, id := range []string{uuid.Max.String(), "no uuid"} {
		status, answer := s.post(t, "/dlq/"+url.PathEscape(id)+"/replay", "")
		if status != http.StatusNotFound || !strings.HasPrefix(answer, `{"success":false,"result":"gone","dlqId":"`+id+`","error":"Message not found","message":"`) {
			t.Errorf("%s is %d %s", id, status, answer)
		}
	}
	if n := deadLetters(t, db); n != 1 {
		t.Errorf("%d dead letters are left, want the one that was refused", n)
	}
}

func TestReplay_ADuplicateLeavesTheDeadLetter(t *testing.T) {
	t.Parallel()
	db := pgtest.New(t)
	s := ready(t, db.Config, nil)
	b := bury(t, db, "q", "p", "t1", []byte(`1`))
	s.mustPush(t, `{"items":[{"queue":"q","partition":"p","transactionId":"dlq:`+b.id.String()+`","payload":1}]}`)
	status, answer := s.post(t, "/dlq/"+b.id.String()+"/replay", "")
	if status != http.StatusOK || !strings.Contains(answer, `"result":"duplicate"`) || !strings.HasSuffix(answer, `"status":"duplicate","offset":null},"dlqRowRemoved":false}`) ||
		!strings.Contains(answer, `"message_id":"00000000-0000-0000-0000-000000000000"`) || deadLetters(t, db) != 1 {
		t.Errorf("%d %s", status, answer)
	}
}

func TestReplay_OpensAndSealsAsTheDestinationWants(t *testing.T) {
	t.Parallel()
	db := pgtest.New(t)
	s := ready(t, db.Config, withKey)
	keys, err := seal.NewKeys(encryptionKey)
	if err != nil {
		t.Fatal(err)
	}
	s.configure(t, `{"queue":"secret","options":{"encryptionEnabled":true}}`)
	s.mustPush(t, `{"items":[{"queue":"open","payload":0}]}`)
	const text = `{"a": 1}`
	for _, target := range []string{"open", "secret"} {
		for _, payload := range [][]byte{keys.Seal([]byte(text)), []byte(text)} {
			b := bury(t, db, "q", "p", "t1", payload)
			if status, answer := s.post(t, "/dlq/"+b.id.String()+"/replay", `{"queue":"`+target+`","partition":"new"}`); status != http.StatusOK {
				t.Fatalf("%d %s", status, answer)
			}
		}
		texts, sealed := opened(t, payloads(t, db, target, "new"))
		want := target == "secret"
		if diff := cmp.Diff([]string{text, text}, texts); diff != "" || sealed[0] != want || sealed[1] != want {
			t.Errorf("%s: sealed %v, %s", target, sealed, diff)
		}
	}

	keyless := ready(t, db.Config, nil)
	b := bury(t, db, "q", "p", "t1", []byte(text))
	status, answer := keyless.post(t, "/dlq/"+b.id.String()+"/replay", `{"queue":"secret"}`)
	if status != http.StatusBadRequest || !strings.Contains(answer, `"result":"failed"`) || !strings.Contains(answer, "no key") ||
		!strings.HasSuffix(answer, `"dlqRowRemoved":false}`) || deadLetters(t, db) != 1 {
		t.Errorf("without a key: %d %s", status, answer)
	}
}

func TestReplay_TellsWhatItDoesNotKnow(t *testing.T) {
	t.Parallel()
	db := pgtest.New(t)
	proxy, database := testkit.Between(t, db.Config)
	s := ready(t, database, nil)
	const call = "queen.replay_dead_letter("

	lost := bury(t, db, "q", "p", "t1", []byte(`1`))
	drop := proxy.Next(testkit.DropAnswer, call)
	status, answer := s.post(t, "/dlq/"+lost.id.String()+"/replay", "")
	drop.Await(t)
	if status != http.StatusOK || !strings.Contains(answer, `"result":"moved"`) || len(stored(t, db, "q", "p")) != 1 {
		t.Errorf("one lost answer: %d %s", status, answer)
	}

	unknown := bury(t, db, "q", "p", "t1", []byte(`2`))
	proxy.Next(testkit.DropAnswer, call)
	proxy.Nth(2, testkit.DropAnswer, call)
	status, answer = s.post(t, "/dlq/"+unknown.id.String()+"/replay", "")
	if status != http.StatusInternalServerError || !strings.HasPrefix(answer, `{"success":false,"result":"unknown"`) || !strings.HasSuffix(answer, `"dlqRowRemoved":null}`) {
		t.Errorf("two lost answers: %d %s", status, answer)
	}

	kept := bury(t, db, "q", "p", "t1", []byte(`3`))
	proxy.Next(testkit.CutStatement, "queen.find_dead_letter(")
	status, answer = s.post(t, "/dlq/"+kept.id.String()+"/replay", "")
	if status != http.StatusServiceUnavailable || !strings.HasPrefix(answer, `{"error":"dlq lookup failed: `) || strings.Contains(answer, "dlqRowRemoved") {
		t.Errorf("no look-up: %d %s", status, answer)
	}
	if n := deadLetters(t, db); n != 1 {
		t.Errorf("%d dead letters are left", n)
	}
}

func TestReplay_IsOfOneTenant(t *testing.T) {
	t.Parallel()
	db := pgtest.New(t)
	s := ready(t, db.Config, func(s *settings) { s.Tenancy = config.Tenancy{Header: true, TrustedProxy: true} })
	b := bury(t, db, "q", "p", "t1", []byte(`1`))
	for _, path := range []string{"/dlq/" + b.id.String() + "/replay", "/messages/" + b.partition.String() + "/t1/retry"} {
		r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, s.url+"/api/v1"+path, nil)
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("x-queen-tenant", "00000000-0000-0000-0000-000000000002")
		response, err := client.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		_ = response.Body.Close()
		if response.StatusCode != http.StatusNotFound || deadLetters(t, db) != 1 {
			t.Errorf("another tenant's %s is %d", path, response.StatusCode)
		}
	}
}
