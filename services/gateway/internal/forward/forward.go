package forward

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"sync"
	"sync/atomic"

	"queen.internal/pkg/route"
)

// Target says where a request goes and how.
type Target struct {
	Role       route.Role
	Pop        bool // the answer may carry a lease that must not be lost
	Sticky     bool // stays on the address of its client connection's Pin
	Repeatable bool // may be sent again although it may have been received: changes nothing
}

// To is the target of a request for row.
func To(row route.Row, method string) Target {
	role := row.Role
	if role == route.Every {
		role = route.Deliver // what any process may answer, except the edge
	}
	return Target{
		Role:       role,
		Pop:        row.Class == route.ClassPop,
		Sticky:     row.Role == route.Ingest,
		Repeatable: row.Class == route.ClassManage && (method == http.MethodGet || method == http.MethodHead),
	}
}

// Outcome is what happened, for the log.
type Outcome struct {
	Address string // the last one tried
	Tries   int
}

// Errors that end a request before anything was answered, so that the caller answers.
var (
	// ErrClientGone: nobody waits for an answer.
	ErrClientGone = errors.New("the client went away")
	// ErrDrained: a pop ended because the gateway stops; nothing was leased for it.
	ErrDrained = errors.New("the gateway stops")
)

// ErrBroken says that a part of the answer was sent and the rest cannot be. The caller must break the client's connection, so that
// the part is not taken for the whole.
var ErrBroken = errors.New("the answer broke off")

// UnreachableError says that no process of the role took a byte of the request.
type UnreachableError struct {
	Role route.Role
	Err  error // of the last address tried; nil when there is none
}

func (e *UnreachableError) Error() string {
	if e.Err == nil {
		return fmt.Sprintf("no address of %s is known", e.Role)
	}
	return fmt.Sprintf("reach %s: %v", e.Role, e.Err)
}

// Unwrap is the last address's error.
func (e *UnreachableError) Unwrap() error { return e.Err }

// LostError says that the request was sent, wholly or in part, and no answer came. The process may have done it.
type LostError struct {
	Role route.Role
	Err  error
}

func (e *LostError) Error() string { return fmt.Sprintf("answer of %s: %v", e.Role, e.Err) }

// Unwrap is the connection's error.
func (e *LostError) Unwrap() error { return e.Err }

// Forwarder sends requests to the roles of a cell.
type Forwarder struct {
	options   Options
	logger    *slog.Logger
	upstreams map[route.Role]*upstream
	returns   *returns
	draining  atomic.Bool
	counts    counts
}

// New is a forwarder to the roles that o.Bases names. Start and Run make it work.
func New(o Options) *Forwarder {
	f := &Forwarder{options: o, logger: o.Logger, upstreams: make(map[route.Role]*upstream), counts: newCounts()}
	for role := range o.Bases {
		f.upstreams[role] = newUpstream(role, o)
	}
	f.returns = newReturns(f)
	return f
}

// Start resolves every name once, so that the first request finds addresses. A name that does not resolve is tried again
// by Run.
func (f *Forwarder) Start(ctx context.Context) error {
	var lookups sync.WaitGroup
	for _, u := range f.upstreams {
		lookups.Go(func() { u.resolve(ctx) })
	}
	lookups.Wait()
	return ctx.Err()
}

// Run keeps the addresses current and gives leases back until ctx ends. It must outlive the server whose requests are
// forwarded; leases that are queued when ctx ends are still given back.
func (f *Forwarder) Run(ctx context.Context) error {
	var loops sync.WaitGroup
	for _, u := range f.upstreams {
		loops.Go(func() { u.run(ctx) })
	}
	loops.Go(func() { f.returns.run(ctx) })
	loops.Wait()
	return nil
}

// Drain ends parked pops: those whose process has not leased anything end with ErrDrained, as do all pops from now on;
// messages that are on their way still reach their clients.
func (f *Forwarder) Drain() {
	f.draining.Store(true)
	if u := f.upstreams[route.Deliver]; u != nil {
		for _, a := range u.all() {
			a.hangUpPops(f.options.HangUpGrace)
		}
	}
}

// Serve forwards r and writes the answer to w. With an error other than ErrBroken nothing was written.
func (f *Forwarder) Serve(w http.ResponseWriter, r *http.Request, t Target) (Outcome, error) {
	q, err := newRequest(r, target(r))
	if err != nil {
		if r.Context().Err() != nil {
			err = ErrClientGone
		}
		return Outcome{}, err
	}
	trip := &trip{f: f, r: r, t: t, q: q}
	err = trip.run(w)
	f.counts.ended(t.Role, trip.outcome, err)
	return trip.outcome, err
}
