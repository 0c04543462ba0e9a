package pg

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"syscall"
	"time"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/puddle/v2"

	"queen.internal/pkg/queue"
)

// RetryAfter is the hint that Wrap gives with an error of kind Unavailable: a restart of the server takes about as long.
const RetryAfter = time.Second

// Kind is the kind of err: its own when a queue.Error is in the chain, else what the SQLSTATE table or the nature of a
// connection error says. A connection that broke is Unavailable; whether a commit may have happened is another question,
// for CommitUnknown.
func Kind(err error) queue.Kind {
	var known *queue.Error
	if errors.As(err, &known) {
		return known.Kind
	}
	return classify(err).kind
}

// Wrap says what was being done when err came up, and gives it its kind. The client may read the kind's general text,
// the log reads everything. Wrap(…, nil) is nil; an error that has a kind keeps it.
func Wrap(doing string, err error) error {
	if err == nil {
		return nil
	}
	cause := fmt.Errorf("%s: %w", doing, err)
	var known *queue.Error
	if errors.As(err, &known) {
		return cause
	}
	v := classify(err)
	e := &queue.Error{Kind: v.kind, Message: clientMessage(v, err), Err: cause}
	if v.kind == queue.KindUnavailable {
		e.RetryAfter = RetryAfter
	}
	return e
}

func clientMessage(v verdict, err error) string {
	switch {
	case v.missing:
		return "the database schema is not current"
	case v.kind == queue.KindUnavailable:
		return "the database is not available"
	case v.kind == queue.KindInvalid, v.kind == queue.KindTooLarge:
		var state *pgconn.PgError
		if errors.As(err, &state) {
			return state.Message
		}
		return "the database refuses the input"
	default:
		return "internal error"
	}
}

// Transient says that the same call may succeed later without another input: the server or the way to it was the
// reason, or another session.
func Transient(err error) bool { return err != nil && classify(err).transient }

// FatalAtBoot says that waiting does not heal err, which ended a connection attempt: a refused user or password, a
// database that does not exist, a server that is too old. It is meant for a process that was never connected; later the
// same errors are transient.
func FatalAtBoot(err error) bool { return err != nil && classify(err).boot }

// SchemaMissing says that the server answered and lacks what the statement names, or the right to it. An unreachable
// server is a different error.
func SchemaMissing(err error) bool { return err != nil && classify(err).missing }

// TableMissing says that the server does not know the table, or its schema, that a statement names.
func TableMissing(err error) bool {
	var state *pgconn.PgError
	return errors.As(err, &state) && (state.Code == "42P01" || state.Code == "3F000")
}

// CommitUnknown says that err leaves it open whether a statement with implicit commit has happened: it was sent, and no
// answer of the server rules it out. Ask it of the error of a statement or batch, not of Acquire: an attempt to connect
// has committed nothing.
func CommitUnknown(err error) bool {
	if err == nil || pgconn.SafeToRetry(err) || errors.As(err, new(*pgconn.ConnectError)) {
		return false
	}
	var state *pgconn.PgError
	if errors.As(err, &state) {
		// An ERROR rolls back. A FATAL error may reach the session between its commit and its answer.
		return isFatal(state) || state.Code == "40003" || state.Code == "08007"
	}
	return broken(err)
}

// Reason is err on one line, for a log line, a readiness answer or the last line of a process. The driver lists every
// address it tried on a line of its own.
func Reason(err error) string {
	return strings.Join(strings.Fields(err.Error()), " ")
}

func classify(err error) verdict {
	var state *pgconn.PgError
	if errors.As(err, new(*ServerTooOldError)) {
		return verdict{kind: queue.KindUnavailable, boot: true}
	}
	connecting := errors.As(err, new(*pgconn.ConnectError))
	if errors.As(err, &state) {
		v := judge(state.Code)
		if connecting && !v.transient {
			return unavailable // whatever it is, no input of a caller is to blame
		}
		return v
	}
	if connecting || pgconn.SafeToRetry(err) || broken(err) {
		return unavailable
	}
	return ourFault
}

// broken says that err is about the connection or the time a call had, not about what was asked.
func broken(err error) bool {
	for _, target := range []error{
		context.DeadlineExceeded, context.Canceled, io.EOF, io.ErrUnexpectedEOF, net.ErrClosed,
		pgconn.ErrConnClosed, puddle.ErrClosedPool,
	} {
		if errors.Is(err, target) {
			return true
		}
	}
	return pgconn.Timeout(err) ||
		errors.As(err, new(net.Error)) ||
		errors.As(err, new(syscall.Errno)) ||
		errors.As(err, new(tls.RecordHeaderError)) ||
		errors.As(err, new(*tls.CertificateVerificationError)) ||
		errors.As(err, new(x509.UnknownAuthorityError))
}

func isFatal(err *pgconn.PgError) bool {
	severity := err.SeverityUnlocalized
	if severity == "" {
		severity = err.Severity
	}
	return severity == "FATAL" || severity == "PANIC"
}
