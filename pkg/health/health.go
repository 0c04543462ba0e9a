// Package health answers the probes that every service has: /health for balancers and existing clients, /livez and
// /readyz for orchestrators, /status for humans with a token. It decides nothing: the service says what it needs.
//
// The handlers may run concurrently. Whatever the number of callers, each check has at most one call in flight, and
// those who come meanwhile share its answer: a flood of probes costs the database one query at a time. Nothing runs in
// the background, so there is nothing to stop; Drain only turns the answers.
package health

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"sync/atomic"
	"time"

	"golang.org/x/sync/singleflight"
)

// Engine is what our health bodies call this implementation of the queue.
const Engine = "segments-go"

// checkTimeout bounds one check. Balancers give up after a few seconds; a database that needs longer is not there.
const checkTimeout = 2 * time.Second

// errDraining is the reason shown once the stop has begun.
var errDraining = errors.New("shutting down")

// Check is one thing a service needs to do its job.
type Check struct {
	Name string                      // as /readyz shows it: "postgresql", "schema"
	Func func(context.Context) error // nil when it is there; the error's text is the reason shown, to anybody
}

// Options describe a service to its probes.
type Options struct {
	Version string
	Ping    func(context.Context) error // the database, or what stands for it; nil: there is none, always connected
	Ready   []Check                     // what /readyz asks, in this order; add Ping yourself when it counts
}

// Checks are the probes of one service.
type Checks struct {
	o        Options
	draining atomic.Bool
	flights  singleflight.Group
}

// New is the probes of a service.
func New(o Options) *Checks { return &Checks{o: o} }

// Drain makes the service not ready from now on. It is safe to call more than once.
func (c *Checks) Drain() { c.draining.Store(true) }

// Health answers /health: 200 when the database answers, the service is ready and no stop has begun, otherwise 503. It is
// readiness, never liveness: wired to a restart it would turn an outage of the database into one of the service.
func (c *Checks) Health(w http.ResponseWriter, r *http.Request) {
	body := struct {
		Status   string `json:"status"`
		Database string `json:"database"`
		Engine   string `json:"engine"`
		Version  string `json:"version"`
	}{"healthy", "connected", Engine, c.o.Version}
	status := http.StatusOK
	if c.ask(r.Context(), Check{"ping", c.o.Ping}) != nil {
		body.Database, body.Status, status = "disconnected", "unhealthy", http.StatusServiceUnavailable
	}
	if c.draining.Load() || len(c.reasons(r.Context())) > 0 {
		body.Status, status = "unhealthy", http.StatusServiceUnavailable
	}
	answer(w, status, body)
}

// Livez answers /livez: 200 as long as the process schedules requests.
func (c *Checks) Livez(w http.ResponseWriter, _ *http.Request) {
	answer(w, http.StatusOK, struct {
		Status string `json:"status"`
	}{"ok"})
}

// reason is why a service is not ready.
type reason struct {
	Check  string `json:"check"`
	Reason string `json:"reason"`
}

// Readyz answers /readyz: 200 when every check passes, otherwise 503 with the reason of each that does not.
func (c *Checks) Readyz(w http.ResponseWriter, r *http.Request) {
	body := struct {
		Status  string   `json:"status"`
		Version string   `json:"version"`
		Reasons []reason `json:"reasons"`
	}{"ready", c.o.Version, c.reasons(r.Context())}
	status := http.StatusOK
	if c.draining.Load() {
		body.Reasons = append(body.Reasons, reason{"process", errDraining.Error()})
	}
	if len(body.Reasons) > 0 {
		body.Status, status = "not ready", http.StatusServiceUnavailable
	}
	answer(w, status, body)
}

// reasons is why the service cannot do its job; empty, not nil, when it can.
func (c *Checks) reasons(ctx context.Context) []reason {
	reasons := []reason{}
	for _, check := range c.o.Ready {
		if err := c.ask(ctx, check); err != nil {
			reasons = append(reasons, reason{check.Name, err.Error()})
		}
	}
	return reasons
}

// Status answers /status and touches nothing.
func (c *Checks) Status(w http.ResponseWriter, _ *http.Request) {
	answer(w, http.StatusOK, struct {
		Status string `json:"status"`
		Engine string `json:"engine"`
	}{"ok", Engine})
}

// ask runs a check, or joins the run of it that is under way. The run is bounded by checkTimeout and by nothing else,
// since several callers may wait for it and the first of them may leave.
func (c *Checks) ask(ctx context.Context, check Check) error {
	if check.Func == nil {
		return nil
	}
	_, err, _ := c.flights.Do(check.Name, func() (any, error) {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), checkTimeout)
		defer cancel()
		return nil, check.Func(ctx)
	})
	return err
}

// answer writes body on one line, without a trailing newline and without HTML escapes.
func answer(w http.ResponseWriter, status int, body any) {
	var buf bytes.Buffer
	encoder := json.NewEncoder(&buf)
	encoder.SetEscapeHTML(false)
	if err := encoder.Encode(body); err != nil {
		http.Error(w, "{}", http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Cache-Control", "no-store")
	w.WriteHeader(status)
	// A probe that went away before reading is nobody's concern.
	_, _ = w.Write(bytes.TrimSuffix(buf.Bytes(), []byte("\n")))
}
