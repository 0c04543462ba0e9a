package httpapi

import (
	"context"
	"log/slog"
	"net/http"
	"time"

	"github.com/gin-gonic/gin"

	"queen.internal/pkg/httpd"
	"queen.internal/pkg/wire"
	"queen.internal/services/deliver/internal/pop"
)

// leaseHeader names the lease to whoever forwards the answer: a proxy that cannot deliver it can give the lease back.
const leaseHeader = "X-Queen-Lease"

func (a *API) popQueue(c *gin.Context) {
	a.pop(c, a.Pops.Queue, "queue")
}

func (a *API) popPartition(c *gin.Context) {
	a.pop(c, a.Pops.Partition, "queue", "partition")
}

func (a *API) popDiscover(c *gin.Context) {
	a.pop(c, a.Pops.Discover)
}

// pop serves one pop whose path has these parameters.
func (a *API) pop(c *gin.Context, serve func(context.Context, *pop.Request) (*wire.PopResponse, error), parameters ...string) {
	req := pop.Request{Tenant: httpd.Tenant(c), Arrived: time.Now(), Draining: httpd.Draining(c)}
	for i, parameter := range parameters {
		name, err := httpd.Param(c, parameter)
		if err != nil {
			httpd.Fail(c, err)
			return
		}
		*[...]*string{&req.Queue, &req.Partition}[i] = name
	}
	var err error
	if req.Query, err = wire.ParsePop(c.Request.URL.RawQuery, a.Defaults); err != nil {
		httpd.Fail(c, err)
		return
	}
	if len(parameters) == 0 && req.Query.Namespace == "" && req.Query.Task == "" {
		_ = httpd.Raw(c, http.StatusBadRequest, []byte(`{"success":false,"error":"namespace or task is required","messages":[]}`))
		return
	}
	answer, err := serve(c.Request.Context(), &req)
	switch {
	case err != nil:
		httpd.Fail(c, err)
	case answer == nil:
		httpd.NoContent(c)
	default:
		httpd.Note(c, slog.Int("messages", answer.Messages()))
		if lease := answer.Lease(); lease != "" {
			c.Header(leaseHeader, lease)
		}
		// A client that is gone by now leaves its lease to expire. Raw has noted the error for the log.
		_ = httpd.Raw(c, http.StatusOK, answer.Bytes())
		a.Pops.Recycle(answer)
	}
}
