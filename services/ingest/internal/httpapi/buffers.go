package httpapi

import (
	"net/http"

	"github.com/gin-gonic/gin"

	"queen.internal/pkg/httpd"
	"queen.internal/pkg/wire"
)

// buffers tells what waits in this process's spools.
func (a *API) buffers(c *gin.Context) {
	_ = httpd.Raw(c, http.StatusOK, wire.AppendBuffers(nil, a.Buffers(c.Request.Context()))) // Raw notes the error for the log
}
