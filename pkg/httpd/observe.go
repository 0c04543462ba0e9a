package httpd

import (
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"runtime/debug"
	"strconv"
	"time"

	"github.com/gin-gonic/gin"
	"github.com/prometheus/client_golang/prometheus"

	"queen.internal/pkg/logging"
	"queen.internal/pkg/route"
)

// durationBuckets reach from a push that meets an idle committer to the longest poll.
var durationBuckets = []float64{
	.0005, .001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 30, 60,
}

// observer measures and logs requests.
type observer struct {
	durations *prometheus.HistogramVec
	requests  *slog.Logger
	panics    *slog.Logger
}

func newObserver(o Options) (observer, error) {
	durations := prometheus.NewHistogramVec(prometheus.HistogramOpts{
		Name:    "queen_http_request_duration_seconds",
		Help:    "Time from the request's header to the end of its handler, by row of the route table.",
		Buckets: durationBuckets,
	}, []string{"route", "method", "code"})
	if err := o.Metrics.Registerer().Register(durations); err != nil {
		return observer{}, fmt.Errorf("register the request histogram: %w", err)
	}
	return observer{durations, logging.For(o.Logger, "http"), logging.For(o.Logger, "panic")}, nil
}

// observe measures and logs the row's requests, and turns a panic into a 500.
func (s *Server) observe(row route.Row) gin.HandlerFunc {
	return func(c *gin.Context) {
		began := time.Now()
		defer func() {
			broken := s.recovered(c, recover())
			s.observed.record(c, row, time.Since(began), broken)
			if broken {
				panic(http.ErrAbortHandler) // net/http closes the connection: the client must not take this for a whole answer
			}
		}()
		c.Next()
	}
}

// recovered deals with what a handler panicked with, nil when it did not. It reports whether an answer is broken off.
func (s *Server) recovered(c *gin.Context, panicked any) (broken bool) {
	if panicked == nil {
		return false
	}
	if err, ok := panicked.(error); ok && errors.Is(err, http.ErrAbortHandler) {
		return true
	}
	s.observed.panics.Error(fmt.Sprint(panicked), "method", c.Request.Method, "path", c.Request.URL.EscapedPath(),
		"stack", string(debug.Stack()))
	broken = c.Writer.Written()
	Fail(c, fmt.Errorf("panic: %v", panicked))
	return broken
}

func (o observer) record(c *gin.Context, row route.Row, took time.Duration, broken bool) {
	status, method := c.Writer.Status(), c.Request.Method
	label := method
	if row.Method == "" {
		label = "other" // anything may stand in a request line; labels must be few
	}
	o.durations.WithLabelValues(row.Name, label, strconv.Itoa(status)).Observe(took.Seconds())

	ctx, level := c.Request.Context(), levelOf(row, status, broken || len(c.Errors) > 0)
	if !o.requests.Enabled(ctx, level) {
		return
	}
	attrs := make([]slog.Attr, 0, 8)
	attrs = append(attrs, slog.String("method", method), slog.String("route", row.Name), slog.Int("status", status),
		slog.Int("bytes", max(c.Writer.Size(), 0)), slog.Float64("duration_ms", float64(took.Microseconds())/1000))
	if row.Method == "" {
		const shown = 200 // the rest of a long path would only fill the log
		path := c.Request.URL.EscapedPath()
		attrs = append(attrs, slog.String("path", path[:min(len(path), shown)]))
	}
	attrs = append(attrs, notes(c)...)
	if last := c.Errors.Last(); last != nil {
		attrs = append(attrs, slog.Any("err", last.Err))
	}
	o.requests.LogAttrs(ctx, level, "request", attrs...)
}

// levelOf keeps probes and the traffic that went well out of the log, where a line for each would cost as much as a push,
// and puts our faults above refusals.
func levelOf(row route.Row, status int, failed bool) slog.Level {
	switch {
	case row.Class == route.ClassHealth:
		return slog.LevelDebug
	case status == http.StatusServiceUnavailable:
		return slog.LevelWarn
	case status >= http.StatusInternalServerError:
		return slog.LevelError
	case status < http.StatusBadRequest && !failed && (row.Class == route.ClassPush || row.Class == route.ClassPop || row.Class == route.ClassAck):
		return slog.LevelDebug
	default:
		return slog.LevelInfo
	}
}
