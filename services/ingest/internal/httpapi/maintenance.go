package httpapi

import (
	"net/http"

	"github.com/gin-gonic/gin"

	"queen.internal/pkg/httpd"
	"queen.internal/pkg/mesh"
	"queen.internal/pkg/wire"
)

// maintenance tells how the modes are and what waits in this process's spools. Whether the rows could be read anew makes no
// difference to the answer: then it is what was known last.
func (a *API) maintenance(c *gin.Context) {
	_ = a.Modes.Refresh(c.Request.Context())
	m := a.maintained(c)
	_ = httpd.Raw(c, http.StatusOK, wire.AppendMaintenance(nil, &m)) // Raw notes the error for the log
}

func (a *API) maintained(c *gin.Context) wire.Maintenance {
	m := wire.Maintenance{
		Push: a.Modes.On(mesh.PushMaintenance), Pop: a.Modes.On(mesh.PopMaintenance), Buffers: a.Buffers(c.Request.Context()),
	}
	m.Healthy = m.Buffers.DBHealthy && a.SpoolRoom() == nil
	m.Files, m.Bytes = a.Files()
	return m
}

// setMaintenance turns push maintenance on or off, for all processes.
func (a *API) setMaintenance(c *gin.Context) {
	body, err := httpd.Body(c)
	if err != nil {
		httpd.Fail(c, err)
		return
	}
	on, err := wire.ScanEnabled(body)
	if err != nil {
		httpd.Fail(c, err)
		return
	}
	stored, err := a.Modes.Set(c.Request.Context(), mesh.PushMaintenance, on)
	if err != nil {
		httpd.Fail(c, err)
		return
	}
	m := a.maintained(c)
	turned := wire.Turned{On: on, Buffered: m.Buffers.Pending, Healthy: m.Healthy, Unstored: !stored}
	_ = httpd.Raw(c, http.StatusOK, wire.AppendTurned(nil, turned, nil)) // as above
}
