package httpd

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"time"

	"github.com/gin-gonic/gin"

	"queen.internal/pkg/queue"
)

// statuses is the one table from kinds of error to HTTP. The contract knows neither 429 nor 502 and 504 from a role.
var statuses = map[queue.Kind]int{
	queue.KindInternal:     http.StatusInternalServerError,
	queue.KindInvalid:      http.StatusBadRequest,
	queue.KindNotFound:     http.StatusNotFound,
	queue.KindTooLarge:     http.StatusRequestEntityTooLarge,
	queue.KindUnauthorized: http.StatusUnauthorized,
	queue.KindForbidden:    http.StatusForbidden,
	queue.KindOverloaded:   http.StatusServiceUnavailable,
	queue.KindUnavailable:  http.StatusServiceUnavailable,
	queue.KindUnknown:      http.StatusServiceUnavailable,
}

// statusClientGone is for the log and the histogram alone: nobody is left to read it.
const statusClientGone = 499

// errorBody is the contract's error body: nothing but the text.
type errorBody struct {
	Error string `json:"error"`
}

// Fail answers with the status of err's kind, `{"error":...}` and, when err has one, Retry-After in whole seconds. The
// client reads the message of the first queue.Error in the chain; everything else in it is for the log. An error without
// a kind is a fault of ours and tells the client nothing. Fail after the response began only marks the log line.
func Fail(c *gin.Context, err error) {
	_ = c.Error(err) // observe logs it; gin returns its own wrapper
	if c.Writer.Written() {
		return
	}
	if c.Request.Context().Err() != nil && errors.Is(err, context.Canceled) {
		c.Status(statusClientGone)
		c.Writer.WriteHeaderNow()
		return
	}
	text := "internal error"
	var known *queue.Error
	if errors.As(err, &known) {
		text = known.Message
		if known.RetryAfter > 0 {
			seconds := (known.RetryAfter + time.Second - 1) / time.Second
			c.Header("Retry-After", strconv.FormatInt(int64(seconds), 10))
		}
	}
	JSON(c, statuses[queue.KindOf(err)], errorBody{text})
}

// JSON answers with v. A v that cannot be encoded is a fault of ours: 500.
func JSON(c *gin.Context, status int, v any) {
	var buf bytes.Buffer
	encoder := json.NewEncoder(&buf)
	encoder.SetEscapeHTML(false)
	if err := encoder.Encode(v); err != nil {
		Fail(c, fmt.Errorf("encode the response: %w", err))
		return
	}
	_ = Raw(c, status, bytes.TrimSuffix(buf.Bytes(), []byte("\n"))) // Raw has noted the error for the log
}

// Raw answers with body, which is JSON already. A nil error says that the server took the bytes, not that the client
// has them; Flush narrows that gap for whoever must know.
func Raw(c *gin.Context, status int, body []byte) error {
	header := c.Writer.Header()
	header["Content-Type"] = jsonType
	header.Set("Content-Length", strconv.Itoa(len(body)))
	c.Status(status)
	if _, err := c.Writer.Write(body); err != nil {
		err = fmt.Errorf("write the response: %w", err)
		_ = c.Error(err)
		return err
	}
	return nil
}

var jsonType = []string{"application/json"}

// Flush sends what was answered so far. The error says that the client can no longer be reached.
func Flush(c *gin.Context) error {
	inner, ok := c.Writer.(interface{ Unwrap() http.ResponseWriter })
	if !ok {
		return http.ErrNotSupported
	}
	c.Writer.WriteHeaderNow()
	// gin's own Flush drops the error, so this goes past it.
	if err := http.NewResponseController(inner.Unwrap()).Flush(); err != nil {
		return fmt.Errorf("flush the response: %w", err)
	}
	return nil
}

// NoContent answers 204, which has neither body nor Content-Length.
func NoContent(c *gin.Context) {
	c.Status(http.StatusNoContent)
	c.Writer.WriteHeaderNow()
}
