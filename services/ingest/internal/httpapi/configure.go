package httpapi

import (
	"context"
	"log/slog"
	"net/http"
	"time"

	"github.com/gin-gonic/gin"

	"queen.internal/pkg/httpd"
	"queen.internal/pkg/queue"
	"queen.internal/pkg/wire"
)

// configureTimeout bounds waiting for a connection and for the queue's row, which is waited for shorter than this: a
// lock in the way is then told as one.
const configureTimeout = 5 * time.Second

// optionBytes is about how long an answer is without its names.
const optionBytes = 640

// configure changes a queue's options, creating the queue when there is none, and answers with all that are in force.
func (a *API) configure(c *gin.Context) {
	body, err := httpd.Body(c)
	if err != nil {
		httpd.Fail(c, err)
		return
	}
	request, err := wire.ScanConfigure(body)
	if err != nil {
		refuseOption(c, err)
		return
	}
	httpd.Note(c, slog.String("queue", request.Queue))
	answer, err := a.change(c, request)
	if err != nil {
		httpd.Fail(c, err)
		return
	}
	_ = httpd.Raw(c, http.StatusOK, answer) // Raw notes the error for the log, and nobody else can use it
}

func (a *API) change(c *gin.Context, request wire.ConfigureRequest) ([]byte, error) {
	if wants := request.Change.EncryptionEnabled; wants != nil && *wants && !a.KeyPresent {
		// Taking it would let pushes fail later, far from whoever asked for it.
		return nil, queue.Invalid("encryptionEnabled", "encryptionEnabled needs a key, and this server has none (QUEEN_ENCRYPTION_KEY)")
	}
	if err := a.Ready(); err != nil {
		return nil, notReady("configure queues", err)
	}
	ctx, cancel := context.WithTimeout(c.Request.Context(), configureTimeout)
	defer cancel()
	configured, err := a.Queues.Configure(ctx, httpd.Tenant(c), request.Queue, request.Change)
	if err != nil {
		return nil, explained("configure the queue", err)
	}
	a.Changed(httpd.Tenant(c), request.Queue, false)
	answer := make([]byte, 0, optionBytes+2*len(request.Queue))
	return wire.AppendConfigured(answer, &wire.Configured{ID: configured.ID, Queue: request.Queue, Options: configured.Options}), nil
}

// refuseOption is httpd.Fail, but for the options whose refusal has a body of its own.
func refuseOption(c *gin.Context, err error) {
	if body, own := wire.AppendConfigureFault(nil, err); own {
		_ = c.Error(err) // observed by the log
		_ = httpd.Raw(c, http.StatusBadRequest, body)
		return
	}
	httpd.Fail(c, err)
}
