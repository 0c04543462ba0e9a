package httpapi

import (
	"errors"
	"strings"

	"queen.internal/pkg/pg"
	"queen.internal/pkg/queue"
	"queen.internal/pkg/schema"
	"queen.internal/services/ingest/internal/sealing"
)

// database is named in every answer that is its fault: "internal error" or "unavailable" alone would send people looking
// at the wrong process.
const database = "PostgreSQL"

// notReady is the answer to a wish, such as "take pushes", while the database was never reached or lacks the schema.
func notReady(wish string, reason error) error {
	return queue.Unavailable(database+" cannot "+wish+" yet: "+Reason(reason), pg.RetryAfter, reason)
}

// Reason is what anybody may read of why the database cannot be used: a driver's text names hosts and users.
func Reason(err error) string {
	var missing *schema.MissingError
	var known *queue.Error
	switch {
	case errors.As(err, &missing):
		return missing.Error()
	case errors.As(err, &known):
		return known.Message
	}
	return "it does not answer"
}

// explained is err with the database named, when it is the reason for which a wish, such as "take the push", failed.
func explained(wish string, err error) error {
	var known *queue.Error
	if !errors.As(err, &known) || strings.Contains(known.Message, database) {
		return err
	}
	switch known.Kind {
	case queue.KindUnavailable, queue.KindUnknown:
		named := *known
		named.Message = database + " did not " + wish + ": " + known.Message
		named.Err = err
		return &named
	}
	return err
}

// clientText is what a client may read of err.
func clientText(err error) string {
	var known *queue.Error
	if errors.As(err, &known) {
		return known.Message
	}
	return "internal error"
}

// worst picks the error that answers for all: one that a retry of the whole request may heal, before one that it will
// not, so that no client gives up on messages that are merely late.
func worst(errs []error) error {
	for _, kind := range []queue.Kind{queue.KindUnknown, queue.KindUnavailable, queue.KindOverloaded, queue.KindInternal} {
		for _, err := range errs {
			if queue.KindOf(err) == kind {
				return err
			}
		}
	}
	for _, err := range errs {
		if errors.Is(err, sealing.ErrNoKey) {
			return err
		}
	}
	return errs[0]
}
