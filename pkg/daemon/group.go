package daemon

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"time"

	"queen.internal/pkg/logging"
)

// defaultStopTimeout covers the drain delay and the 10 s of requests in flight, and is below the 30 s after which
// orchestrators kill by default.
const defaultStopTimeout = 20 * time.Second

// abandonWait is what parts get that were not told before the time was over.
const abandonWait = time.Second

var errStopTimeout = errors.New("the time for an orderly stop is over")

// Component is one part of a service. Each field but Name may be nil.
type Component struct {
	Name  string
	Start func(ctx context.Context) error // returns when the part can be used by later ones
	Run   func(ctx context.Context) error // works until ctx ends; nil before that means that its work is done
	Stop  func(ctx context.Context) error // after Run returned: releases what Start took
}

// Group starts components in the order in which they were added and stops them in reverse. The HTTP server is added
// last, so that it is the first to stop.
type Group struct {
	Logger      *slog.Logger
	StopTimeout time.Duration // for the whole stop; 0 means 20 s
	components  []Component
}

// Add appends a component.
func (g *Group) Add(c Component) { g.components = append(g.components, c) }

// part is a component that has started.
type part struct {
	Component
	told  context.Context // ended when it is this part's turn to stop
	tell  context.CancelCauseFunc
	ended chan struct{} // closed when Run has returned, or there is none
	err   error         // of Run; read after ended
}

// Run starts the components and waits: for ctx, for the first failure of a component, or until every Run has done its
// work. Then it stops what has started. It returns the failure, nil when there was none; failures during the stop count
// when there was none before, and are logged otherwise.
func (g *Group) Run(ctx context.Context) error {
	// stopping ends with the cause of the stop: ctx's own, or the first failure.
	stopping, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	w := &work{done: make(chan struct{})}
	parts, failure := g.start(ctx, stopping, stop, w)
	if failure != nil {
		stop(failure)
	}
	if len(parts) == len(g.components) {
		w.allStarted()
	}
	select {
	case <-stopping.Done():
	case <-w.done:
	}
	if failure == nil && ctx.Err() == nil {
		failure = context.Cause(stopping) // nil when all work is done
	}
	for _, err := range g.stop(ctx, parts) {
		if failure == nil {
			failure = err
		} else if !errors.Is(failure, err) {
			logging.For(g.Logger, "daemon").Error("stop", "err", err)
		}
	}
	return failure
}

// work counts the Runs under way.
type work struct {
	mu      sync.Mutex
	running int
	any     bool          // some component has a Run; those that only hold something are held until ctx ends
	all     bool          // every component has started
	done    chan struct{} // closed when all work is done
}

func (w *work) begin() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.running++
	w.any = true
}

func (w *work) end() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.running--
	w.check()
}

func (w *work) allStarted() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.all = true
	w.check()
}

// check closes done at the one moment when the last of the conditions became true.
func (w *work) check() {
	if w.any && w.all && w.running == 0 {
		close(w.done)
	}
}

// start starts the components until one fails or stopping ends. Its error is that of the one that failed.
func (g *Group) start(ctx, stopping context.Context, stop context.CancelCauseFunc, w *work) ([]*part, error) {
	var parts []*part
	for _, c := range g.components {
		if stopping.Err() != nil {
			return parts, nil
		}
		if c.Start != nil {
			if err := c.Start(stopping); err != nil {
				if toldTo(stopping, err) {
					return parts, nil
				}
				return parts, fmt.Errorf("%s: %w", c.Name, err)
			}
		}
		p := &part{Component: c, ended: make(chan struct{})}
		p.told, p.tell = context.WithCancelCause(context.WithoutCancel(ctx))
		parts = append(parts, p)
		if p.Run == nil {
			close(p.ended)
			continue
		}
		w.begin()
		go g.run(p, stop, w)
	}
	return parts, nil
}

// run is a component's goroutine.
func (g *Group) run(p *part, stop context.CancelCauseFunc, w *work) {
	defer close(p.ended)
	defer w.end()
	defer logPanic(g.Logger)
	err := p.Run(p.told)
	if err != nil && !toldTo(p.told, err) {
		p.err = fmt.Errorf("%s: %w", p.Name, err)
		stop(p.err) // before end: a failure is not the end of the work
	}
}

// toldTo says whether err means no more than that ctx ended.
func toldTo(ctx context.Context, err error) bool {
	return ctx.Err() != nil && (errors.Is(err, context.Canceled) || errors.Is(err, context.Cause(ctx)))
}

// stop ends the parts in reverse order and returns what went wrong.
func (g *Group) stop(ctx context.Context, parts []*part) []error {
	timeout := g.StopTimeout
	if timeout == 0 {
		timeout = defaultStopTimeout
	}
	limited, cancel := context.WithTimeoutCause(context.WithoutCancel(ctx), timeout, errStopTimeout)
	defer cancel()
	var failures []error
	for i := len(parts) - 1; i >= 0; i-- {
		p := parts[i]
		p.tell(context.Canceled)
		select {
		case <-p.ended:
		case <-limited.Done():
			late := abandon(parts[:i+1])
			return append(failures, fmt.Errorf("%s: %w (%s)", strings.Join(late, ", "), errStopTimeout, timeout))
		}
		if p.err != nil {
			failures = append(failures, p.err)
		}
		if p.Stop == nil {
			continue
		}
		if err := p.Stop(limited); err != nil {
			failures = append(failures, fmt.Errorf("stop %s: %w", p.Name, err))
		}
	}
	return failures
}

// abandon tells the parts all at once, gives them abandonWait to end and names those that do not, latest first. What
// they hold stays open, since something may still use it.
func abandon(parts []*part) (late []string) {
	for _, p := range parts {
		p.tell(context.Canceled)
	}
	wait := time.NewTimer(abandonWait)
	defer wait.Stop()
	over := false
	for _, p := range slices.Backward(parts) {
		if !over {
			select {
			case <-p.ended:
			case <-wait.C:
				over = true
			}
		}
		select {
		case <-p.ended:
		default:
			late = append(late, p.Name)
		}
	}
	return late
}
