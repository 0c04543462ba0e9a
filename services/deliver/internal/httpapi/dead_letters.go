package httpapi

import (
	"context"
	"log/slog"
	"net/http"
	"net/url"

	"github.com/gin-gonic/gin"
	"github.com/google/uuid"

	"queen.internal/pkg/httpd"
	"queen.internal/pkg/queue"
	"queen.internal/pkg/wire"
)

// purgeDeadLetters removes the dead letters that a queue has now. It goes on while the client listens; an error says
// nothing of how many are gone, so it is safe to ask again.
func (a *API) purgeDeadLetters(c *gin.Context) {
	q := wire.ParseListQuery(c.Request.URL.RawQuery)
	name, group := q.Name("queue"), q.Name("consumerGroup")
	if err := q.Err(); err != nil {
		httpd.Fail(c, err)
		return
	}
	if name == "" {
		httpd.Fail(c, queue.Invalid("queue", "queue is required"))
		return
	}
	removed, err := a.DeadLetters.Purge(c.Request.Context(), httpd.Tenant(c), name, group)
	httpd.Note(c, slog.Int("dead_letters", removed))
	if err != nil {
		httpd.Fail(c, err)
		return
	}
	_ = httpd.Raw(c, http.StatusOK, wire.AppendPurge(nil, name, group, removed)) // Raw has noted the error for the log
}

// deleteMessage removes the dead letters of one message. The message itself stays in the log: a path that names one
// without dead letters, or none at all, is not found.
func (a *API) deleteMessage(c *gin.Context) {
	partitionID, transactionID := text(c, "partitionId"), text(c, "transactionId")
	removed, err := a.remove(c.Request.Context(), httpd.Tenant(c), partitionID, transactionID)
	if err != nil {
		httpd.Fail(c, err)
		return
	}
	status := http.StatusOK
	if removed == 0 {
		status = http.StatusNotFound
	}
	httpd.Note(c, slog.Int("dead_letters", removed))
	_ = httpd.Raw(c, status, wire.AppendRemoval(nil, partitionID, transactionID, removed > 0)) // as above
}

func (a *API) remove(ctx context.Context, tenant uuid.UUID, partitionID, transactionID string) (int, error) {
	partition, err := uuid.Parse(partitionID)
	if err != nil || queue.CheckTransactionID("transactionId", transactionID) != nil {
		return 0, nil // nothing can have such an address
	}
	ctx, cancel := context.WithTimeout(ctx, a.Timeout)
	defer cancel()
	return a.DeadLetters.Remove(ctx, tenant, partition, transactionID)
}

// text is a path parameter as whoever asked meant it, whatever it holds.
func text(c *gin.Context, name string) string {
	value, err := url.PathUnescape(c.Param(name))
	if err != nil {
		return c.Param(name)
	}
	return value
}
