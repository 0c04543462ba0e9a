package httpapi

import (
	"log/slog"
	"net/http"

	"github.com/gin-gonic/gin"

	"queen.internal/pkg/httpd"
	"queen.internal/pkg/wire"
)

// notify has everybody who waits for a queue look for work, here and at other processes, as if there had been a push that
// nobody told of.
func (a *API) notify(c *gin.Context) {
	body, err := httpd.Body(c)
	if err != nil {
		httpd.Fail(c, err)
		return
	}
	queue, err := wire.ScanNotify(body)
	if err != nil {
		httpd.Fail(c, err)
		return
	}
	httpd.Note(c, slog.String("queue", queue))
	a.News.Changed(httpd.Tenant(c), queue, "")
	_ = httpd.Raw(c, http.StatusOK, []byte(`{"status":"ok"}`)) // Raw has noted the error for the log
}
