package httpapi

import (
	"log/slog"
	"net/http"

	"github.com/gin-gonic/gin"

	"queen.internal/pkg/httpd"
	"queen.internal/pkg/wire"
)

func (a *API) ackOne(c *gin.Context) { a.ack(c, wire.ScanAck) }

func (a *API) ackBatch(c *gin.Context) { a.ack(c, wire.ScanAckBatch) }

func (a *API) ack(c *gin.Context, scan func([]byte) (wire.AckRequest, error)) {
	body, err := httpd.Body(c)
	if err != nil {
		httpd.Fail(c, err)
		return
	}
	req, err := scan(body)
	if err != nil {
		httpd.Fail(c, err)
		return
	}
	httpd.Note(c, slog.Int("items", len(req.Items)))
	results, err := a.Acks.Ack(c.Request.Context(), httpd.Tenant(c), req)
	if err != nil {
		httpd.Fail(c, err)
		return
	}
	_ = httpd.Raw(c, http.StatusOK, wire.AppendAckResults(nil, results)) // Raw has noted the error for the log
}

func (a *API) extendLease(c *gin.Context) {
	// Whatever stands in the path is a lease that does not exist, unless it is one: this route has no bad input.
	lease, err := httpd.Param(c, "leaseId")
	if err != nil {
		lease = ""
	}
	body, err := httpd.Body(c)
	if err != nil {
		httpd.Fail(c, err)
		return
	}
	extension, err := a.Acks.Extend(c.Request.Context(), httpd.Tenant(c), lease, wire.ExtendSeconds(body))
	if err != nil {
		httpd.Fail(c, err)
		return
	}
	_ = httpd.Raw(c, http.StatusOK, wire.AppendLeaseExtension(nil, extension)) // Raw has noted the error for the log
}
