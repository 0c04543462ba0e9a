package httpapi

import (
	"github.com/gin-gonic/gin"

	"queen.internal/pkg/route"
	"queen.internal/pkg/wire"
	"queen.internal/services/gateway/internal/forward"
)

// buffers sums over the ingests, since each has spools of its own.
func (a *API) buffers(c *gin.Context, row route.Row) {
	sum(a, c, row, bufferServer, wire.AppendBuffersOf)
}

func bufferServer(s *forward.Said) (server wire.BufferServer, known bool) {
	var told struct {
		Pending, Failed int64
		DBHealthy       bool
	}
	server = wire.BufferServer{Server: s.Address, Error: reading(s, &told)}
	server.Buffers = wire.Buffers{Pending: told.Pending, Failed: told.Failed, DBHealthy: told.DBHealthy}
	return server, server.Error == ""
}
