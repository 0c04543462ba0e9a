package httpapi

import (
	"encoding/json"
	"fmt"
	"net/http"

	"github.com/gin-gonic/gin"

	"queen.internal/pkg/httpd"
	"queen.internal/pkg/route"
	"queen.internal/services/gateway/internal/forward"
)

// sum answers with what all servers of a role say. read takes what one said, and knows whether that tells anything.
func sum[S any](a *API, c *gin.Context, row route.Row, read func(*forward.Said) (S, bool), render func([]byte, []S) []byte) {
	servers, refused := askAll(a, c, row, read)
	switch {
	case refused != nil:
		_ = httpd.Raw(c, refused.Status, refused.Body) // Raw notes the error for the log
	case len(servers) == 0:
		fail(c, row.Role, &forward.UnreachableError{Role: row.Role})
	default:
		_ = httpd.Raw(c, http.StatusOK, render(nil, servers)) // as above
	}
}

// askAll is what the servers say, none when not one can tell. The first that refuses the credential speaks for all.
func askAll[S any](a *API, c *gin.Context, row route.Row, read func(*forward.Said) (S, bool)) (servers []S, refused *forward.Said) {
	told := false
	said := a.Forwarder.AskAll(c.Request.Context(), row.Role, row.Path, c.GetHeader("Authorization"))
	for i := range said {
		s := &said[i]
		if s.Status == http.StatusUnauthorized || s.Status == http.StatusForbidden {
			return nil, s
		}
		server, known := read(s)
		servers, told = append(servers, server), told || known
	}
	if !told {
		return nil, nil
	}
	return servers, nil
}

// reading decodes what a server said, or says why that tells nothing.
func reading(s *forward.Said, into any) (problem string) {
	switch {
	case s.Err != nil:
		return "it does not answer"
	case s.Status != http.StatusOK:
		return fmt.Sprintf("it answers with status %d", s.Status)
	case json.Unmarshal(s.Body, into) != nil:
		return "its answer cannot be read"
	}
	return ""
}
