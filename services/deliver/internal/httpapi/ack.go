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

// leaseOf is what stands in the path: a lease that does not exist, unless it is one. So these routes have no bad input.
func leaseOf(c *gin.Context) string {
	lease, err := httpd.Param(c, "leaseId")
	if err != nil {
		return ""
	}
	return lease
}

func (a *API) extendLease(c *gin.Context) {
	body, err := httpd.Body(c)
	if err != nil {
		httpd.Fail(c, err)
		return
	}
	extension, err := a.Acks.Extend(c.Request.Context(), httpd.Tenant(c), leaseOf(c), wire.ExtendSeconds(body))
	if err != nil {
		httpd.Fail(c, err)
		return
	}
	_ = httpd.Raw(c, http.StatusOK, wire.AppendLeaseExtension(nil, extension)) // Raw has noted the error for the log
}

func (a *API) releaseLease(c *gin.Context) {
	lease := leaseOf(c)
	released, err := a.Returns.Asked(c.Request.Context(), httpd.Tenant(c), lease)
	if err != nil {
		httpd.Fail(c, err)
		return
	}
	_ = httpd.Raw(c, http.StatusOK, wire.AppendLeaseRelease(nil, wire.LeaseRelease{Lease: lease, Released: released})) // as above
}
