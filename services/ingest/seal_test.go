package main

import (
	"bytes"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/google/go-cmp/cmp"

	"queen.internal/pkg/config"
	"queen.internal/pkg/pgtest"
	"queen.internal/pkg/seal"
	"queen.internal/pkg/testkit"
)

// encryptionKey is what the services of these tests seal with.
var encryptionKey = strings.Repeat("5a", 32)

func withKey(s *settings) { s.Key = config.Secret(encryptionKey) }

// opened is what a reader with the key has of payloads, and whether each was sealed.
func opened(t *testing.T, payloads [][]byte) (texts []string, sealed []bool) {
	t.Helper()
	keys, err := seal.NewKeys(encryptionKey)
	if err != nil {
		t.Fatal(err)
	}
	for _, payload := range payloads {
		text, outcome := keys.Open(payload)
		texts, sealed = append(texts, string(text)), append(sealed, outcome == seal.Opened)
	}
	return texts, sealed
}

func payloads(t *testing.T, db pgtest.Database, name, partition string) [][]byte {
	t.Helper()
	var all [][]byte
	for _, m := range stored(t, db, name, partition) {
		all = append(all, m.Payload)
	}
	return all
}

// switchEncryption sets the flag behind the services' backs and returns the database's time after that.
func switchEncryption(t *testing.T, db pgtest.Database, name string, on bool) (after string) {
	t.Helper()
	if _, err := db.Pool.Exec(t.Context(), `UPDATE queen.queues SET encryption_enabled = $1 WHERE name = $2`, on, name); err != nil {
		t.Fatal(err)
	}
	if err := db.Pool.QueryRow(t.Context(), `SELECT clock_timestamp()::text`).Scan(&after); err != nil {
		t.Fatal(err)
	}
	return after
}

func TestEncryption_NoPlaintextReachesTheTables(t *testing.T) {
	t.Parallel()
	db := pgtest.New(t)
	s := ready(t, db.Config, withKey)
	s.configure(t, `{"queue":"vault","options":{"encryptionEnabled":true}}`)
	// One that compresses and one that is too short to be compressed, in a segment each.
	secrets := []string{`{"card":"SECRET-4000","pad":"` + strings.Repeat("SECRET", 500) + `"}`, `"SECRET"`}
	for i, secret := range secrets {
		body := fmt.Sprintf(`{"items":[{"queue":"vault","transactionId":"t%d","payload":%s}]}`, i, secret)
		if r := s.mustPush(t, body); r[0].Status != "queued" {
			t.Errorf("%+v", r)
		}
		if r := s.mustPush(t, body); r[0].Status != "duplicate" {
			t.Errorf("the same key again: %+v", r)
		}
	}
	texts, sealed := opened(t, payloads(t, db, "vault", "Default"))
	if diff := cmp.Diff(secrets, texts); diff != "" || !sealed[0] || !sealed[1] {
		t.Errorf("sealed %v: %s", sealed, diff)
	}
	for _, m := range stored(t, db, "vault", "Default") {
		if bytes.Contains(m.Payload, []byte("SECRET")) {
			t.Errorf("stored %s", m.Payload)
		}
	}
	// The queue beside it is as it was.
	s.mustPush(t, `{"items":[{"queue":"open","payload":{"a":1}},{"queue":"vault","payload":2}]}`)
	if got := stored(t, db, "open", "Default"); string(got[0].Payload) != `{"a":1}` {
		t.Errorf("stored %s", got[0].Payload)
	}
}

func TestEncryption_WithoutTheKeyItemsFailAndNothingIsStored(t *testing.T) {
	t.Parallel()
	db := pgtest.New(t)
	s := ready(t, db.Config, nil)
	s.mustPush(t, `{"items":[{"queue":"vault","payload":1}]}`)
	switchEncryption(t, db, "vault", true)
	for range 2 {
		r := s.mustPush(t, `{"items":[{"queue":"vault","payload":2},{"queue":"open","payload":3},{"queue":"vault","partition":"new","payload":4}]}`)
		for i, want := range []string{"failed", "queued", "failed"} {
			if r[i].Status != want || (want == "failed") != strings.Contains(r[i].Error, "QUEEN_ENCRYPTION_KEY") {
				t.Errorf("item %d: %+v", i, r[i])
			}
		}
	}
	if r := s.mustPush(t, `{"items":[{"queue":"vault","payload":5}]}`); r[0].Status != "failed" {
		t.Errorf("%+v", r)
	}
	if got := len(stored(t, db, "vault", "Default")) + len(stored(t, db, "vault", "new")); got != 1 {
		t.Errorf("%d messages are stored, want the one of before", got)
	}
	// configure says it before it comes to that.
	status, _, answer, err := do(http.MethodPost, s.url+"/api/v1/configure", `{"queue":"other","options":{"encryptionEnabled":true}}`)
	if err != nil || status != http.StatusBadRequest {
		t.Errorf("%d %s (%v)", status, answer, err)
	}
}

// producer pushes numbers one after the other until it has pushed some after the switch.
type producer struct {
	service *service
	name    string
	sealed  []int // numbers whose push began after the switch was known
	pushed  int
}

func (p *producer) work(switched *atomic.Bool, begun func()) error {
	for after := 0; after < 25; p.pushed++ {
		if switched.Load() {
			p.sealed = append(p.sealed, p.pushed)
			after++
		}
		r, err := p.service.push(fmt.Sprintf(`{"items":[{"queue":"q","payload":"%s %d"}]}`, p.name, p.pushed))
		if err != nil {
			return err
		}
		if r[0].Status != "queued" {
			return fmt.Errorf("%+v", r)
		}
		if p.pushed == 10 {
			begun()
		}
	}
	return nil
}

func TestEncryption_NothingPlainIsStoredAfterTheSwitch(t *testing.T) {
	t.Parallel()
	db := pgtest.New(t)
	services := []*service{ready(t, db.Config, withKey), ready(t, db.Config, withKey)}
	var (
		switched   atomic.Bool
		warm, work sync.WaitGroup
		producers  []*producer
	)
	failures := make(chan error, 8)
	for i := range cap(failures) {
		p := &producer{service: services[i%2], name: fmt.Sprint("producer", i)}
		producers = append(producers, p)
		warm.Add(1)
		work.Go(func() {
			begun := sync.OnceFunc(warm.Done)
			defer begun()
			failures <- p.work(&switched, begun)
		})
	}
	warm.Wait()
	after := switchEncryption(t, db, "q", true)
	switched.Store(true)
	work.Wait()
	for range cap(failures) {
		if err := <-failures; err != nil {
			t.Fatal(err)
		}
	}

	texts, sealed := opened(t, payloads(t, db, "q", "Default"))
	isSealed, next := map[string]bool{}, map[string]int{}
	for i, text := range texts {
		isSealed[strings.Trim(text, `"`)] = sealed[i]
		var name string
		var number int
		if _, err := fmt.Sscanf(strings.Trim(text, `"`), "%s %d", &name, &number); err != nil {
			t.Fatalf("%s: %v", text, err)
		}
		if next[name] != number {
			t.Errorf("%s stored %d where %d should be", name, number, next[name])
		}
		next[name]++
	}
	for _, p := range producers {
		if next[p.name] != p.pushed {
			t.Errorf("%s: %d messages are stored of %d", p.name, next[p.name], p.pushed)
		}
		for _, number := range p.sealed {
			if !isSealed[fmt.Sprintf("%s %d", p.name, number)] {
				t.Errorf("%s %d began after the switch and is stored plain", p.name, number)
			}
		}
	}
	// By the database's own clock as well: no segment from after the switch holds anything plain.
	var before int
	if err := db.Pool.QueryRow(t.Context(), `SELECT coalesce(max(end_offset) + 1, 0) FROM queen.segments WHERE created_at <= $1::text::timestamptz`, after).Scan(&before); err != nil {
		t.Fatal(err)
	}
	for i := before; i < len(sealed); i++ {
		if !sealed[i] {
			t.Errorf("offset %d, written after the switch, is plain", i)
		}
	}
	if sealed[0] || before == 0 || before == len(sealed) {
		t.Errorf("%d of %d messages are from before the switch, the first is sealed: %v", before, len(sealed), sealed[0])
	}
}

func TestEncryption_SwitchedOffStoresPlainAgain(t *testing.T) {
	t.Parallel()
	db := pgtest.New(t)
	s := ready(t, db.Config, withKey)
	s.configure(t, `{"queue":"q","options":{"encryptionEnabled":true}}`)
	s.mustPush(t, `{"items":[{"queue":"q","payload":1}]}`)
	s.configure(t, `{"queue":"q","options":{"encryptionEnabled":false}}`)
	// Another ingest knows nothing of the time before.
	ready(t, db.Config, withKey).mustPush(t, `{"items":[{"queue":"q","payload":2}]}`)
	texts, sealed := opened(t, payloads(t, db, "q", "Default"))
	if diff := cmp.Diff([]string{"1", "2"}, texts); diff != "" || !sealed[0] || sealed[1] {
		t.Errorf("sealed %v: %s", sealed, diff)
	}
}

func TestAuthentication_GuardsPushAndNamesTheProducer(t *testing.T) {
	t.Parallel()
	const secret = "a secret"
	db := pgtest.New(t)
	s := ready(t, db.Config, func(s *settings) { s.Enabled, s.Secret = true, secret })
	const body = `{"items":[{"queue":"q","payload":1,"producerSub":"mallory"}]}`
	for _, test := range []struct {
		token  string
		status int
		answer string
	}{
		{"", 401, `{"error":"Authentication required"}`},
		{testkit.RoleToken(t, "another secret", "admin", "svc"), 401, `{"error":"Invalid token signature"}`},
		{testkit.RoleToken(t, secret, "read-only", "svc"), 403, `{"error":"Insufficient permissions"}`},
		{testkit.RoleToken(t, secret, "write-only", "svc"), 201, `"status":"queued"`},
	} {
		r, err := http.NewRequest(http.MethodPost, s.url+"/api/v1/push", strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("Authorization", test.token)
		response, err := client.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		var answer bytes.Buffer
		_, err = answer.ReadFrom(response.Body)
		_ = response.Body.Close()
		if err != nil || response.StatusCode != test.status || !strings.Contains(answer.String(), test.answer) {
			t.Errorf("%d %s (%v), want %d %s", response.StatusCode, answer.String(), err, test.status, test.answer)
		}
	}
	got := stored(t, db, "q", "Default")
	if len(got) != 1 || got[0].ProducerSub != "svc" {
		t.Errorf("%+v", got)
	}
	for _, path := range []string{"/health", "/readyz", "/livez", "/metrics/prometheus"} {
		if status, _, answer, err := do(http.MethodGet, s.url+path, ""); err != nil || status != 200 {
			t.Errorf("%s: %d %s (%v)", path, status, answer, err)
		}
	}
}
