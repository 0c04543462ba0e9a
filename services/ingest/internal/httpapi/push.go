package httpapi

import (
	"context"
	"errors"
	"log/slog"
	"net/http"

	"github.com/gin-gonic/gin"
	"github.com/google/uuid"

	"queen.internal/pkg/appendlog"
	"queen.internal/pkg/httpd"
	"queen.internal/pkg/modes"
	"queen.internal/pkg/store/admin"
	"queen.internal/pkg/store/deadletter"
	"queen.internal/pkg/wire"
	"queen.internal/services/ingest/internal/outage"
	"queen.internal/services/ingest/internal/replay"
	"queen.internal/services/ingest/internal/room"
	"queen.internal/services/ingest/internal/sealing"
)

// API is what the handlers work with.
type API struct {
	Push   sealing.Push
	Room   *room.Room // for the bodies of pushes
	Queues *admin.Store
	// Forget drops what is remembered of a queue; see sealing.Gate.
	Forget func(tenant uuid.UUID, name string)
	// Changed is told of each queue that was configured or deleted, after the commit.
	Changed func(tenant uuid.UUID, name string, deleted bool)

	// Buffers is the state of the spool, and whether the database answers at this moment.
	Buffers func(ctx context.Context) wire.Buffers
	// Files is how many files of the spool wait to be drained, and their bytes.
	Files func() (int, int64)
	// SpoolRoom is why nothing can be spooled, as far as is known.
	SpoolRoom func() error

	Modes *modes.Keeper

	DeadLetters *deadletter.Store
	Replays     *replay.Mover
	// Ready is nil while the database has the schema this binary needs; else it is why not.
	Ready func() error
	// KeyPresent says that this server can encrypt payloads.
	KeyPresent bool
}

// Handlers are the handlers by the names of their rows in the route table.
func (a *API) Handlers() map[string]gin.HandlerFunc {
	return map[string]gin.HandlerFunc{
		"push":         a.push,
		"configure":    a.configure,
		"queue_delete": a.deleteQueue,
		"buffers":      a.buffers,

		"maintenance":     a.maintenance,
		"maintenance_set": a.setMaintenance,

		"message_retry": a.retryMessage,
		"dlq_replay":    a.replayDeadLetter,
	}
}

// resultBytes is about how long one element of the answer is.
const resultBytes = 192

// push answers 201 with a status per item once every partition's share has an outcome. When not one share was stored
// the whole request fails, so that clients retry it; when some were, the others' items are `failed` and say why. With push
// maintenance on, when the spool is all there is, one that could not be stored makes it a 500.
func (a *API) push(c *gin.Context) {
	var leave func()
	c.Request.Body, leave = a.Room.Body(c.Request.Context(), c.Request.Body, c.Request.ContentLength)
	defer leave()
	body, err := httpd.Body(c)
	if err != nil {
		httpd.Fail(c, err)
		return
	}
	items, err := wire.ScanPush(body)
	if err != nil {
		httpd.Fail(c, err)
		return
	}
	httpd.Note(c, slog.Int("items", len(items)))
	results, status, err := a.store(c, items)
	if err != nil {
		httpd.Fail(c, err)
		return
	}
	answer := wire.AppendPushResults(make([]byte, 0, 2+resultBytes*len(results)), results)
	_ = httpd.Raw(c, status, answer) // Raw notes the error for the log, and nobody else can use it
}

func (a *API) store(c *gin.Context, items []wire.PushItem) (results []wire.PushResult, status int, err error) {
	if len(items) == 0 {
		return nil, http.StatusCreated, nil
	}
	p := newPlan(httpd.Tenant(c), httpd.Subject(c), items)
	outcomes, err := a.Push(c.Request.Context(), p.groups)
	if err != nil {
		return nil, 0, err
	}
	results, err = p.results(outcomes)
	return results, pushStatus(outcomes), err
}

func pushStatus(outcomes []appendlog.Result) int {
	for i := range outcomes {
		if err := outcomes[i].Err; errors.Is(err, outage.ErrMaintenance) && errors.Is(err, outage.ErrNotSpooled) {
			return http.StatusInternalServerError
		}
	}
	return http.StatusCreated
}
