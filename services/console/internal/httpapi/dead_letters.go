package httpapi

import (
	"log/slog"
	"net/http"
	"time"

	"github.com/gin-gonic/gin"

	"queen.internal/pkg/httpd"
	"queen.internal/pkg/store/deadletter"
	"queen.internal/pkg/wire"
)

const (
	defaultLetters = 100
	// maxRows and maxOffset bound what one request makes the database walk over.
	maxRows   = 10_000
	maxOffset = 1_000_000
	// maxPageBytes bounds the payloads of one answer. Of what is beyond it a listing tells everything else.
	maxPageBytes = 16 << 20
)

// listDeadLetters answers a page of dead letters, the newest failure first.
func (a *API) listDeadLetters(c *gin.Context) {
	q := wire.ParseListQuery(c.Request.URL.RawQuery)
	filter := deadletter.Filter{
		Queue: q.Name("queue"), Partition: q.Name("partition"), Group: q.Name("consumerGroup"),
		From: q.Time("from"), Before: after(q.Time("to")),
	}
	page := deadletter.Page{
		Limit: q.Int("limit", defaultLetters, 0, maxRows), Offset: q.Int("offset", 0, 0, maxOffset), MaxBytes: maxPageBytes,
	}
	if err := q.Err(); err != nil {
		httpd.Fail(c, err)
		return
	}
	ctx, cancel := a.bounded(c)
	defer cancel()
	letters, more, err := a.DeadLetters.List(ctx, httpd.Tenant(c), filter, page)
	if err != nil {
		httpd.Fail(c, err)
		return
	}
	shown := make([]wire.DeadLetter, len(letters))
	for i := range letters {
		shown[i] = a.shown(&letters[i])
	}
	httpd.Note(c, slog.Int("dead_letters", len(letters)))
	answer := wire.AppendDeadLetters(nil, shown, wire.DeadLetterPage{Limit: page.Limit, Offset: page.Offset, More: more})
	_ = httpd.Raw(c, http.StatusOK, answer) // Raw has noted the error for the log
}

func (a *API) shown(l *deadletter.Letter) wire.DeadLetter {
	data, sealed := a.opened(l.Payload)
	return wire.DeadLetter{
		ID: l.ID, TransactionID: l.TransactionID, PartitionID: l.PartitionID, Queue: l.Queue, Partition: l.Partition, Group: l.Group,
		Error: l.Error, RetryCount: l.RetryCount, FailedAt: l.FailedAt, Payload: data, Sealed: sealed, Omitted: l.Payload == nil,
	}
}

// after is the first moment that is told differently from t. Times are told in milliseconds, so a bound that was copied
// from an answer takes in the row that it came from.
func after(t time.Time) time.Time {
	if t.IsZero() {
		return t
	}
	return t.Truncate(time.Millisecond).Add(time.Millisecond)
}
