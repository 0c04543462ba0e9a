package httpd

import (
	"bytes"
	"context"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"net/url"
	"os"

	"github.com/gin-gonic/gin"
	"github.com/google/uuid"

	"queen.internal/pkg/queue"
	"queen.internal/pkg/route"
)

// serverKey finds the server in a request's context, tenantKey and notesKey what a request carries in gin's.
type (
	serverKey struct{}
	tenantKey struct{}
	notesKey  struct{}
)

func serverOf(ctx context.Context) *Server {
	s, _ := ctx.Value(serverKey{}).(*Server)
	return s
}

// Draining is closed when the stop begins: parked polls then answer at once, and new ones do not park.
func Draining(c *gin.Context) <-chan struct{} {
	if s := serverOf(c.Request.Context()); s != nil {
		return s.draining
	}
	return nil // a handler without a server, in a test: never
}

// Tenant is whose names the request means. While tenancy is off that is always queue.DefaultTenant.
func Tenant(c *gin.Context) uuid.UUID {
	if tenant, ok := c.Get(tenantKey{}); ok {
		return tenant.(uuid.UUID)
	}
	return queue.DefaultTenant
}

// tenantHeader is set by a trusted front door.
const tenantHeader = "x-queen-tenant"

// tenant reads the tenant of rows that have one.
func (s *Server) tenant(row route.Row) gin.HandlerFunc {
	return func(c *gin.Context) {
		if !s.o.Tenancy || !row.Tenant {
			return
		}
		values := c.Request.Header.Values(tenantHeader)
		if len(values) == 0 || len(values) == 1 && values[0] == "" {
			return
		}
		// Two headers mean that somebody besides the front door wrote one.
		tenant, err := uuid.Parse(values[0])
		if err != nil || len(values[0]) != len(tenant.String()) || len(values) > 1 {
			Fail(c, queue.Invalid(tenantHeader, "invalid x-queen-tenant header (must be a UUID)"))
			c.Abort()
			return
		}
		c.Set(tenantKey{}, tenant)
	}
}

// Param is the path parameter with that name, unescaped and checked as the name of a queue, partition or group. The
// error is of kind Invalid.
func Param(c *gin.Context, name string) (string, error) {
	value, err := url.PathUnescape(c.Param(name))
	if err != nil {
		return "", queue.Invalid(name, name+" is not percent-encoded correctly")
	}
	return value, queue.CheckName(name, value)
}

// firstRead is what is allocated on a client's word; more only as more arrives.
const firstRead = 512 << 10

// Body reads the whole request body. The caller owns it. The error is of kind TooLarge when the body is over the
// server's limit, else of kind Invalid: the client stopped sending. One with a kind that the body's reader gives is passed on.
func Body(c *gin.Context) ([]byte, error) {
	if c.Request.Body == nil {
		return nil, nil
	}
	var buf bytes.Buffer
	if n := c.Request.ContentLength; n > 0 {
		buf.Grow(int(min(n, firstRead)) + bytes.MinRead) // MinRead: ReadFrom wants that much room to see the end
	}
	_, err := buf.ReadFrom(c.Request.Body)
	var over *http.MaxBytesError
	var told *queue.Error
	switch {
	case err == nil:
		return buf.Bytes(), nil
	case errors.As(err, &over):
		return nil, tooLarge(over.Limit)
	case errors.As(err, &told): // of whoever has put a reader of its own there
		return nil, err
	case errors.Is(err, os.ErrDeadlineExceeded):
		return nil, badBody("nothing arrived for "+stallTimeout.String(), err)
	case errors.Is(err, io.ErrUnexpectedEOF):
		return nil, badBody("it ended early", err)
	default:
		return nil, badBody("it could not be read", err)
	}
}

func badBody(reason string, cause error) error {
	return &queue.Error{Kind: queue.KindInvalid, Field: "body", Message: "bad body: " + reason, Err: cause}
}

// Note adds facts to the request's log line.
func Note(c *gin.Context, attrs ...slog.Attr) {
	c.Set(notesKey{}, append(notes(c), attrs...))
}

func notes(c *gin.Context) []slog.Attr {
	noted, _ := c.Get(notesKey{})
	attrs, _ := noted.([]slog.Attr)
	return attrs
}
