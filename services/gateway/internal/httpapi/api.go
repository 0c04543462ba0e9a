// Package httpapi is the edge's HTTP side: which role a path goes to, and what is answered when no service does.
package httpapi

import (
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"strings"
	"time"

	"github.com/gin-gonic/gin"

	"queen.internal/pkg/httpd"
	"queen.internal/pkg/queue"
	"queen.internal/pkg/route"
	"queen.internal/services/gateway/internal/forward"
)

// Role is the edge's own. It owns no row of the route table: beside the rows of every service it forwards.
const Role route.Role = "gateway"

// retryAfter is when a client may try again after nobody was reachable. Addresses are probed twice in it.
const retryAfter = time.Second

// statusClientGone is for the log and the measurements: nobody reads it.
const statusClientGone = 499

// API forwards what clients ask.
type API struct {
	Forwarder *forward.Forwarder
}

// Foreign handles a row that a role behind the edge owns.
func (a *API) Foreign(row route.Row) gin.HandlerFunc {
	return func(c *gin.Context) {
		// The server matched a form of the path that net/http made; what goes on is the raw one. Both must mean the same.
		match := route.Classify(c.Request.Method, forward.RawPath(c.Request))
		if match.Verdict != route.Found || match.Row.Name != row.Name {
			noSuchRoute(c)
			return
		}
		switch row.Name {
		case "buffers":
			a.buffers(c, row)
		case "maintenance":
			a.maintenance(c, row)
		case "maintenance_set":
			a.setMaintenance(c, row)
		default:
			a.forward(c, forward.To(row, c.Request.Method))
		}
	}
}

// Console handles what is in no row, and not under one of the prefixes that only rows live under: pages are the
// console's.
func (a *API) Console(c *gin.Context) {
	path := forward.RawPath(c.Request)
	if route.Classify(c.Request.Method, path).Verdict != route.Unknown || rowsOnly(path) {
		noSuchRoute(c)
		return
	}
	a.forward(c, forward.Target{Role: route.Console, Repeatable: true}) // the server passes only GET and HEAD here
}

func rowsOnly(path string) bool {
	for _, prefix := range []string{"/api/", "/auth/", "/internal/", "/streams/"} {
		if strings.HasPrefix(path, prefix) {
			return true
		}
	}
	return false
}

func (a *API) forward(c *gin.Context, t forward.Target) {
	outcome, err := a.Forwarder.Serve(c.Writer, c.Request, t)
	if outcome.Address != "" {
		httpd.Note(c, slog.String("upstream", outcome.Address))
	}
	if outcome.Tries > 1 {
		httpd.Note(c, slog.Int("tries", outcome.Tries))
	}
	if err != nil {
		fail(c, t.Role, err)
	}
}

// refusal is the body of answers that carry a code.
type refusal struct {
	Error string `json:"error"`
	Code  string `json:"code"`
}

func noSuchRoute(c *gin.Context) {
	httpd.JSON(c, http.StatusNotFound, refusal{"Not Found", "no_such_route"})
}

// fail answers for a service that did not. It breaks the connection where an answer is impossible.
func fail(c *gin.Context, role route.Role, err error) {
	var unreachable *forward.UnreachableError
	var lost *forward.LostError
	var body *forward.BodyError
	switch {
	case errors.Is(err, forward.ErrDrained):
		httpd.NoContent(c)
	case errors.Is(err, forward.ErrClientGone):
		_ = c.Error(err) // for the log line; gin returns its own wrapper
		c.Status(statusClientGone)
		panic(http.ErrAbortHandler)
	case errors.Is(err, forward.ErrBroken):
		_ = c.Error(err)
		panic(http.ErrAbortHandler) // net/http's way to end a connection without ending the answer
	case errors.As(err, &body):
		httpd.Fail(c, bodyError(body))
	case errors.As(err, &unreachable):
		unavailable(c, err, refusal{fmt.Sprintf("no %s service is reachable", role), "upstream_unavailable"})
	case errors.As(err, &lost):
		text := fmt.Sprintf("the %s service ended the connection before it answered; what was asked may have happened", role)
		unavailable(c, err, refusal{text, "upstream_lost"})
	default:
		httpd.Fail(c, err)
	}
}

func unavailable(c *gin.Context, err error, answer refusal) {
	_ = c.Error(err)
	c.Header("Retry-After", fmt.Sprint(int(retryAfter.Seconds())))
	httpd.JSON(c, http.StatusServiceUnavailable, answer)
}

func bodyError(err *forward.BodyError) error {
	var tooLarge *http.MaxBytesError
	if errors.As(err, &tooLarge) {
		text := fmt.Sprintf("request body is larger than %d bytes", tooLarge.Limit)
		return &queue.Error{Kind: queue.KindTooLarge, Message: text, Err: err}
	}
	return &queue.Error{Kind: queue.KindInvalid, Field: "body", Message: "bad body: it could not be read", Err: err}
}
