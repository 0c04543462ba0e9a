package queue

import (
	"errors"
	"time"
)

// Kind is one of the closed list of reasons for which a call can end without its result.
type Kind int

// The kinds. A kind decides the HTTP status (one table, in pkg/httpd) and whether a retry can help.
const (
	KindInternal     Kind = iota // a fault of ours
	KindInvalid                  // the caller's input; the same call fails again
	KindNotFound                 // no such thing, or not of this tenant
	KindTooLarge                 // over a limit of size
	KindUnauthorized             // no usable credential
	KindForbidden                // a credential without the needed level
	KindOverloaded               // we are full; try again after RetryAfter
	KindUnavailable              // a dependency is down or slow; the message says which
	KindUnknown                  // a commit was sent and its answer lost; it may have happened
)

var kindNames = [...]string{
	"internal", "invalid", "not found", "too large", "unauthorized", "forbidden", "overloaded", "unavailable", "unknown outcome",
}

func (k Kind) String() string { return kindNames[k] }

// Error is a failure that has a kind. Message is for the client; Err, the cause, is for the log alone.
type Error struct {
	Kind       Kind
	Field      string        // the input that was wrong, when there is one
	Message    string        // what the client may read
	RetryAfter time.Duration // hint for Overloaded and Unavailable; zero means none
	Err        error
}

func (e *Error) Error() string {
	if e.Err != nil {
		return e.Message + ": " + e.Err.Error()
	}
	return e.Message
}

func (e *Error) Unwrap() error { return e.Err }

// Is makes errors.Is(err, &Error{Kind: k}) compare kinds.
func (e *Error) Is(target error) bool {
	t, ok := target.(*Error)
	return ok && t.Kind == e.Kind && t.Message == "" && t.Err == nil
}

// KindOf is the kind of the first Error in err's chain, KindInternal when there is none.
func KindOf(err error) Kind {
	var e *Error
	if errors.As(err, &e) {
		return e.Kind
	}
	return KindInternal
}

// Invalid is bad input in field; message names the remedy.
func Invalid(field, message string) error {
	return &Error{Kind: KindInvalid, Field: field, Message: message}
}

// NotFound says that what does not exist.
func NotFound(message string) error { return &Error{Kind: KindNotFound, Message: message} }

// Unavailable says that the named dependency cannot do its part now.
func Unavailable(message string, retryAfter time.Duration, cause error) error {
	return &Error{Kind: KindUnavailable, Message: message, RetryAfter: retryAfter, Err: cause}
}

// Overloaded says that a bound of ours is reached.
func Overloaded(message string, retryAfter time.Duration) error {
	return &Error{Kind: KindOverloaded, Message: message, RetryAfter: retryAfter}
}
