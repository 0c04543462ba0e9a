package httpapi

import (
	"bytes"
	"encoding/json"
	"net/http"

	"github.com/gin-gonic/gin"

	"queen.internal/pkg/httpd"
	"queen.internal/pkg/route"
	"queen.internal/pkg/wire"
	"queen.internal/services/gateway/internal/forward"
)

// maintenance sums over the ingests.
func (a *API) maintenance(c *gin.Context, row route.Row) {
	sum(a, c, row, maintenanceServer, wire.AppendMaintenanceOf)
}

func maintenanceServer(s *forward.Said) (server wire.MaintenanceServer, known bool) {
	var told struct {
		MaintenanceMode, PopMaintenanceMode, BufferHealthy bool
		BufferStats                                        struct {
			PendingCount, FailedCount int64
			DBHealthy                 bool
			FailedFiles               struct {
				Count      int
				TotalBytes int64
			}
		}
	}
	server = wire.MaintenanceServer{Server: s.Address, Error: reading(s, &told)}
	stats := &told.BufferStats
	server.Maintenance = wire.Maintenance{
		Push: told.MaintenanceMode, Pop: told.PopMaintenanceMode, Healthy: told.BufferHealthy,
		Buffers: wire.Buffers{Pending: stats.PendingCount, Failed: stats.FailedCount, DBHealthy: stats.DBHealthy},
		Files:   stats.FailedFiles.Count, Bytes: stats.FailedFiles.TotalBytes,
	}
	return server, server.Error == ""
}

// setMaintenance has one ingest turn the mode for all, and tells what waits at each of them.
func (a *API) setMaintenance(c *gin.Context, row route.Row) {
	answer := &kept{header: http.Header{}}
	if _, err := a.Forwarder.Serve(answer, c.Request, forward.To(row, c.Request.Method)); err != nil {
		fail(c, row.Role, err)
		return
	}
	var told struct {
		MaintenanceMode, BufferHealthy bool
		BufferedMessages               int64
		Stored                         *bool
	}
	body := answer.body.Bytes()
	if answer.status == http.StatusOK && json.Unmarshal(body, &told) == nil {
		servers, _ := askAll(a, c, row, maintenanceServer) // whoever may turn it may ask
		turned := wire.Turned{
			On: told.MaintenanceMode, Buffered: told.BufferedMessages, Healthy: told.BufferHealthy,
			Unstored: told.Stored != nil && !*told.Stored,
		}
		body = wire.AppendTurned(nil, turned, servers)
	}
	for _, name := range []string{"Retry-After", "Www-Authenticate"} {
		if values := answer.header[name]; len(values) > 0 {
			c.Writer.Header()[name] = values
		}
	}
	_ = httpd.Raw(c, answer.status, body) // as above
}

// kept is an answer that is not passed on as it is. What answers to such requests is short.
type kept struct {
	header http.Header
	status int
	body   bytes.Buffer
}

// Header is the answer's.
func (k *kept) Header() http.Header { return k.header }

// WriteHeader keeps the status.
func (k *kept) WriteHeader(status int) { k.status = status }

// Write keeps a piece of the body.
func (k *kept) Write(p []byte) (int, error) { return k.body.Write(p) }
