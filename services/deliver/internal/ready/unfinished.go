package ready

import (
	"errors"
	"time"

	"queen.internal/pkg/queue"
)

// unfinishedError is a search whose time was over before it had found anything or come to its end. What it has walked stays
// walked: the next search goes on from there.
type unfinishedError struct{ err error }

func (e *unfinishedError) Error() string { return "search for work: " + e.err.Error() }

// Unwrap gives it its kind, and what the client may read.
func (e *unfinishedError) Unwrap() error {
	return queue.Unavailable("the partitions of the queue are still being searched for work", time.Second, e.err)
}

// Unfinished says that a search has found nothing so far, and goes on with the next one.
func Unfinished(err error) bool { return errors.As(err, new(*unfinishedError)) }
