package batch

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/google/uuid"

	"queen.internal/pkg/appendlog"
	"queen.internal/pkg/queue"
	"queen.internal/pkg/segment"
)

// call is one Append under way; the test decides when and how it ends.
type call struct {
	ctx    context.Context
	groups []appendlog.Group
	answer chan []appendlog.Result
}

// succeed answers that every message was stored.
func (c *call) succeed() {
	results := make([]appendlog.Result, len(c.groups))
	for i, g := range c.groups {
		for _, m := range g.Messages {
			results[i].Outcomes = append(results[i].Outcomes, appendlog.Outcome{MessageID: m.ID})
		}
	}
	c.answer <- results
}

// fail answers err for every group.
func (c *call) fail(err error) {
	results := make([]appendlog.Result, len(c.groups))
	for i := range results {
		results[i].Err = err
	}
	c.answer <- results
}

// String is what the call appends, such as "p:a,b q:c".
func (c *call) String() string {
	var parts []string
	for _, g := range c.groups {
		var ids []string
		for _, m := range g.Messages {
			ids = append(ids, m.TransactionID)
		}
		parts = append(parts, g.Key.Partition+":"+strings.Join(ids, ","))
	}
	return strings.Join(parts, " ")
}

// gate is an Appender that stops every call until the test lets it go on.
type gate struct{ calls chan *call }

func newGate() *gate { return &gate{calls: make(chan *call, 1000)} }

func (g *gate) Append(ctx context.Context, groups []appendlog.Group) []appendlog.Result {
	c := &call{ctx: ctx, groups: groups, answer: make(chan []appendlog.Result, 1)}
	g.calls <- c
	return <-c.answer
}

// next is the call that is under way after everything came to rest, and fails the test when there is not exactly one
// that was not seen before.
func (g *gate) next(t *testing.T) *call {
	t.Helper()
	synctest.Wait()
	if n := len(g.calls); n != 1 {
		t.Fatalf("%d new flushes are under way, want 1", n)
	}
	return <-g.calls
}

func (g *gate) none(t *testing.T) {
	t.Helper()
	synctest.Wait()
	if n := len(g.calls); n != 0 {
		t.Fatalf("flush %v is under way, want none", <-g.calls)
	}
}

// harness is a running Batcher over a gate.
type harness struct {
	*Batcher
	gate *gate
	stop func() // and wait
}

func start(opts Options) *harness {
	g := newGate()
	b := New(g, opts)
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- b.Run(ctx) }()
	return &harness{b, g, func() {
		cancel()
		if err := <-ended; err != nil {
			panic(err) // Run has no error to give
		}
	}}
}

func options(committers int) Options {
	o := Defaults()
	o.Committers = committers
	o.Patience, o.RoomWait = 0, 0
	return o
}

var tenantA, tenantB = uuid.UUID{1}, uuid.UUID{2}

// group is messages of tenantA with these transaction ids.
func group(partition string, ids ...string) appendlog.Group {
	return groupOf(tenantA, partition, ids...)
}

func groupOf(tenant uuid.UUID, partition string, ids ...string) appendlog.Group {
	g := appendlog.Group{Key: appendlog.Key{Tenant: tenant, Queue: "q", Partition: partition}}
	for _, id := range ids {
		g.Messages = append(g.Messages, segment.Message{ID: queue.NewID(), TransactionID: id, Payload: []byte("1")})
	}
	return g
}

// pushed is a Push under way in its own goroutine.
type pushed struct {
	cancel context.CancelCauseFunc
	groups []appendlog.Group
	done   chan struct{}

	results []appendlog.Result
	err     error
}

// push starts a Push and returns when it waits, or has its answer.
func (h *harness) push(groups ...appendlog.Group) *pushed {
	ctx, cancel := context.WithCancelCause(context.Background())
	p := &pushed{cancel: cancel, groups: groups, done: make(chan struct{})}
	go func() {
		defer close(p.done)
		p.results, p.err = h.Push(ctx, groups)
	}()
	synctest.Wait()
	return p
}

func (p *pushed) waiting() bool {
	synctest.Wait()
	select {
	case <-p.done:
		return false
	default:
		return true
	}
}

// stored fails the test unless every message of the push was stored under its own id.
func (p *pushed) stored(t *testing.T) {
	t.Helper()
	if p.waiting() {
		t.Fatal("the push still waits")
	}
	if err := p.storedOr(nil); err != nil {
		t.Error(err)
	}
}

// storedOr is an error unless each group was stored with its own ids, or failed with allowed.
func (p *pushed) storedOr(allowed error) error {
	if p.err != nil {
		return p.err
	}
	for i, g := range p.groups {
		if err := p.results[i].Err; err != nil {
			if allowed != nil && errors.Is(err, allowed) {
				continue
			}
			return err
		}
		for j, m := range g.Messages {
			if got := p.results[i].Outcomes[j].MessageID; got != m.ID {
				return fmt.Errorf("message %d of group %d got the outcome of %s", j, i, got)
			}
		}
	}
	return nil
}

// closed is a channel that is.
var closed = func() chan struct{} { c := make(chan struct{}); close(c); return c }()

// memory is an Appender that keeps what it was given, in the order of the calls.
type memory struct {
	mu   sync.Mutex
	seen map[appendlog.Key][]string
}

func (m *memory) Append(_ context.Context, groups []appendlog.Group) []appendlog.Result {
	m.mu.Lock()
	defer m.mu.Unlock()
	results := make([]appendlog.Result, len(groups))
	for i, g := range groups {
		for _, msg := range g.Messages {
			m.seen[g.Key] = append(m.seen[g.Key], msg.TransactionID)
			results[i].Outcomes = append(results[i].Outcomes, appendlog.Outcome{MessageID: msg.ID})
		}
	}
	return results
}
