package httpapi

import (
	"context"
	"time"

	"github.com/gin-gonic/gin"

	"queen.internal/pkg/seal"
	"queen.internal/pkg/store/deadletter"
	"queen.internal/pkg/store/inspect"
	"queen.internal/services/console/internal/messages"
)

// API is what the handlers call.
type API struct {
	DeadLetters *deadletter.Store
	Messages    *messages.Reader
	Inspect     *inspect.Store
	Keys        *seal.Keys    // open what was sealed; nil: nothing
	Timeout     time.Duration // of all reads of one request
}

// Handlers are the handlers by row name.
func (a *API) Handlers() map[string]gin.HandlerFunc {
	return map[string]gin.HandlerFunc{
		"dlq_list":     a.listDeadLetters,
		"message_list": a.listMessages,
		"message_get":  a.showMessage,
		"retention":    a.retention,
	}
}

// bounded is the request's context with the time that its reads have.
func (a *API) bounded(c *gin.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeout(c.Request.Context(), a.Timeout)
}

// opened is a stored payload as people may read it, and whether that is an envelope which no key opens.
func (a *API) opened(payload []byte) (data []byte, sealed bool) {
	data, outcome := a.Keys.Open(payload)
	return data, outcome == seal.Unopened
}
