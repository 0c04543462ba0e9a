package main

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"queen.internal/pkg/config"
	"queen.internal/pkg/pgtest"
	"queen.internal/pkg/queue"
	"queen.internal/pkg/testkit"
)

// A worker that lost its lease must not ack under the one of who has the messages now.
func TestTransaction_RequiredLeasesAreHeld(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.push("q", "p", "a", "b")
	lost := b.mustPop(http.StatusOK, "/queue/q?batch=10")
	b.exec(`UPDATE queen.cursors SET lease_expires_at = clock_timestamp() WHERE lease_id IS NOT NULL`)
	held := b.mustPop(http.StatusOK, "/queue/q?batch=10")
	b.refuse("ack_rejected", "invalid or expired lease", []string{lost.LeaseID}, lost.acking("completed")...)
	b.refuse("ack_rejected", "invalid or expired lease", []string{lost.LeaseID, "no uuid"}, lost.acking("completed")...)
	b.refuse("ack_rejected", "invalid or expired lease", []string{"no uuid"}, held.acking("completed")...)
	named := held.acking("completed")
	named[0]["leaseId"] = held.LeaseID // the other ack of the partition and group is made under it too
	b.commit([]string{lost.LeaseID, "", ""}, named...)
	// Repeated, everything is below the cursor.
	b.commit([]string{held.LeaseID}, held.acking("completed")...)

	b.push("q", "p", "c")
	b.push("q", "p2", "d")
	got := b.mustPop(http.StatusOK, "/queue/q?partitions=2")
	operations := got.acking("completed")
	operations[0]["leaseId"] = got.LeaseID // and the other one goes by what is on record
	b.commit(nil, operations...)
	b.push("q", "p", "e")
	last := b.mustPop(http.StatusOK, "/queue/q")
	b.commit(nil, last.acking("completed")...) // nobody named a lease
	b.wantEmpty("/queue/q?partitions=2")
}

func TestTransaction_NacksAndDeadLetters(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.push("limited", "p", "a", "b")
	b.exec(`UPDATE queen.queues SET retry_limit = 2`)
	for range 5 { // retry charges nothing
		got := b.mustPop(http.StatusOK, "/queue/limited?batch=10")
		b.commit([]string{got.LeaseID}, got.Messages[0].acking("retry"))
	}
	got := b.mustPop(http.StatusOK, "/queue/limited?batch=10")
	dead := got.Messages[1].acking("dlq")
	dead["error"] = "poison"
	out := b.commit([]string{got.LeaseID}, got.Messages[0].acking("completed"), dead, pushing("report", "r"))
	if !out.Results[0].DLQ || !out.Results[1].DLQ || b.stored("report") != "r" {
		t.Error(out.raw)
	}
	b.wantEmpty("/queue/limited?batch=10")

	b.push("strict", "p", "c")
	b.exec(`UPDATE queen.queues SET retry_limit = 0 WHERE name = 'strict'`)
	got = b.mustPop(http.StatusOK, "/queue/strict")
	if out := b.commit([]string{got.LeaseID}, got.Messages[0].acking("failed"), pushing("report", "s")); !out.Results[0].DLQ {
		t.Error(out.raw)
	}
	b.wantEmpty("/queue/strict")
	var letters string
	if err := b.database.Pool.QueryRow(t.Context(), `SELECT string_agg(transaction_id || ' ' || error, ', ' ORDER BY transaction_id) FROM queen.dlq`).Scan(&letters); err != nil || letters != "b poison, c Retries exhausted" {
		t.Errorf("dead letters %q: %v", letters, err)
	}

	// A nack of what is committed already hinders nothing, but was not carried out.
	status, answer, err := b.submit(map[string]any{"operations": []operation{got.Messages[0].acking("failed"), got.Messages[0].acking("completed"), pushing("report", "t")}})
	if err != nil || status != http.StatusOK || !answer.Success || answer.Results[0].Success || !strings.Contains(answer.Results[0].Error, "committed") ||
		!answer.Results[1].Success || b.stored("report") != "r s t" {
		t.Errorf("%d %s: %v", status, answer.raw, err)
	}
}

func TestTransaction_ConcernsItsGroupsOnly(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.push("q", "p", "a", "b")
	const one, two = "/queue/q?batch=10&subscriptionMode=all&consumerGroup=one", "/queue/q?batch=10&subscriptionMode=all&consumerGroup=two"
	got := b.mustPop(http.StatusOK, one)
	b.commit([]string{got.LeaseID}, got.acking("completed")...)
	b.wantEmpty(one)
	other := b.mustPop(http.StatusOK, two)
	if other.ids() != "a b" {
		t.Error(other.Raw)
	}
	b.push("q", "p", "c")
	third := b.mustPop(http.StatusOK, one)
	// Two groups of one partition in one transaction.
	b.commit([]string{third.LeaseID, other.LeaseID}, append(third.acking("completed"), other.acking("completed")...)...)
	b.wantEmpty(one)
	if rest := b.mustPop(http.StatusOK, two); rest.ids() != "c" {
		t.Error(rest.Raw)
	}
}

func TestTransaction_PipelineOfThreeStages(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.push("stage0", "p", "m", "n", "o")
	for stage := range 3 {
		for range 3 {
			got := b.mustPop(http.StatusOK, fmt.Sprintf("/queue/stage%d?batch=1", stage))
			m := got.Messages[0]
			next := operation{"type": "push", "queue": fmt.Sprint("stage", stage+1), "partition": "p", "transactionId": m.TransactionID, "payload": []json.RawMessage{m.Data}}
			b.commit([]string{got.LeaseID}, m.acking("completed"), next)
		}
		b.wantEmpty(fmt.Sprintf("/queue/stage%d", stage))
	}
	got := b.mustPop(http.StatusOK, "/queue/stage3?batch=10")
	if diff := cmp.Diff([]string{`[[["m"]]]`, `[[["n"]]]`, `[[["o"]]]`}, got.data()); diff != "" {
		t.Error(diff)
	}
}

func TestTransaction_LargePayloadUnchanged(t *testing.T) {
	t.Parallel()
	b := setup(t)
	var large strings.Builder
	large.WriteString("[")
	for i := range 1000 {
		fmt.Fprintf(&large, `{"id" : %d, "text":"\u00e9%s"},`, i, strings.Repeat("x", 1200))
	}
	large.WriteString("0]")
	if status, out, err := b.submit(`{"operations":[{"type":"push","queue":"q","payload":` + large.String() + `}]}`); err != nil || status != http.StatusOK || !out.Success {
		t.Fatal(status, out.Error, err)
	}
	if got := b.mustPop(http.StatusOK, "/queue/q"); string(got.Messages[0].Data) != large.String() {
		t.Error("the payload was changed")
	}
}

// What waits is told: the push wakes a poll of the target, the ack one of the source that its lease kept out.
func TestTransaction_WakesWaitingPolls(t *testing.T) {
	t.Parallel()
	b := setupWith(t, func(s *settings) { s.WaitInitial, s.WaitMax = 60_000, 60_000 }) // nothing but news wakes
	b.push("source", "p", "a", "b")
	b.push("target", "p", "old")
	b.mustPop(http.StatusOK, "/queue/target?autoAck=true")
	got := b.mustPop(http.StatusOK, "/queue/source?batch=1")
	source, target := b.later("/queue/source?wait=true&timeout=50000"), b.later("/queue/target?wait=true&timeout=50000")
	b.parked(2)
	b.commit([]string{got.LeaseID}, got.Messages[0].acking("completed"), operation{"type": "push", "queue": "target", "partition": "p", "payload": 1, "transactionId": "new"})
	if s, d := source(), target(); s.ids() != "b" || d.ids() != "new" {
		t.Errorf("%q and %q", s.Raw, d.Raw)
	}
}

// keyed is a transaction under an idempotency key.
func keyed(key string, required []string, operations ...operation) map[string]any {
	return map[string]any{"operations": operations, "requiredLeases": required, "idempotencyKey": key}
}

func TestTransaction_IdempotencyKey(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.push("q", "p", "a")
	got := b.mustPop(http.StatusOK, "/queue/q")
	anonymous := operation{"type": "push", "queue": "target", "payload": 1} // its ids are minted
	body := func(lease string) map[string]any {
		return keyed("k", []string{lease}, anonymous, got.Messages[0].acking("completed"))
	}
	send := func(p *process, body any, want int) transacted {
		t.Helper()
		status, out, err := p.submit(body)
		if err != nil || status != want {
			t.Fatalf("%d %s: %v", status, out.raw, err)
		}
		return out
	}
	// What was rolled back can be tried again.
	if out := send(b.process, body(queue.NewID().String()), http.StatusOK); out.Success {
		t.Fatal(out.raw)
	}
	first := send(b.process, body(got.LeaseID), http.StatusOK)
	if !first.Success || first.Results[0].TransactionID != first.Results[0].MessageID {
		t.Fatal(first.raw)
	}
	// By another process, and under another lease.
	other := start(t, b.database.Config, func(*settings) {})
	for _, lease := range []string{got.LeaseID, queue.NewID().String()} {
		if again := send(other, body(lease), http.StatusOK); again.raw != first.raw {
			t.Errorf("%s\nfirst %s", again.raw, first.raw)
		}
	}
	for _, changed := range []map[string]any{
		keyed("k", []string{got.LeaseID}, got.Messages[0].acking("completed"), anonymous),
		keyed("k", []string{got.LeaseID}, anonymous, got.Messages[0].acking("failed")),
		keyed("k", nil, operation{"type": "push", "queue": "target", "payload": 2}),
	} {
		if out := send(b.process, changed, http.StatusBadRequest); out.Success || out.Reason != "bad_request" || !strings.Contains(out.Error, "idempotencyKey") {
			t.Error(out.raw)
		}
	}
	if n := len(strings.Fields(b.stored("target"))); n != 1 {
		t.Errorf("%d messages", n)
	}
	if out := send(b.process, keyed("k2", nil, anonymous), http.StatusOK); !out.Success || out.TransactionID == first.TransactionID {
		t.Error(out.raw)
	}
	if n := b.metric(`queen_transactions_total{outcome="committed"}`); n != 2 {
		t.Errorf("%v count as committed", n)
	}
}

// Many send the same at once, to two processes: it happens once, and all are told the same.
func TestTransaction_IdempotencyKeyOfManyAtOnce(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.push("q", "p", "a")
	got := b.mustPop(http.StatusOK, "/queue/q")
	other := start(t, b.database.Config, func(*settings) {})
	answers := make(chan string, 10)
	for i := range cap(answers) {
		go func() {
			_, out, err := []*process{b.process, other}[i%2].submit(keyed("k", []string{got.LeaseID}, operation{"type": "push", "queue": "target", "payload": 1}, got.Messages[0].acking("completed")))
			answers <- fmt.Sprint(out.Success, out.raw, err)
		}()
	}
	first := <-answers
	for range cap(answers) - 1 {
		if next := <-answers; next != first || !strings.HasPrefix(first, "true") {
			t.Errorf("%s\nfirst %s", next, first)
		}
	}
	if n := len(strings.Fields(b.stored("target"))); n != 1 {
		t.Errorf("%d messages", n)
	}
}

func TestTransaction_KeysOfTenantsAreTheirOwn(t *testing.T) {
	t.Parallel()
	b := setupWith(t, func(s *settings) { s.Header = true })
	seen := map[string]bool{}
	for _, tenant := range []string{"6f0c2a52-1b6e-4e0e-9f63-8b6e0c5f2d10", "6f0c2a52-1b6e-4e0e-9f63-8b6e0c5f2d11"} {
		status, answer := b.postAs(map[string]string{"x-queen-tenant": tenant}, `{"operations":[{"type":"push","queue":"q","payload":1}],"idempotencyKey":"k"}`)
		var out transacted
		if err := json.Unmarshal([]byte(answer), &out); err != nil || status != http.StatusOK || !out.Success || seen[out.TransactionID] {
			t.Fatalf("%d %s: %v", status, answer, err)
		}
		seen[out.TransactionID] = true
	}
	var messages int
	if err := b.database.Pool.QueryRow(t.Context(), `SELECT count(DISTINCT partition_id) FROM queen.segments`).Scan(&messages); err != nil || messages != 2 {
		t.Errorf("%d messages: %v", messages, err)
	}
}

// postAs sends a transaction with headers.
func (b *bundle) postAs(headers map[string]string, body string) (int, string) {
	b.t.Helper()
	req, err := http.NewRequestWithContext(b.t.Context(), http.MethodPost, b.url+"/api/v1/transaction", strings.NewReader(body))
	if err != nil {
		b.t.Fatal(err)
	}
	for name, value := range headers {
		req.Header.Set(name, value)
	}
	res, err := b.client.Do(req)
	if err != nil {
		b.t.Fatal(err)
	}
	defer func() { _ = res.Body.Close() }()
	answer, err := io.ReadAll(res.Body)
	if err != nil {
		b.t.Fatal(err)
	}
	return res.StatusCode, string(answer)
}

func TestTransaction_StampsTheProducer(t *testing.T) {
	t.Parallel()
	const secret = "a secret"
	b := setupWith(t, func(s *settings) { s.Enabled, s.Secret, s.Issuer = true, secret, "tests" })
	token := func(role string) map[string]string {
		return map[string]string{"Authorization": "Bearer " + testkit.Token(t, secret, map[string]any{"iss": "tests", "sub": "svc", "roles": []string{role}})}
	}
	const body = `{"operations":[{"type":"push","items":[{"queue":"q","payload":1,"producerSub":"mallory"}]}]}`
	for role, want := range map[string]int{"write-only": http.StatusForbidden, "read-only": http.StatusForbidden, "read-write": http.StatusOK} {
		if status, answer := b.postAs(token(role), body); status != want {
			t.Errorf("%s: %d %s", role, status, answer)
		}
	}
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, b.url+"/api/v1/pop/queue/q?batch=10", http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Authorization", token("read-write")["Authorization"])
	res, err := b.client.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = res.Body.Close() }()
	var got popped
	if err := json.NewDecoder(res.Body).Decode(&got); err != nil || len(got.Messages) != 1 || *got.Messages[0].ProducerSub != "svc" {
		t.Errorf("%+v: %v", got, err)
	}
}

func TestTransaction_SealsWhereTheQueueWantsIt(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.push("secret", "Default", "old")
	b.exec(`UPDATE queen.queues SET encryption_enabled = true`)
	const body = `{"operations":[{"type":"push","queue":"secret","payload":"top"},{"type":"push","queue":"open","payload":"plain"}],"idempotencyKey":"k"}`
	status, out, err := b.submit(body)
	if err != nil || status != http.StatusOK || out.Success || out.Reason != "encryption_unavailable" || !strings.Contains(out.Error, "QUEEN_ENCRYPTION_KEY") || *out.FailedIndex != 0 {
		t.Fatalf("%d %s: %v", status, out.raw, err)
	}
	withKey := &bundle{t: t, database: b.database, process: start(t, b.database.Config, func(s *settings) { s.Key = config.Secret(keyNow) })}
	for range 2 { // the key stands for the clear text
		if status, out, err = withKey.submit(body); err != nil || !out.Success {
			t.Fatalf("%d %s: %v", status, out.raw, err)
		}
	}
	for queueName, clear := range map[string]string{"secret": `"top"`, "open": `"plain"`} {
		path := inQueue(queueName) + "?batch=10&subscriptionMode=all&autoAck=true&consumerGroup="
		raw, opened := b.mustPop(http.StatusOK, path+"raw").data(), withKey.mustPop(http.StatusOK, path+"opened").data()
		if last := len(raw) - 1; strings.Contains(raw[last], `"encrypted"`) != (queueName == "secret") || opened[last] != clear {
			t.Errorf("%s: %s, opened %s", queueName, raw, opened)
		}
	}
}

func TestTransaction_BadBodies(t *testing.T) {
	t.Parallel()
	b := setup(t)
	for body, want := range map[string]struct {
		shape bool
		text  string
	}{
		`{"operations"`:                     {false, "bad body: "},
		`[]`:                                {false, "bad body: "},
		`{}`:                                {true, "transaction requires an operations array"},
		`{"operations":[{"type":"timer"}]}`: {true, "segments transaction supports only push and ack operations"},
		`{"operations":[{"type":"push","queue":"q","payload":1},{"type":"push","queue":"a\u0001b"}]}`: {true, "operations[1].queue"},
		`{"operations":[],"idempotencyKey":""}`:                                                       {true, "idempotencyKey"},
		`{"operations":[],"kv":[{}]}`:                                                                 {true, "kv"},
	} {
		status, out, err := b.submit(body)
		if err != nil || status != http.StatusBadRequest || out.Success || !strings.Contains(out.Error, want.text) ||
			want.shape != (out.Reason == "bad_request" && strings.HasSuffix(out.raw, `,"results":[]}`) && out.TransactionID != "") {
			t.Errorf("%s: %d %s %v", body, status, out.raw, err)
		}
	}
	if out := b.commit(nil); len(out.Results) != 0 || out.TransactionID == "" {
		t.Error(out.raw)
	}
	if rows := b.state(); rows != nil {
		t.Errorf("something was written: %s", rows)
	}
}

// Without its database nothing of a transaction is kept anywhere.
func TestTransaction_IsUnavailableWithoutTheDatabase(t *testing.T) {
	t.Parallel()
	database := pgtest.New(t)
	proxy, cfg := testkit.Between(t, database.Config)
	b := &bundle{t: t, database: database, process: start(t, cfg, func(*settings) {})}
	b.commit(nil, pushing("q", "before"))
	proxy.Close()
	for _, want := range []string{"PostgreSQL did not confirm", "the database is not available"} { // the first meets a connection that was open
		status, header, answer, err := b.do(t.Context(), http.MethodPost, "/api/v1/transaction", `{"operations":[{"type":"push","queue":"q","payload":1}]}`)
		if err != nil || status != http.StatusServiceUnavailable || header.Get("Retry-After") == "" || !strings.Contains(string(answer), want) {
			t.Errorf("%d %v %s: %v", status, header, answer, err)
		}
	}
}
