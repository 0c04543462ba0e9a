package pg

import (
	"errors"
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
type generation struct{ number atomic.Int64 }

func (g *generation) current() int64 { return g.number.Load() }

// advance drops every connection made until now.
func (g *generation) advance() { g.number.Add(1) }
