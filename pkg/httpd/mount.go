package httpd

import (
	"fmt"
	"net/http"
	"slices"
	"strings"

	"github.com/gin-gonic/gin"

	"queen.internal/pkg/queue"
	"queen.internal/pkg/route"
)

// mount gives every row of the table its handler: the role's own, the ones every service has, and an answer for the
// rows of other roles, so that a wrong verb is told apart from a wrong service.
func (s *Server) mount(table []route.Row) error {
	stats, sharedState := s.meshAnswers()
	every := map[string]gin.HandlerFunc{
		"shared_state":         sharedState,
		"shared_state_stats":   stats,
		"inter_instance_stats": stats,
		"health":               gin.WrapF(s.o.Health.Health),
		"livez":                gin.WrapF(s.o.Health.Livez),
		"readyz":               gin.WrapF(s.o.Health.Readyz),
		"status":               gin.WrapF(s.o.Health.Status),
		"metrics_prometheus":   gin.WrapH(s.o.Metrics.Handler()),
	}
	var mounted []string
	for _, row := range table {
		var handler gin.HandlerFunc
		switch row.Role {
		case s.o.Role:
			handler = s.o.Handlers[row.Name]
			mounted = append(mounted, row.Name)
		case route.Every:
			if handler = every[row.Name]; handler == nil && s.o.Foreign != nil {
				s.mountForeign(row)
				continue
			}
		default:
			s.mountForeign(row)
			continue
		}
		if handler == nil {
			return fmt.Errorf("route %s of %s has no handler", row.Name, row.Role)
		}
		chain := []gin.HandlerFunc{s.observe(row), s.authorize(row), s.tenant(row), s.limitBody, refuseEncodedBody, handler}
		s.engine.Handle(row.Method, row.Path, chain...)
		if row.Role == route.Every && row.Method == http.MethodGet {
			s.engine.HEAD(row.Path, chain...) // some balancers probe with HEAD
		}
	}
	for name := range s.o.Handlers {
		if !slices.Contains(mounted, name) {
			return fmt.Errorf("handler %s is for no route of %s", name, s.o.Role)
		}
	}
	unmatched := route.Row{Name: "unmatched"}
	s.engine.NoRoute(s.observe(unmatched), s.authorize(unmatched), s.noRoute)
	s.engine.NoMethod(s.observe(unmatched), s.authorize(unmatched), noMethod)
	return nil
}

// meshAnswers are those of the mesh, or what the contract has a process say that has none. The edge has none and knows
// who has: it gets nil, and asks.
func (s *Server) meshAnswers() (stats, sharedState gin.HandlerFunc) {
	if s.o.Mesh != nil {
		return gin.WrapF(s.o.Mesh.ServeStats), gin.WrapF(s.o.Mesh.ServeSharedState)
	}
	if s.o.Foreign != nil {
		return nil, nil
	}
	off := func(reason string) gin.HandlerFunc {
		return func(c *gin.Context) { JSON(c, http.StatusOK, noMesh{Reason: reason}) }
	}
	return off("no_peers"), off("single_node_segments_broker")
}

// noMesh is false throughout: without a mesh no mode is shared.
type noMesh struct {
	Enabled        bool   `json:"enabled"`
	Reason         string `json:"reason"`
	Maintenance    bool   `json:"maintenance_mode"`
	PopMaintenance bool   `json:"pop_maintenance_mode"`
}

func (s *Server) mountForeign(row route.Row) {
	handler := wrongRole(row)
	if s.o.Foreign != nil {
		handler = s.o.Foreign(row)
	}
	s.engine.Handle(row.Method, row.Path, s.observe(row), s.authorize(row), s.limitBody, handler)
}

// refusal is the body of answers that also carry a code.
type refusal struct {
	Error string `json:"error"`
	Code  string `json:"code"`
}

func wrongRole(row route.Row) gin.HandlerFunc {
	return func(c *gin.Context) {
		text := fmt.Sprintf("%s is served by the %s service", c.Request.URL.EscapedPath(), row.Role)
		JSON(c, http.StatusNotFound, refusal{text, "wrong_role"})
	}
}

// noRoute answers what no row matches: JSON inside the API and for everything that is not a read, the fallback outside.
func (s *Server) noRoute(c *gin.Context) {
	path, method := c.Request.URL.EscapedPath(), c.Request.Method
	api := strings.HasPrefix(path, "/api/") || strings.HasPrefix(path, "/auth/")
	if s.o.Fallback != nil && !api && (method == http.MethodGet || method == http.MethodHead) {
		c.Status(http.StatusOK) // gin has set 404 already
		s.o.Fallback(c)
		return
	}
	JSON(c, http.StatusNotFound, refusal{"Not Found", "no_such_route"})
}

// noMethod answers a known path with a verb that it does not have; gin has set Allow.
func noMethod(c *gin.Context) {
	text := fmt.Sprintf("%s does not take %s, only %s", c.Request.URL.EscapedPath(), c.Request.Method, c.Writer.Header().Get("Allow"))
	JSON(c, http.StatusMethodNotAllowed, errorBody{text})
}

// limitBody answers a body that says it is too large before anybody reads it. One that does not say, or lies, is cut by
// the reader that ServeHTTP put around it.
func (s *Server) limitBody(c *gin.Context) {
	if s.o.MaxBodyBytes > 0 && c.Request.ContentLength > s.o.MaxBodyBytes {
		c.Header("Connection", "close") // the client may be sending it already
		Fail(c, tooLarge(s.o.MaxBodyBytes))
		c.Abort()
	}
}

func tooLarge(limit int64) error {
	return &queue.Error{Kind: queue.KindTooLarge, Message: fmt.Sprintf("request body is larger than %d bytes", limit)}
}

// refuseEncodedBody keeps compressed bodies out: the limit counts bytes as they are stored, and no client of the
// contract compresses.
func refuseEncodedBody(c *gin.Context) {
	encoding := strings.TrimSpace(c.GetHeader("Content-Encoding"))
	if encoding == "" || strings.EqualFold(encoding, "identity") {
		return
	}
	c.Header("Connection", "close")
	JSON(c, http.StatusUnsupportedMediaType, errorBody{"Content-Encoding " + encoding + " is not supported, send the body as it is"})
	c.Abort()
}
