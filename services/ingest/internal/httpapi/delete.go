package httpapi

import (
	"context"
	"log/slog"
	"net/http"
	"time"

	"github.com/gin-gonic/gin"

	"queen.internal/pkg/httpd"
	"queen.internal/pkg/wire"
)

// deleteTimeout bounds waiting for a connection and for the queue's row, as in configureTimeout.
const deleteTimeout = 5 * time.Second

// deleteQueue deletes a queue. That there was none is no error: clients read the body.
func (a *API) deleteQueue(c *gin.Context) {
	name, err := httpd.Param(c, "queue")
	if err != nil {
		httpd.Fail(c, err)
		return
	}
	httpd.Note(c, slog.String("queue", name))
	existed, err := a.remove(c, name)
	if err != nil {
		httpd.Fail(c, err)
		return
	}
	_ = httpd.Raw(c, http.StatusOK, wire.AppendQueueDeleted(nil, name, existed)) // Raw notes the error for the log
}

func (a *API) remove(c *gin.Context, name string) (existed bool, err error) {
	if err := a.Ready(); err != nil {
		return false, notReady("delete queues", err)
	}
	ctx, cancel := context.WithTimeout(c.Request.Context(), deleteTimeout)
	defer cancel()
	tenant := httpd.Tenant(c)
	existed, err = a.Queues.Delete(ctx, tenant, name)
	// Also when the answer was lost: it is cheap, and what comes under the name may be another queue.
	a.Forget(tenant, name)
	a.Changed(tenant, name, true)
	return existed, explained("delete the queue", err)
}
