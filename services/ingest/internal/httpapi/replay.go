package httpapi

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"github.com/gin-gonic/gin"
	"github.com/google/uuid"

	"queen.internal/pkg/appendlog"
	"queen.internal/pkg/httpd"
	"queen.internal/pkg/mesh"
	"queen.internal/pkg/queue"
	"queen.internal/pkg/store/deadletter"
	"queen.internal/pkg/wire"
)

// lookupTimeout bounds the search for a dead letter.
const lookupTimeout = 5 * time.Second

// replayDeadLetter moves a dead letter back into a queue: where it was, or where the body says.
func (a *API) replayDeadLetter(c *gin.Context) {
	body, err := httpd.Body(c)
	if err != nil {
		httpd.Fail(c, err)
		return
	}
	target, err := wire.ScanReplayTarget(body)
	if err != nil {
		httpd.Fail(c, err)
		return
	}
	id := pathText(c, "id")
	gone := func() { _ = httpd.Raw(c, http.StatusNotFound, wire.AppendReplayGone(nil, id)) } // Raw notes the error for the log
	letterID, err := uuid.Parse(id)
	if err != nil {
		gone()
		return
	}
	letter, found, err := a.lookUp(c, func(ctx context.Context) (deadletter.Found, bool, error) {
		return a.DeadLetters.ByID(ctx, httpd.Tenant(c), letterID)
	})
	switch {
	case err != nil:
		httpd.Fail(c, err)
	case !found:
		gone()
	default:
		a.move(c, &letter, target, gone)
	}
}

// retryMessage moves the newest dead letter of a message back to where it was.
func (a *API) retryMessage(c *gin.Context) {
	partitionID, transactionID := pathText(c, "partitionId"), pathText(c, "transactionId")
	gone := func() {
		_ = httpd.Raw(c, http.StatusNotFound, wire.AppendRemoval(nil, partitionID, transactionID, false)) // as above
	}
	partition, err := uuid.Parse(partitionID)
	if err != nil || queue.CheckTransactionID("transactionId", transactionID) != nil {
		gone() // nothing can have such an address
		return
	}
	letter, found, err := a.lookUp(c, func(ctx context.Context) (deadletter.Found, bool, error) {
		return a.DeadLetters.Newest(ctx, httpd.Tenant(c), partition, transactionID)
	})
	switch {
	case err != nil:
		httpd.Fail(c, err)
	case !found:
		gone()
	default:
		a.move(c, &letter, wire.ReplayTarget{}, gone)
	}
}

// lookUp finds a dead letter. Its errors say that this was being done: nothing was moved.
func (a *API) lookUp(c *gin.Context, find func(context.Context) (deadletter.Found, bool, error)) (deadletter.Found, bool, error) {
	if err := a.Ready(); err != nil {
		return deadletter.Found{}, false, lookupFailed(notReady("replay dead letters", err))
	}
	ctx, cancel := context.WithTimeout(c.Request.Context(), lookupTimeout)
	defer cancel()
	letter, found, err := find(ctx)
	return letter, found, lookupFailed(explained("find the dead letter", err))
}

func lookupFailed(err error) error {
	var known *queue.Error
	if err == nil || !errors.As(err, &known) {
		return err
	}
	told := *known
	told.Message, told.Err = "dlq lookup failed: "+known.Message, err
	return &told
}

// move moves a dead letter and says what became of it.
func (a *API) move(c *gin.Context, letter *deadletter.Found, target wire.ReplayTarget, gone func()) {
	to := appendlog.Key{Tenant: httpd.Tenant(c), Queue: letter.Queue, Partition: letter.Partition}
	if target.Queue != "" {
		to.Queue = target.Queue
	}
	if target.Partition != "" {
		to.Partition = target.Partition
	}
	answer := wire.Replay{
		Queue: to.Queue, Partition: to.Partition, Group: letter.Group, LetterID: letter.ID, OldTransactionID: letter.TransactionID,
	}
	httpd.Note(c, slog.String("queue", to.Queue), slog.String("dead_letter", letter.ID.String()))
	if a.Modes.On(mesh.PushMaintenance) {
		answer.Result, answer.Error = wire.ReplayMaintenance, "push maintenance is on, and a move cannot be spooled"
		c.Header("Retry-After", strconv.Itoa(1))
		_ = httpd.Raw(c, http.StatusServiceUnavailable, wire.AppendReplay(nil, &answer)) // Raw notes the error for the log
		return
	}
	moved, err := a.Replays.Move(c.Request.Context(), to.Tenant, letter, to)
	if err != nil {
		a.refuse(c, &answer, explained("move the dead letter", err))
		return
	}
	answer.NewTransactionID, answer.MessageID, answer.Offset = moved.TransactionID, moved.MessageID, moved.Offset
	switch moved.Outcome {
	case appendlog.Moved:
		answer.Result = wire.ReplayMoved
	case appendlog.AlreadyInLog:
		answer.Result = wire.ReplayDuplicate
	default:
		gone()
		return
	}
	_ = httpd.Raw(c, http.StatusOK, wire.AppendReplay(nil, &answer)) // Raw notes the error for the log
}

// refuse answers a move that failed. One whose outcome is not known is not answered as a thing to repeat at once: whoever
// asks again may learn that the dead letter is gone.
func (a *API) refuse(c *gin.Context, answer *wire.Replay, err error) {
	_ = c.Error(err) // observed by the log
	answer.Result, answer.Error = wire.ReplayFailed, clientText(err)
	status := http.StatusInternalServerError
	switch queue.KindOf(err) {
	case queue.KindUnknown:
		answer.Result = wire.ReplayUnknown
	case queue.KindUnavailable, queue.KindOverloaded:
		status = http.StatusServiceUnavailable
		c.Header("Retry-After", strconv.Itoa(1))
	case queue.KindInvalid:
		status = http.StatusBadRequest
	}
	_ = httpd.Raw(c, status, wire.AppendReplay(nil, answer)) // as above
}

// pathText is a path parameter as whoever asked meant it, whatever it holds.
func pathText(c *gin.Context, name string) string {
	value, err := url.PathUnescape(c.Param(name))
	if err != nil {
		return c.Param(name)
	}
	return value
}
