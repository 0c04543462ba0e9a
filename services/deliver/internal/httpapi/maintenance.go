package httpapi

import (
	"net/http"

	"github.com/gin-gonic/gin"

	"queen.internal/pkg/httpd"
	"queen.internal/pkg/mesh"
	"queen.internal/pkg/wire"
	"queen.internal/services/deliver/internal/pop"
)

// halted says whether pop maintenance is on, and has the pop end when it comes on while it waits. A process that has just
// started has to learn that first; its error, which has a kind, is why it cannot.
func (a *API) halted(c *gin.Context, req *pop.Request) (bool, error) {
	if err := a.Modes.Await(c.Request.Context(), mesh.PopMaintenance); err != nil {
		return false, err
	}
	req.Halted = a.Modes.Began(mesh.PopMaintenance)
	select {
	case <-req.Halted:
		return true, nil
	default:
		return false, nil
	}
}

// popMaintenance tells how this process sees the mode.
func (a *API) popMaintenance(c *gin.Context) {
	_ = httpd.Raw(c, http.StatusOK, wire.AppendPopMaintenance(nil, a.Modes.On(mesh.PopMaintenance))) // Raw notes the error for the log
}

// setPopMaintenance turns pop maintenance on or off, for all processes.
func (a *API) setPopMaintenance(c *gin.Context) {
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
	stored, err := a.Modes.Set(c.Request.Context(), mesh.PopMaintenance, on)
	if err != nil {
		httpd.Fail(c, err)
		return
	}
	_ = httpd.Raw(c, http.StatusOK, wire.AppendPopTurned(nil, on, !stored)) // as above
}
