package httpapi

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"

	"github.com/gin-gonic/gin"

	"queen.internal/pkg/httpd"
	"queen.internal/pkg/route"
	"queen.internal/pkg/wire"
	"queen.internal/services/gateway/internal/forward"
)

// maintenance sums over the ingests. The first that refuses the credential speaks for all.
func (a *API) maintenance(c *gin.Context, row route.Row) {
	servers, refused := a.maintained(c, row.Role, row.Path)
	switch {
	case refused != nil:
		_ = httpd.Raw(c, refused.Status, refused.Body) // Raw notes the error for the log
	case len(servers) == 0:
		fail(c, row.Role, &forward.UnreachableError{Role: row.Role})
	default:
		_ = httpd.Raw(c, http.StatusOK, wire.AppendMaintenanceOf(nil, servers)) // as above
	}
}

// maintained is what the servers say, none when not one can tell.
func (a *API) maintained(c *gin.Context, role route.Role, path string) (servers []wire.MaintenanceServer, refused *forward.Said) {
	said, known := a.Forwarder.AskAll(c.Request.Context(), role, path, c.GetHeader("Authorization")), 0
	for i := range said {
		s := &said[i]
		if s.Status == http.StatusUnauthorized || s.Status == http.StatusForbidden {
			return nil, s
		}
		server := maintenanceServer(s)
		if servers = append(servers, server); server.Error == "" {
			known++
		}
	}
	if known == 0 {
		return nil, nil
	}
	return servers, nil
}

func maintenanceServer(s *forward.Said) wire.MaintenanceServer {
	server := wire.MaintenanceServer{Server: s.Address}
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
	switch stats := &told.BufferStats; {
	case s.Err != nil:
		server.Error = "it does not answer"
	case s.Status != http.StatusOK:
		server.Error = fmt.Sprintf("it answers with status %d", s.Status)
	case json.Unmarshal(s.Body, &told) != nil:
		server.Error = "its answer cannot be read"
	default:
		server.Maintenance = wire.Maintenance{
			Push: told.MaintenanceMode, Pop: told.PopMaintenanceMode, Healthy: told.BufferHealthy,
			Buffers: wire.Buffers{Pending: stats.PendingCount, Failed: stats.FailedCount, DBHealthy: stats.DBHealthy},
			Files:   stats.FailedFiles.Count, Bytes: stats.FailedFiles.TotalBytes,
		}
	}
	return server
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
		servers, _ := a.maintained(c, row.Role, row.Path) // whoever may turn it may ask
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
