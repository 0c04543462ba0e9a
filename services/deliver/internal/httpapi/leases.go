package httpapi

import (
	"log/slog"
	"net/http"

	"github.com/gin-gonic/gin"

	"queen.internal/pkg/httpd"
	"queen.internal/pkg/store/group"
	"queen.internal/pkg/wire"
)

// listLeases tells who holds what. It costs a walk over the cursors of the groups that are asked about.
func (a *API) listLeases(c *gin.Context) {
	leases, truncated, err := a.leases(c)
	if err != nil {
		httpd.Fail(c, err)
		return
	}
	listed := make([]wire.LiveLease, len(leases))
	for i := range leases {
		listed[i] = wire.LiveLease(leases[i])
	}
	_ = httpd.Raw(c, http.StatusOK, wire.AppendLiveLeases(nil, listed, truncated)) // Raw has noted the error for the log
}

func (a *API) leases(c *gin.Context) ([]group.LiveLease, bool, error) {
	query, err := readQuery(c)
	if err != nil {
		return nil, false, err
	}
	limit, err := query.limit()
	if err != nil {
		return nil, false, err
	}
	var names [2]string
	for i, parameter := range []string{"queue", "group"} {
		name, err := query.name(parameter)
		if err != nil {
			return nil, false, err
		}
		if name != nil {
			names[i] = *name
		}
	}
	return a.Live.List(c.Request.Context(), httpd.Tenant(c), names[0], names[1], limit)
}

// endLease ends a lease as if it had run out. The give-back, which undoes the delivery, is another route.
func (a *API) endLease(c *gin.Context) {
	lease := leaseOf(c)
	freed, err := a.Live.End(c.Request.Context(), httpd.Tenant(c), lease)
	if err != nil {
		httpd.Fail(c, err)
		return
	}
	httpd.Note(c, slog.Int("partitions", freed))
	_ = httpd.Raw(c, http.StatusOK, wire.AppendLeaseRelease(nil, wire.LeaseRelease{Lease: lease, Released: freed})) // Raw has noted the error for the log
}
