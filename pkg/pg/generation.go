package pg

import (
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
)

// unusableError is a connection that was made and is not wanted. Nothing was asked of it yet.
type unusableError struct{ err error }

func (e *unusableError) Error() string { return e.err.Error() }

func (e *unusableError) Unwrap() error { return e.err }

// SafeToRetry is the driver's own mark of errors that come before the first statement.
func (e *unusableError) SafeToRetry() bool { return true }

var (
	errReadOnly    = &unusableError{errors.New("the server is read-only: a standby, or default_transaction_read_only is on")}
	errOldTimeline = &unusableError{errors.New("the server is on an older timeline than one seen before")}
)

// generation is what the connections of one pool know together. A failover raises it, and connections of an earlier
// generation are dropped when they are borrowed next: the addresses behind them may have changed roles.
type generation struct {
	number atomic.Int64

	mu       sync.Mutex
	system   int64 // identifier of the database cluster, 0 before the first
	timeline int64 // highest one seen of that cluster
}

func (g *generation) current() int64 { return g.number.Load() }

// advance drops every connection made until now.
func (g *generation) advance() { g.number.Add(1) }

// observe takes the timeline of a new connection that was made in generation born, and returns the generation it
// belongs to. A primary of an older timeline is one that did not notice a failover: it would accept writes that are
// lost when somebody repairs it. A cluster restored from a dump has another identifier and starts afresh. The
// connections of the older timeline go with the first of the newer one.
func (g *generation) observe(born, system, timeline int64) (int64, error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.system == system && timeline < g.timeline {
		return born, fmt.Errorf("%w (%d after %d)", errOldTimeline, timeline, g.timeline)
	}
	newer := g.system != 0 && (g.system != system || timeline > g.timeline)
	g.system, g.timeline = system, timeline
	if newer {
		g.advance()
		return born + 1, nil
	}
	return born, nil
}
