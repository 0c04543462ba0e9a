package httpapi

import (
	"net/http"
	"time"

	"github.com/gin-gonic/gin"

	"queen.internal/pkg/httpd"
	"queen.internal/pkg/queue"
	"queen.internal/pkg/store/inspect"
	"queen.internal/pkg/wire"
)

// maxQueues bounds the queues that one answer tells of.
const maxQueues = 1000

// retention answers what retention removed, by time and by queue, and which groups hold it up.
func (a *API) retention(c *gin.Context) {
	q := wire.ParseListQuery(c.Request.URL.RawQuery)
	name, from, to := q.Name("queue"), q.Time("from"), q.Time("to")
	if to.IsZero() {
		to = time.Now()
	}
	if from.IsZero() {
		from = to.Add(-time.Hour)
	}
	err := q.Err()
	if err == nil && !from.Before(to) {
		err = queue.Invalid("from", "from must be before to")
	}
	if err != nil {
		httpd.Fail(c, err)
		return
	}
	ctx, cancel := a.bounded(c)
	defer cancel()
	width := wire.BucketWidth(to.Sub(from))
	series, err := a.Inspect.RetentionSeries(ctx, httpd.Tenant(c), name, from, to, width)
	if err != nil {
		httpd.Fail(c, err)
		return
	}
	queues, err := a.Inspect.RetentionQueues(ctx, httpd.Tenant(c), name, from, to, maxQueues+1)
	if err != nil {
		httpd.Fail(c, err)
		return
	}
	c.JSON(http.StatusOK, retentionAnswer(from, to, width, series, queues))
}

func retentionAnswer(from, to time.Time, width time.Duration, series []inspect.RemovedIn, queues []inspect.RemovedOf) wire.Retention {
	answer := wire.Retention{
		TimeRange: wire.TimeRange{From: from.UTC(), To: to.UTC()}, BucketMinutes: int(width.Minutes()),
		Series: []wire.RetentionBucket{}, Queues: []wire.RetentionQueue{}, Truncated: len(queues) > maxQueues,
	}
	for _, s := range series {
		counts := wire.RetentionCounts{
			Aged: s.Aged, Completed: s.Completed, Evicted: s.Evicted, Total: s.Aged + s.Completed + s.Evicted, Events: s.Steps, Unread: s.Unread,
		}
		answer.Series = append(answer.Series, wire.RetentionBucket{Bucket: s.Begin.UTC(), RetentionCounts: counts})
		answer.Totals.Add(counts)
	}
	for _, s := range queues[:min(len(queues), maxQueues)] {
		shown := wire.RetentionQueue{
			Queue: s.Queue, Aged: s.Aged, Completed: s.Completed, Evicted: s.Evicted, Unread: s.Unread, Partitions: s.Partitions,
		}
		if s.Held != nil {
			shown.HeldBy = &wire.RetentionHold{Group: s.Held.Group, Since: s.Held.Since.UTC(), Partitions: s.Held.Partitions}
		}
		answer.Queues = append(answer.Queues, shown)
	}
	return answer
}
