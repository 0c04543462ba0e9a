package main

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"queen.internal/pkg/pgtest"
)

// configured is the answer of a configure as a client reads it.
type configured struct {
	Configured  bool           `json:"configured"`
	QueueID     string         `json:"queueId"`
	PartitionID *string        `json:"partitionId"`
	Queue       string         `json:"queue"`
	Namespace   string         `json:"namespace"`
	Task        string         `json:"task"`
	Storage     string         `json:"storage"`
	Options     map[string]any `json:"options"`
}

func (s *service) configure(t *testing.T, body string) configured {
	t.Helper()
	status, header, answer, err := do(http.MethodPost, s.url+"/api/v1/configure", body)
	if err != nil || status != http.StatusOK || header.Get("Content-Type") != "application/json" {
		t.Fatalf("%d %v %s (%v)", status, header, answer, err)
	}
	var c configured
	if err := json.Unmarshal([]byte(answer), &c); err != nil {
		t.Fatalf("%v in %s", err, answer)
	}
	if !c.Configured || c.PartitionID != nil || c.Storage != "segments" || len(c.QueueID) != 36 || len(c.Options) != 22 {
		t.Errorf("got %s", answer)
	}
	return c
}

func TestConfigure_TellsWhatIsInForceToTheByte(t *testing.T) {
	t.Parallel()
	s := ready(t, pgtest.New(t).Config, nil)
	_, _, answer, err := do(http.MethodPost, s.url+"/api/v1/configure", `{"queue":"a.b/ü","task":"t","options":{"leaseTime":"120"}}`)
	if err != nil {
		t.Fatal(err)
	}
	beginning, rest, found := strings.Cut(answer, `","partitionId"`)
	const want = `:null,"queue":"a.b/ü","namespace":"","task":"t","storage":"segments","options":{"priority":0,"leaseTime":120,"retryLimit":3,` +
		`"retryDelay":1000,"maxSize":0,"ttl":3600,"deadLetterQueue":true,"dlqAfterMaxRetries":true,"delayedProcessing":0,"windowBuffer":0,` +
		`"retentionSeconds":0,"completedRetentionSeconds":0,"retentionEnabled":false,"encryptionEnabled":false,"maxWaitTimeSeconds":0,` +
		`"minPopWaitTime":0,"dedupWindowSeconds":3600,"retentionSinkHold":"","retentionSinkHoldMaxSeconds":604800,"deliveryLimit":0,"redeliveryDelaySeconds":0,"spool":true}}`
	if !found || !strings.HasPrefix(beginning, `{"configured":true,"queueId":"`) || rest != want {
		t.Errorf("got %s", answer)
	}
}

func TestConfigure_MergesRestoresAndReplaces(t *testing.T) {
	t.Parallel()
	s := ready(t, pgtest.New(t).Config, nil)
	s.mustPush(t, `{"items":[{"queue":"a.b","payload":1}]}`)
	made := s.configure(t, `{"queue":"a.b","namespace":null,"task":null}`)
	if made.Namespace != "a" || made.Task != "b" || made.Options["leaseTime"] != 60.0 {
		t.Errorf("what the push made: %+v", made)
	}
	s.configure(t, `{"queue":"a.b","options":{"retryLimit":9,"ttl":8,"deadLetterQueue":false}}`)
	merged := s.configure(t, `{"queue":"a.b","mode":"merge","options":{"leaseTime":null,"ttl":null}}`)
	if merged.QueueID != made.QueueID || merged.Namespace != "a" || merged.Task != "b" || merged.Options["leaseTime"] != 300.0 ||
		merged.Options["ttl"] != 3600.0 || merged.Options["retryLimit"] != 9.0 || merged.Options["deadLetterQueue"] != false {
		t.Errorf("merged: %+v", merged)
	}
	replaced := s.configure(t, `{"queue":"a.b","mode":"replace","options":{"task":"c","retryDelay":5}}`)
	want := s.configure(t, `{"queue":"fresh","task":"c","options":{"retryDelay":5}}`)
	want.Queue, want.QueueID = "a.b", made.QueueID
	if diff := cmp.Diff(want, replaced); diff != "" {
		t.Errorf("replaced differs from created (-created +replaced):\n%s", diff)
	}
}

func TestConfigure_ARefusedRequestCreatesNothing(t *testing.T) {
	t.Parallel()
	db := pgtest.New(t)
	s := ready(t, db.Config, nil)
	for _, body := range []string{
		`{"queue":"q","options":{"leaseTime":5,"maxSize":"many"}}`,
		`{"queue":"q","mode":"other"}`,
		`{"queue":"q","options":{"encryptionEnabled":true}}`,
	} {
		if status, _, answer, err := do(http.MethodPost, s.url+"/api/v1/configure", body); err != nil || status != http.StatusBadRequest {
			t.Errorf("%s is answered %d %s (%v)", body, status, answer, err)
		}
	}
	var queues int
	if err := db.Pool.QueryRow(t.Context(), `SELECT count(*) FROM queen.queues`).Scan(&queues); err != nil || queues != 0 {
		t.Errorf("%d queues (%v)", queues, err)
	}
}

func TestConfigure_BelongsToItsTenant(t *testing.T) {
	t.Parallel()
	s := ready(t, pgtest.New(t).Config, func(s *settings) { s.Tenancy.Header, s.Tenancy.TrustedProxy = true, true })
	own := s.configure(t, `{"queue":"q","options":{"ttl":5}}`)
	r, err := http.NewRequest(http.MethodPost, s.url+"/api/v1/configure", strings.NewReader(`{"queue":"q"}`))
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("x-queen-tenant", "11111111-2222-3333-4444-555555555555")
	response, err := client.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = response.Body.Close() }()
	var foreign configured
	if err := json.NewDecoder(response.Body).Decode(&foreign); err != nil {
		t.Fatal(err)
	}
	if foreign.QueueID == own.QueueID || foreign.Options["ttl"] != 3600.0 {
		t.Errorf("%+v, of the other tenant %+v", own, foreign)
	}
}

func TestConfigure_WithoutADatabaseIsA503ThatNamesIt(t *testing.T) {
	t.Parallel()
	db := pgtest.New(t)
	link := newLink(t, db.Config)
	s := ready(t, link.config(), nil)
	s.configure(t, `{"queue":"q","options":{"ttl":5}}`)
	link.set(down)
	status, header, answer, err := do(http.MethodPost, s.url+"/api/v1/configure", `{"queue":"q","options":{"ttl":6}}`)
	if err != nil || status != http.StatusServiceUnavailable || header.Get("Retry-After") == "" || !strings.Contains(answer, "PostgreSQL did not configure the queue") {
		t.Errorf("%d %v %s (%v)", status, header, answer, err)
	}
	link.set(up)
	// Each connection that was cut while it was idle may cost one answer.
	for range defaults().PoolSize {
		if status, _, _, err = do(http.MethodPost, s.url+"/api/v1/configure", `{"queue":"q"}`); err != nil || status == http.StatusOK {
			break
		}
	}
	if again := s.configure(t, `{"queue":"q","options":{"retryLimit":1}}`); again.Options["ttl"] != 5.0 {
		t.Errorf("the refused change was made: %+v", again)
	}
}
