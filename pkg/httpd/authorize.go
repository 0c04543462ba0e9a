package httpd

import (
	"net/http"

	"github.com/gin-gonic/gin"

	"queen.internal/pkg/queue"
	"queen.internal/pkg/route"
)

// subjectKey finds who calls in gin's context.
type subjectKey struct{}

// Subject is the claim sub of the token that the request was let in with. It is empty while authentication is off, on
// routes that are open, and when the token has none: then nobody knows who calls, whatever the request says.
func Subject(c *gin.Context) string {
	subject, _ := c.Get(subjectKey{})
	text, _ := subject.(string)
	return text
}

// authorize lets a request go on when its token reaches to the row's level. It comes before everything that looks at the
// request, so a refusal tells nothing but itself.
func (s *Server) authorize(row route.Row) gin.HandlerFunc {
	if s.o.Auth == nil {
		return func(*gin.Context) {}
	}
	return func(c *gin.Context) {
		path, level := c.Request.URL.EscapedPath(), row.Level
		if level == "" {
			level = route.LevelOf(c.Request.Method, path) // no row has this path or this method
		}
		identity, err := s.o.Auth.Check(c.GetHeader("Authorization"), path, level)
		if err != nil {
			if queue.KindOf(err) == queue.KindUnauthorized {
				c.Header("WWW-Authenticate", "Bearer")
			}
			// A body that was announced is not read: nobody may make us take 64 MiB to be told that they may not push.
			if c.Request.Body != nil && c.Request.Body != http.NoBody {
				c.Header("Connection", "close")
			}
			Fail(c, err)
			c.Abort()
			return
		}
		if identity.Subject != "" {
			c.Set(subjectKey{}, identity.Subject)
		}
	}
}
