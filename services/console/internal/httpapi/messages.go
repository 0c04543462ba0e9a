package httpapi

import (
	"log/slog"
	"net/http"
	"net/url"
	"time"

	"github.com/gin-gonic/gin"
	"github.com/google/uuid"

	"queen.internal/pkg/httpd"
	"queen.internal/pkg/queue"
	"queen.internal/pkg/store/inspect"
	"queen.internal/pkg/wire"
	"queen.internal/services/console/internal/messages"
)

const (
	defaultMessages = 200
	// maxMessages and maxMessageOffset bound what one listing has to search.
	maxMessages      = 1000
	maxMessageOffset = 10_000
	// defaultWindow is how far back a listing looks that does not say.
	defaultWindow = time.Hour
)

// listMessages answers the newest messages of a time.
func (a *API) listMessages(c *gin.Context) {
	q := wire.ParseListQuery(c.Request.URL.RawQuery)
	query := messages.Query{
		Filter: inspect.Filter{Queue: q.Name("queue"), Partition: q.Name("partition"), Namespace: q.Name("namespace"), Task: q.Name("task")},
		Status: wire.MessageStatus(q.Word("status", string(wire.StatusPending), string(wire.StatusProcessing), string(wire.StatusCompleted),
			string(wire.StatusDeadLetter))),
		From: q.Time("from"), Before: q.Time("to"),
		Limit: q.Int("limit", defaultMessages, 0, maxMessages), Offset: q.Int("offset", 0, 0, maxMessageOffset),
	}
	if alias := q.Name("ns"); query.Namespace == "" {
		query.Namespace = alias
	}
	if err := q.Err(); err != nil {
		httpd.Fail(c, err)
		return
	}
	if query.From.IsZero() {
		query.From = time.Now().Add(-defaultWindow)
	}
	if !query.Before.IsZero() {
		query.Before = query.Before.Truncate(time.Minute).Add(time.Minute) // the minute that is named is in it
	}
	ctx, cancel := a.bounded(c)
	defer cancel()
	page, err := a.Messages.List(ctx, httpd.Tenant(c), &query)
	if err != nil {
		httpd.Fail(c, err)
		return
	}
	httpd.Note(c, slog.Int("messages", len(page.Messages)))
	_ = httpd.Raw(c, http.StatusOK, wire.AppendMessages(nil, page.Messages, page.Mode, page.More)) // Raw has noted the error for the log
}

// showMessage answers one message. An address that nothing can have is not found, like one that nothing has.
func (a *API) showMessage(c *gin.Context) {
	partition, badPartition := uuid.Parse(c.Param("partitionId"))
	transactionID, badText := url.PathUnescape(c.Param("transactionId"))
	if badPartition != nil || badText != nil || queue.CheckTransactionID("transactionId", transactionID) != nil {
		httpd.Fail(c, errNoMessage)
		return
	}
	ctx, cancel := a.bounded(c)
	defer cancel()
	detail, found, err := a.Messages.Find(ctx, httpd.Tenant(c), partition, transactionID)
	switch {
	case err != nil:
		httpd.Fail(c, err)
	case !found:
		httpd.Fail(c, errNoMessage)
	default:
		_ = httpd.Raw(c, http.StatusOK, wire.AppendMessageDetail(nil, detail)) // as above
	}
}

var errNoMessage = queue.NotFound("Message not found")
