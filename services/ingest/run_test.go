package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"queen.internal/pkg/config"
	"queen.internal/pkg/daemon"
	"queen.internal/pkg/pg"
	"queen.internal/pkg/pgtest"
	"queen.internal/pkg/queue"
	"queen.internal/pkg/segment"
	"queen.internal/pkg/store/log"
)

func TestMain(m *testing.M) { pgtest.Main(m, pgtest.CheckLeaks) }

// patience is a safety net for what must happen, not a measure of it.
const patience = 30 * time.Second

// service is a running ingest.
type service struct {
	url   string
	logs  *lines
	stop  func() error // and wait
	stops context.CancelFunc
	ended chan error
}

// start runs ingest on a free port; set may change its settings.
func start(t testing.TB, database pg.Config, set func(*settings)) *service {
	t.Helper()
	s := defaults()
	s.HTTP.Port, s.BindAddr, s.DrainDelay, s.SyncEnabled = 0, "127.0.0.1", 0, false
	s.Postgres.Host, s.Postgres.Port, s.Postgres.Database = database.Host, config.Int(database.Port), database.Database
	s.User, s.Password = database.User, config.Secret(database.Password)
	s.Dir, s.MinFree = t.TempDir(), 0
	if set != nil {
		set(&s)
	}
	ctx, cancel := context.WithCancel(context.Background())
	run := &service{logs: newLines(), ended: make(chan error, 1), stops: cancel}
	run.stop = sync.OnceValue(func() error { cancel(); return <-run.ended })
	listening := make(chan string, 1)
	env := daemon.Env{Service: "ingest", Version: "test", Logger: slog.New(run.logs), Stdout: io.Discard}
	go func() { run.ended <- serve(ctx, env, s, func(url string) { listening <- url }) }()
	select {
	case run.url = <-listening:
	case err := <-run.ended:
		t.Fatalf("ingest did not start: %v", err)
	}
	t.Cleanup(func() {
		if err := run.stop(); err != nil {
			t.Errorf("stop: %v", err)
		}
	})
	return run
}

// ready starts ingest on a database and waits until it can push.
func ready(t testing.TB, database pg.Config, set func(*settings)) *service {
	t.Helper()
	s := start(t, database, set)
	s.logs.await(t, "schema is current")
	return s
}

// lines is a log handler that tests wait on.
type lines struct {
	slog.Handler
	mu      sync.Mutex
	written map[string]int
	changed chan struct{} // replaced and closed at each line
}

func newLines() *lines {
	return &lines{Handler: slog.DiscardHandler, written: map[string]int{}, changed: make(chan struct{})}
}

func (l *lines) Enabled(context.Context, slog.Level) bool { return true }
func (l *lines) WithAttrs([]slog.Attr) slog.Handler       { return l }
func (l *lines) WithGroup(string) slog.Handler            { return l }

func (l *lines) Handle(_ context.Context, r slog.Record) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.written[r.Message]++
	close(l.changed)
	l.changed = make(chan struct{})
	return nil
}

func (l *lines) await(t testing.TB, message string) {
	t.Helper()
	limit := time.After(patience)
	for {
		l.mu.Lock()
		n, changed := l.written[message], l.changed
		l.mu.Unlock()
		if n > 0 {
			return
		}
		select {
		case <-changed:
		case <-limit:
			t.Fatalf("%q was never logged", message)
		}
	}
}

// client has no idle connections left after a test, so that goleak sees only real leaks.
var client = &http.Client{Transport: &http.Transport{DisableKeepAlives: true}, Timeout: patience}

func do(method, url, body string) (status int, header http.Header, answer string, err error) {
	r, err := http.NewRequest(method, url, strings.NewReader(body))
	if err != nil {
		return 0, nil, "", err
	}
	response, err := client.Do(r)
	if err != nil {
		return 0, nil, "", err
	}
	defer func() { _ = response.Body.Close() }()
	text, err := io.ReadAll(response.Body)
	return response.StatusCode, response.Header, string(text), err
}

// result is one element of a push's answer.
type result struct {
	MessageID     string `json:"message_id"`
	TransactionID string `json:"transaction_id"`
	Status        string `json:"status"`
	Error         string `json:"error"`
}

// push fails unless the answer is 201.
func (s *service) push(body string) ([]result, error) {
	status, _, answer, err := do(http.MethodPost, s.url+"/api/v1/push", body)
	if err != nil {
		return nil, err
	}
	if status != http.StatusCreated {
		return nil, fmt.Errorf("%d %s", status, answer)
	}
	var results []result
	return results, json.Unmarshal([]byte(answer), &results)
}

func (s *service) mustPush(t *testing.T, body string) []result {
	t.Helper()
	results, err := s.push(body)
	if err != nil {
		t.Fatal(err)
	}
	return results
}

// stored reads a partition back from its segments.
func stored(t *testing.T, db pgtest.Database, name, partition string) []segment.Message {
	t.Helper()
	store := log.New(db.Pool)
	key := log.Key{Tenant: queue.DefaultTenant, Queue: name, Partition: partition}
	ids, err := store.Ensure(t.Context(), []log.Key{key})
	if err != nil {
		t.Fatal(err)
	}
	found, err := store.Read(t.Context(), []log.Span{{Partition: ids[0].ID, First: 0, Last: 1 << 40}})
	if err != nil {
		t.Fatal(err)
	}
	var all []segment.Message
	for i := range found[0] {
		if found[0][i].Base != int64(len(all)) {
			t.Fatalf("segment %d begins at %d, want %d", i, found[0][i].Base, len(all))
		}
		msgs, err := found[0][i].Messages()
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, msgs...)
	}
	return all
}

func TestPush_PayloadsAreStoredToTheByte(t *testing.T) {
	t.Parallel()
	db := pgtest.New(t)
	s := ready(t, db.Config, nil)
	payloads := []string{
		`null`, `{}`, `[]`, `""`, `-0.0e+00`, `12345678901234567890.123456789012345678901234567890`,
		`{"b" : 1,	"a":[ 1 , 2 ],"b":2}`, `"\u0041\/\u0000\ud800<&>"`, "\"é😀\u2028\"", `"` + strings.Repeat("x", 1<<20) + `"`,
		"[" + strings.Repeat(`{"k":"v","n":[1,2,3]},`, 100_000) + "0]",
	}
	var items, keys []string
	for i, payload := range payloads {
		keys = append(keys, fmt.Sprintf("key-%d", i))
		items = append(items, fmt.Sprintf(`{"queue":"q/%%+ é","partition":"a b","transactionId":%q,"payload": %s }`, keys[i], payload))
	}
	results := s.mustPush(t, `{"items":[`+strings.Join(items, ",")+`]}`)
	got := stored(t, db, "q/%+ é", "a b")
	if len(got) != len(payloads) {
		t.Fatalf("%d messages are stored, want %d", len(got), len(payloads))
	}
	for i, m := range got {
		if string(m.Payload) != payloads[i] {
			t.Errorf("payload %d of %d bytes came back as %d bytes: %.100s", i, len(payloads[i]), len(m.Payload), m.Payload)
		}
		want := result{MessageID: m.ID.String(), TransactionID: keys[i], Status: "queued"}
		if diff := cmp.Diff(want, results[i]); diff != "" || m.TransactionID != keys[i] {
			t.Errorf("message %d: %s", i, diff)
		}
	}
}

func TestPush_ConcurrentRepeatsStoreOnce(t *testing.T) {
	t.Parallel()
	db := pgtest.New(t)
	one, other := ready(t, db.Config, nil), ready(t, db.Config, nil) // two processes
	const pushes = 16
	answers := make(chan result, pushes)
	for i := range pushes {
		go func() {
			s := []*service{one, other}[i%2]
			results, err := s.push(`{"items":[{"queue":"q","transactionId":"k","payload":` + strconv.Itoa(i) + `}]}`)
			if err != nil {
				results = []result{{Error: err.Error()}}
			}
			answers <- results[0]
		}()
	}
	counts, ids := map[string]int{}, map[string]bool{}
	for range pushes {
		r := <-answers
		counts[r.Status+r.Error]++
		ids[r.MessageID] = true
	}
	if diff := cmp.Diff(map[string]int{"queued": 1, "duplicate": pushes - 1}, counts); diff != "" {
		t.Error(diff)
	}
	got := stored(t, db, "q", "Default")
	if len(got) != 1 || len(ids) != 1 || !ids[got[0].ID.String()] {
		t.Errorf("%d messages are stored; ids told: %v", len(got), ids)
	}
}

func TestPush_OrderOfEachProducerHoldsAcrossProcesses(t *testing.T) {
	t.Parallel()
	db := pgtest.New(t)
	services := []*service{ready(t, db.Config, nil), ready(t, db.Config, nil)}
	const producers, pushes, batch = 6, 15, 10
	failures := make(chan error, producers)
	for producer := range producers {
		go func() {
			for n := range pushes {
				var items []string
				for i := range batch {
					for _, partition := range []string{"one", "two"} {
						items = append(items, fmt.Sprintf(`{"queue":"q","partition":%q,"payload":[%d,%d]}`, partition, producer, n*batch+i))
					}
				}
				if _, err := services[producer%2].push(`{"items":[` + strings.Join(items, ",") + `]}`); err != nil {
					failures <- err
					return
				}
			}
			failures <- nil
		}()
	}
	for range producers {
		if err := <-failures; err != nil {
			t.Fatal(err)
		}
	}
	for _, partition := range []string{"one", "two"} {
		next := map[int]int{}
		messages := stored(t, db, "q", partition)
		for _, m := range messages {
			var at [2]int
			if err := json.Unmarshal(m.Payload, &at); err != nil {
				t.Fatal(err)
			}
			if at[1] != next[at[0]] {
				t.Fatalf("partition %s: producer %d wrote %d where %d should be", partition, at[0], at[1], next[at[0]])
			}
			next[at[0]]++
		}
		if len(messages) != producers*pushes*batch {
			t.Errorf("partition %s has %d messages, want %d", partition, len(messages), producers*pushes*batch)
		}
	}
}

func TestServe_BootsWithoutDatabaseAndRecovers(t *testing.T) {
	t.Parallel()
	db := pgtest.New(t)
	link := newLink(t, db.Config)
	link.set(down)
	s := start(t, link.config(), nil)
	const body = `{"items":[{"queue":"q","transactionId":"k","payload":1}]}`
	if r := s.mustPush(t, body); r[0].Status != "buffered" {
		t.Errorf("push without a database: %+v", r)
	}
	for path, want := range map[string]int{"/health": 503, "/readyz": 200, "/livez": 200, "/status": 200} {
		if status, _, answer, err := do(http.MethodGet, s.url+path, ""); err != nil || status != want {
			t.Errorf("%s without a database: %d %s (%v)", path, status, answer, err)
		}
	}
	link.set(up)
	s.logs.await(t, "schema is current")
	s.drained(t)
	if r := s.mustPush(t, body); r[0].Status != "duplicate" {
		t.Errorf("got %+v", r)
	}
	for _, path := range []string{"/health", "/readyz"} {
		if status, _, answer, err := do(http.MethodGet, s.url+path, ""); err != nil || status != 200 {
			t.Errorf("%s with a database: %d %s (%v)", path, status, answer, err)
		}
	}
	if n := len(stored(t, db, "q", "Default")); n != 1 {
		t.Errorf("%d messages are stored, want 1", n)
	}
}

func TestServe_AStopFinishesThePushUnderWay(t *testing.T) {
	t.Parallel()
	db := pgtest.New(t)
	link := newLink(t, db.Config)
	s := ready(t, link.config(), nil)
	s.mustPush(t, `{"items":[{"queue":"q","payload":0}]}`) // connections and partition are there

	link.set(held)
	answered := make(chan error, 1)
	go func() {
		results, err := s.push(`{"items":[{"queue":"q","payload":1}]}`)
		if err == nil && results[0].Status != "queued" {
			err = fmt.Errorf("got %+v", results)
		}
		answered <- err
	}()
	<-link.asked // the flush is on its way to the server
	s.stops()
	link.set(up)
	if err := <-answered; err != nil {
		t.Errorf("the push under way: %v", err)
	}
	if err := s.stop(); err != nil {
		t.Errorf("stop: %v", err)
	}
	if n := len(stored(t, db, "q", "Default")); n != 2 {
		t.Errorf("%d messages are stored, want 2", n)
	}
	if _, _, _, err := do(http.MethodGet, s.url+"/livez", ""); err == nil {
		t.Error("it still listens after its stop")
	}
}

func TestServe_FatalMistakesEndTheBoot(t *testing.T) {
	t.Parallel()
	db := pgtest.New(t)
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = taken.Close() })
	port := taken.Addr().(*net.TCPAddr).Port
	tests := map[string]struct {
		set  func(*settings)
		want string
	}{
		"port taken":       {func(s *settings) { s.HTTP.Port = config.Int(port) }, "address is in use"},
		"missing database": {func(s *settings) { s.Database = "no_such_database" }, "no_such_database"},
		"wrong password":   {func(s *settings) { s.User, s.Password = "nobody_here", "wrong" }, "nobody_here"},
		"no folder":        {func(s *settings) { s.Dir = "/dev/null/spool" }, "FILE_BUFFER_DIR"},
		"broken roots":     {func(s *settings) { s.UseSSL, s.SSLRootCert = true, "nonsense" }, "PG_SSL_ROOT_CERT"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := defaults()
			s.HTTP.Port, s.BindAddr, s.DrainDelay = 0, "127.0.0.1", 0
			s.Postgres.Host, s.Postgres.Port, s.Database = db.Config.Host, config.Int(db.Config.Port), db.Config.Database
			s.User, s.Password = db.Config.User, config.Secret(db.Config.Password)
			s.Dir = t.TempDir()
			test.set(&s)
			ctx, cancel := context.WithTimeout(context.Background(), patience)
			defer cancel()
			err := serve(ctx, daemon.Env{Service: "ingest", Version: "test", Logger: slog.New(slog.DiscardHandler)}, s, func(string) {})
			if err == nil || ctx.Err() != nil || !strings.Contains(err.Error(), test.want) || strings.Contains(err.Error(), "\n") {
				t.Errorf("ended with %v (context: %v), want one line with %q", err, ctx.Err(), test.want)
			}
		})
	}
}

func TestServe_MeasuresItsFlushes(t *testing.T) {
	t.Parallel()
	s := ready(t, pgtest.New(t).Config, nil)
	s.mustPush(t, `{"items":[{"queue":"q","payload":1},{"queue":"q","payload":2}]}`)
	_, _, text, err := do(http.MethodGet, s.url+"/metrics/prometheus", "")
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		"queen_push_flush_messages_sum 2", "queen_push_flush_partitions_count 1", "queen_push_flush_duration_seconds_count 1",
		"queen_push_queued_bytes 0", "queen_push_waiting_groups 0", "queen_push_flush_failed_partitions_total 0",
		`queen_build_info{`,
	} {
		if !strings.Contains(text, want) {
			t.Errorf("metrics lack %q", want)
		}
	}
}

func TestSettings_CanBeReadFromAnEnvironment(t *testing.T) {
	t.Parallel()
	s := defaults()
	if err := config.Load(&s); err != nil {
		t.Fatal(err)
	}
	if s.bounds().Committers < 1 || s.bounds().QueuedBytes < 1 || len(s.blocks("test")) == 0 {
		t.Errorf("settings are %+v", s)
	}
}

func TestSettings_CommittersFitThePool(t *testing.T) {
	t.Parallel()
	s := defaults()
	if s.committers() != 4 || s.PoolSize != 6 {
		t.Errorf("by default %d committers on %d connections", s.committers(), s.PoolSize)
	}
	s.PoolSize = 3
	if got := s.bounds().Committers; got != 2 {
		t.Errorf("%d committers on 3 connections, one of which is for probes", got)
	}
}
