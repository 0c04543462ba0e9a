package model_test

import (
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"strings"
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
}

func newStand(t *testing.T) *stand {
	t.Helper()
	c := world.Shared(t, "2+2", local.Options{Ingest: 2, Deliver: 2})
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
	return &stand{cell: c, db: db, ingest: at(c.Ingest), deliver: at(c.Deliver), edge: c.Edge}
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
	namespace string
	queues    []*queue // that exist
	gone      []*partition
	leases    []*lease
	spans     []span // delivered under leases, the newest last
	pushed    int
}

// span is what a pop delivered of one partition.
type span struct {
	group       string
	lease       *lease
	partition   *partition
	first, last int
}

var (
	groupNames     = []string{"g", "g", "late", queueMode}
	partitionNames = []string{"p0", "p0", "p1"}
	keys           = []string{"a", "b", "c", "d", "e", "f", "h", "i"}
)

func (s *stand) begin(t *rapid.T) *history {
	return &history{T: t, stand: s, namespace: fmt.Sprintf("%s-%d", prefix, runs.Add(1))}
}

func (h *history) pick(label string, from ...string) string {
	return rapid.SampledFrom(from).Draw(h.T, label)
}

func (h *history) number(label string, low, high int) int {
	return rapid.IntRange(low, high).Draw(h.T, label)
}

// oneIn is true once in n times, and never in the simplest history.
func (h *history) oneIn(n int, label string) bool { return h.number(label, 0, n-1) == n-1 && n > 1 }

func (h *history) pusher() *client.Client { return rapid.SampledFrom(h.ingest).Draw(h.T, "ingest") }
func (h *history) reader() *client.Client { return rapid.SampledFrom(h.deliver).Draw(h.T, "deliver") }

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

// some is any queue that exists, or nil.
func (h *history) some() *queue {
	if len(h.queues) == 0 {
		h.Skip("no queue")
	}
	return h.queues[h.number("queue", 0, len(h.queues)-1)]
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
