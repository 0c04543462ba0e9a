package httpapi

import (
	"context"
	"log/slog"
	"net/http"
	"time"

	"github.com/gin-gonic/gin"
	"github.com/google/uuid"

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
	if halted, err := a.halted(c, &req); halted {
		httpd.NoContent(c)
		return
	} else if err != nil {
		httpd.Fail(c, err)
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
		a.send(c, req.Tenant, answer)
		a.Pops.Recycle(answer)
	}
}

// send writes an answer, and gives its lease back when the client cannot have got all of it. A client that has hung up
// before the first byte gets an empty answer, if anybody reads it still.
func (a *API) send(c *gin.Context, tenant uuid.UUID, answer *wire.PopResponse) {
	lease := answer.Lease()
	if lease == "" { // consumed already
		_ = httpd.Raw(c, http.StatusOK, answer.Bytes()) // Raw has noted the error for the log
		return
	}
	if c.Request.Context().Err() != nil {
		httpd.Note(c, slog.Bool("given_back", true))
		a.Returns.Unwritten(c.Request.Context(), tenant, lease)
		httpd.NoContent(c)
		return
	}
	c.Header(leaseHeader, lease)
	err := httpd.Raw(c, http.StatusOK, answer.Bytes())
	if err == nil {
		if err = httpd.Flush(c); err != nil { // small answers fail here
			_ = c.Error(err) // gin returns its own wrapper
		}
	}
	if err != nil {
		httpd.Note(c, slog.Bool("given_back", true))
		a.Returns.Unwritten(c.Request.Context(), tenant, lease)
	}
}
