package model_test

import (
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/jackc/pgx/v5/pgxpool"
	"pgregory.net/rapid"

	"queen.internal/compose/local"
	"queen.internal/pkg/client"
	"queen.internal/test/internal/cell"
)

// stand is what all histories of a test share.
type stand struct {
	cell            *cell.Cell
	db              *pgxpool.Pool
	ingest, deliver []*client.Client
	edge            string

	mu   sync.Mutex
	seen map[string]int
}

// count notes that something came about, so that one sees what the histories were made of.
func (s *stand) count(what string, n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.seen[what] += n
}

// told is what came about.
func (s *stand) told() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return strings.TrimPrefix(fmt.Sprint(s.seen), "map")
}

func newStand(t *testing.T, shape cell.Shape) *stand {
	t.Helper()
	c := world.Shared(t, shape.Name, local.Options{Ingest: 2, Deliver: 2, Env: shape.Env})
	db, err := pgxpool.New(context.WithoutCancel(t.Context()), c.Stack.DSN())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(db.Close)
	at := func(addresses []string) (clients []*client.Client) {
		for _, address := range append([]string{c.Edge}, addresses...) {
			cl, err := client.New(client.Options{URL: address, Attempts: 1})
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(cl.Close)
			clients = append(clients, cl)
		}
		return clients
	}
	return &stand{cell: c, db: db, ingest: at(c.Ingest), deliver: at(c.Deliver), edge: c.Edge, seen: make(map[string]int)}
}

// runs numbers histories, so that none meets the queues of another, not even of the one it was shrunk from.
var (
	runs   atomic.Int64
	prefix = fmt.Sprintf("m%x", rand.Uint32())
)

// history is one run of the model beside the cell.
type history struct {
	*rapid.T
	*stand
	names
	namespace string
	queues    []*queue // that exist
	leases    []*lease
	spans     []span // delivered under leases, the newest last
	pushed    int
	keyed     int // transactions with a key
	story     []string
}

// Logf tells a step. Fatalf ends the history and tells all of it: what rapid prints beside it is how it was drawn.
func (h *history) Logf(format string, args ...any) {
	h.story = append(h.story, fmt.Sprintf(format, args...))
}

// Fatalf ends the history with what differs.
func (h *history) Fatalf(format string, args ...any) {
	h.T.Fatalf("%s\nafter\n  %s", fmt.Sprintf(format, args...), strings.Join(h.story, "\n  "))
}

// span is what a pop delivered of one partition.
type span struct {
	group       string
	lease       *lease
	partition   *partition
	first, last int
}

// names is what the histories of one kind choose from. What stands more often is chosen more often.
type names struct{ queueNames, groupNames, partitionNames []string }

var (
	// few has histories go deep, many has them go wide.
	few  = names{[]string{"a"}, []string{"g"}, []string{"p0", "p0", "p1"}}
	many = names{[]string{"a", "a", "a", "b"}, []string{"g", "g", "g", "late", queueMode}, []string{"p0", "p0", "p1", "p2"}}

	keys = []string{"a", "b", "c", "d", "e", "f", "h", "i"}
)

func (s *stand) begin(t *rapid.T, from names) *history {
	return &history{T: t, stand: s, names: from, namespace: fmt.Sprintf("%s-%d", prefix, runs.Add(1))}
}

func (h *history) pick(label string, from ...string) string {
	return rapid.SampledFrom(from).Draw(h.T, label)
}

func (h *history) number(label string, low, high int) int {
	return rapid.IntRange(low, high).Draw(h.T, label)
}

// oneIn is true once in n times, and never in the simplest history.
func (h *history) oneIn(n int, label string) bool { return h.number(label, 0, n-1) == n-1 && n > 1 }

func (h *history) pusher() *client.Client { return h.ingest[h.number("ingest", 0, len(h.ingest)-1)] }

func (h *history) reader() *client.Client { return h.deliver[h.number("deliver", 0, len(h.deliver)-1)] }

// queueName is the full name of the queue that a history calls a or b.
func (h *history) queueName(short string) string { return h.namespace + "." + short }

func short(queueName string) string { return queueName[strings.LastIndexByte(queueName, '.')+1:] }

// queue is the queue of that full name, nil when there is none.
func (h *history) queue(name string) *queue {
	for _, q := range h.queues {
		if q.name == name {
			return q
		}
	}
	return nil
}

// provide is the queue of that name, made with the options of one that nobody configured.
func (h *history) provide(name string) *queue {
	q := h.queue(name)
	if q == nil {
		q = newQueue(name)
		h.queues = append(h.queues, q)
	}
	return q
}

// call sends a request to the edge and returns status and body.
func (h *history) call(method, path, body string) (int, string) {
	return h.callAt(h.edge, method, path, body)
}

func (h *history) callAt(address, method, path, body string) (int, string) {
	req, err := http.NewRequestWithContext(context.Background(), method, address+path, strings.NewReader(body))
	if err != nil {
		h.Fatal(err)
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		h.Fatal(err)
	}
	answer, err := io.ReadAll(resp.Body)
	if closed := resp.Body.Close(); err != nil || closed != nil {
		h.Fatal(err, closed)
	}
	return resp.StatusCode, string(answer)
}

func named(l *lease) string {
	if l == nil {
		return "no lease"
	}
	return fmt.Sprint("lease ", l.number)
}
