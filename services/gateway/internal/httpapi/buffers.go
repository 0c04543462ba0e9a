package httpapi

import (
	"encoding/json"
	"fmt"
	"net/http"

	"github.com/gin-gonic/gin"

	"queen.internal/pkg/httpd"
	"queen.internal/pkg/route"
	"queen.internal/pkg/wire"
	"queen.internal/services/gateway/internal/forward"
)

// buffers sums over the ingests, since each has spools of its own. The first that refuses the credential speaks for all.
func (a *API) buffers(c *gin.Context, row route.Row) {
	said := a.Forwarder.AskAll(c.Request.Context(), row.Role, row.Path, c.GetHeader("Authorization"))
	servers, known := make([]wire.BufferServer, len(said)), 0
	for i := range said {
		s := &said[i]
		if s.Status == http.StatusUnauthorized || s.Status == http.StatusForbidden {
			_ = httpd.Raw(c, s.Status, s.Body) // Raw notes the error for the log
			return
		}
		if servers[i] = bufferServer(s); servers[i].Error == "" {
			known++
		}
	}
	if known == 0 {
		fail(c, row.Role, &forward.UnreachableError{Role: row.Role})
		return
	}
	_ = httpd.Raw(c, http.StatusOK, wire.AppendBuffersOf(nil, servers)) // as above
}

func bufferServer(s *forward.Said) wire.BufferServer {
	server := wire.BufferServer{Server: s.Address}
	var told struct {
		Pending, Failed int64
		DBHealthy       bool
	}
	switch {
	case s.Err != nil:
		server.Error = "it does not answer"
	case s.Status != http.StatusOK:
		server.Error = fmt.Sprintf("it answers with status %d", s.Status)
	case json.Unmarshal(s.Body, &told) != nil:
		server.Error = "its answer cannot be read"
	default:
		server.Buffers = wire.Buffers{Pending: told.Pending, Failed: told.Failed, DBHealthy: told.DBHealthy}
	}
	return server
}
