package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"queen.internal/pkg/appendlog"
	"queen.internal/pkg/config"
	"queen.internal/pkg/daemon"
	"queen.internal/pkg/logging"
	"queen.internal/pkg/pg"
	"queen.internal/pkg/pgtest"
	"queen.internal/pkg/queue"
	"queen.internal/pkg/segment"
	"queen.internal/pkg/store/log"
	"queen.internal/pkg/testkit"
)

func TestMain(m *testing.M) { pgtest.Main(m, pgtest.CheckLeaks) }

// patience is a safety net, not a measure: nothing here is expected to take long.
const patience = time.Minute

// bundle is a database with a running deliver on it.
type bundle struct {
	t        *testing.T
	database pgtest.Database
	appender *appendlog.Log
	*process
}

// process is one running deliver.
type process struct {
	url    string
	client *http.Client
	stop   func() error // ends it and returns what deliver returned; may be called again
}

func setup(t *testing.T) *bundle {
	t.Helper()
	return setupWith(t, func(*settings) {})
}

// setupWith is setup with settings of its own.
func setupWith(t *testing.T, adjust func(*settings)) *bundle {
	t.Helper()
	database := pgtest.New(t)
	return &bundle{
		t: t, database: database,
		appender: appendlog.New(log.New(database.Pool), nil),
		process:  start(t, database.Config, adjust),
	}
}

// start runs a deliver on port 0 until the test ends.
func start(t testing.TB, database pg.Config, adjust func(*settings)) *process {
	t.Helper()
	s := defaults()
	s.HTTP.Port, s.BindAddr, s.DrainDelay, s.SyncEnabled = 0, "127.0.0.1", 0, false
	s.Host, s.Postgres.Port, s.User = database.Host, config.Int(database.Port), database.User
	s.Password, s.Database = config.Secret(database.Password), database.Database
	s.PoolSize = 6 // many tests share one server
	adjust(&s)

	var lines syncBuffer
	env := daemon.Env{Service: "deliver", Version: "test", Logger: logging.New(&lines, logging.Settings{Filter: "info"}), Stdout: io.Discard}
	ctx, cancel := context.WithCancel(context.Background())
	listening, ended := make(chan string, 1), make(chan error, 1)
	go func() { ended <- deliver(ctx, env, &s, func(url string) { listening <- url }) }()

	transport := &http.Transport{MaxIdleConnsPerHost: 100}
	p := &process{client: &http.Client{Transport: transport, Timeout: patience}}
	p.stop = sync.OnceValue(func() error {
		cancel()
		transport.CloseIdleConnections()
		select {
		case err := <-ended:
			return err
		case <-time.After(patience):
			return errors.New("deliver does not end")
		}
	})
	t.Cleanup(func() {
		if err := p.stop(); err != nil {
			t.Errorf("deliver: %v", err)
		}
		if t.Failed() {
			t.Logf("log of deliver:\n%s", lines.String())
		}
	})
	select {
	case p.url = <-listening:
	case err := <-ended:
		t.Fatalf("deliver ended: %v", err)
	case <-time.After(patience):
		t.Fatal("deliver does not listen")
	}
	return p
}

type syncBuffer struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (b *syncBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.Write(p)
}

func (b *syncBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.String()
}

// push appends messages whose transaction ids are the given ones and whose payloads are these ids as JSON.
func (b *bundle) push(queueName, partition string, ids ...string) {
	b.t.Helper()
	payloads := make([][]byte, len(ids))
	for i, id := range ids {
		payloads[i] = fmt.Appendf(nil, "%q", id)
	}
	b.pushPayloads(queueName, partition, ids, payloads)
}

func (b *bundle) pushPayloads(queueName, partition string, ids []string, payloads [][]byte) {
	b.t.Helper()
	g := appendlog.Group{Key: appendlog.Key{Tenant: queue.DefaultTenant, Queue: queueName, Partition: partition}}
	for i, id := range ids {
		g.Messages = append(g.Messages, segment.Message{ID: queue.NewID(), TransactionID: id, Payload: payloads[i]})
	}
	if err := b.appender.Append(context.Background(), []appendlog.Group{g})[0].Err; err != nil {
		b.t.Fatalf("append to %s/%s: %v", queueName, partition, err)
	}
}

// popped is a pop's answer.
type popped struct {
	Status            int
	Header            http.Header
	Raw               string
	Success           bool
	Queue             string
	Partition         string
	PartitionID       string
	LeaseID           string
	ConsumerGroup     string
	Messages          []message
	PartitionsClaimed int
}

type message struct {
	ID, TransactionID  string
	TraceID            *string
	Data               json.RawMessage
	ProducerSub        *string
	CreatedAt          string
	PartitionID        string
	Partition, LeaseID string
	ConsumerGroup      string
	DeliveryAttempt    int
}

func (p popped) ids() string {
	ids := make([]string, len(p.Messages))
	for i, m := range p.Messages {
		ids[i] = m.TransactionID
	}
	return strings.Join(ids, " ")
}

// pop asks for a path below /api/v1/pop. It may run on any goroutine.
func (p *process) pop(path string) (popped, error) {
	return p.popContext(context.Background(), path)
}

func (p *process) popContext(ctx context.Context, path string) (popped, error) {
	var out popped
	status, header, body, err := p.do(ctx, http.MethodGet, "/api/v1/pop"+path, "")
	if err != nil {
		return out, err
	}
	if status == http.StatusOK {
		if err := json.Unmarshal(body, &out); err != nil {
			return out, fmt.Errorf("%w in %s", err, body)
		}
	}
	out.Status, out.Header, out.Raw = status, header, string(body)
	return out, nil
}

func (p *process) do(ctx context.Context, method, path, body string) (int, http.Header, []byte, error) {
	req, err := http.NewRequestWithContext(ctx, method, p.url+path, strings.NewReader(body))
	if err != nil {
		return 0, nil, nil, err
	}
	res, err := p.client.Do(req)
	if err != nil {
		return 0, nil, nil, err
	}
	defer func() { _ = res.Body.Close() }()
	answer, err := io.ReadAll(res.Body)
	return res.StatusCode, res.Header, answer, err
}

// mustPop is pop on the test's goroutine, with the status checked.
func (b *bundle) mustPop(status int, path string) popped {
	b.t.Helper()
	got, err := b.pop(path)
	if err != nil {
		b.t.Fatal(err)
	}
	if got.Status != status {
		b.t.Fatalf("GET %s answers %d, want %d: %s", path, got.Status, status, got.Raw)
	}
	return got
}

// later starts a pop and returns a function that waits for its answer.
func (b *bundle) later(path string) func() popped {
	answers := make(chan popped, 1)
	failed := make(chan error, 1)
	go func() {
		got, err := b.pop(path)
		if err != nil {
			failed <- err
			return
		}
		answers <- got
	}()
	return func() popped {
		b.t.Helper()
		select {
		case got := <-answers:
			return got
		case err := <-failed:
			b.t.Fatal(err)
		case <-time.After(patience):
			b.t.Fatalf("GET %s is not answered", path)
		}
		return popped{}
	}
}

type ackResult struct {
	Index                             int
	TransactionID                     string
	Success                           bool
	Error                             *string
	LeaseReleased, DeadLettered, Noop bool
}

type ackItem struct {
	TransactionID string  `json:"transactionId"`
	PartitionID   string  `json:"partitionId"`
	LeaseID       string  `json:"leaseId,omitempty"`
	Status        string  `json:"status,omitempty"`
	Error         *string `json:"error"`
}

// item is the ack of one message.
func (m message) item(status string) ackItem {
	return ackItem{TransactionID: m.TransactionID, PartitionID: m.PartitionID, LeaseID: m.LeaseID, Status: status}
}

// items acks all messages alike.
func (p popped) items(status string) []ackItem {
	items := make([]ackItem, len(p.Messages))
	for i, m := range p.Messages {
		items[i] = m.item(status)
	}
	return items
}

func (p *process) ack(group string, items ...ackItem) ([]ackResult, error) {
	body, err := json.Marshal(map[string]any{"consumerGroup": group, "acknowledgments": items})
	if err != nil {
		return nil, err
	}
	status, _, answer, err := p.do(context.Background(), http.MethodPost, "/api/v1/ack/batch", string(body))
	if err != nil {
		return nil, err
	}
	var results []ackResult
	if status != http.StatusOK {
		return nil, fmt.Errorf("ack answers %d: %s", status, answer)
	}
	return results, json.Unmarshal(answer, &results)
}

// mustAck acks and expects that every instruction is carried out.
func (b *bundle) mustAck(group string, items ...ackItem) []ackResult {
	b.t.Helper()
	results, err := b.ack(group, items...)
	if err != nil {
		b.t.Fatal(err)
	}
	for i, r := range results {
		if !r.Success {
			b.t.Fatalf("ack of %s: %s", items[i].TransactionID, *r.Error)
		}
	}
	return results
}

// metric is the value of one line of a scrape.
func (b *bundle) metric(name string) float64 {
	b.t.Helper()
	_, _, body, err := b.do(context.Background(), http.MethodGet, "/metrics/prometheus", "")
	if err != nil {
		b.t.Fatal(err)
	}
	for line := range strings.Lines(string(body)) {
		if text, ok := strings.CutPrefix(line, name+" "); ok {
			value, err := strconv.ParseFloat(strings.TrimSpace(text), 64)
			if err != nil {
				b.t.Fatal(err)
			}
			return value
		}
	}
	b.t.Fatalf("no line has %s", name)
	return 0
}

// parked waits until n polls are parked.
func (b *bundle) parked(n int) {
	b.t.Helper()
	testkit.Eventually(b.t, fmt.Sprint(n, " polls are parked"), func() bool { return b.metric("queen_parked_long_polls") == float64(n) })
}

func (b *bundle) exec(sql string, args ...any) {
	b.t.Helper()
	if _, err := b.database.Pool.Exec(context.Background(), sql, args...); err != nil {
		b.t.Fatal(err)
	}
}

func inQueue(name string) string { return "/queue/" + url.PathEscape(name) }
