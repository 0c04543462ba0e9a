package httpd

import (
	"log/slog"
	"net/http"
	"net/http/httptest"
	"regexp"
	"strings"
	"testing"

	"github.com/gin-gonic/gin"
	"github.com/google/go-cmp/cmp"

	"queen.internal/pkg/logging"
)

func TestEveryRequestIsOneLogLine(t *testing.T) {
	t.Parallel()
	b := newBundle()
	b.options.Handlers["ack"] = func(c *gin.Context) {
		Note(c, slog.Int("items", 3))
		Note(c, slog.String("queue", "a b"))
		JSON(c, http.StatusOK, "x")
	}
	s := b.server(t)
	call(s, "POST", "/api/v1/ack")
	call(s, "GET", "/api/v1/pop")
	call(s, "GET", "/api/v1/pop?batch=1&wait=true")
	call(s, "GET", "/health")
	call(s, "DELETE", "/api/v1/nothing%20here/"+strings.Repeat("x", 300))
	call(s, "POST", "/api/v1/push")
	want := []string{
		`DEBUG http: request method=POST route=ack status=200 bytes=3 duration_ms=N items=3 queue="a b"`,
		`DEBUG http: request method=GET route=pop_discover status=200 bytes=14 duration_ms=N`,
		`DEBUG http: request method=GET route=pop_discover status=200 bytes=14 duration_ms=N`,
		`DEBUG http: request method=GET route=health status=200 bytes=83 duration_ms=N`,
		`INFO http: request method=DELETE route=unmatched status=404 bytes=44 duration_ms=N path=/api/v1/nothing%20here/` + strings.Repeat("x", 177),
		`INFO http: request method=POST route=push status=404 bytes=76 duration_ms=N`,
	}
	duration := regexp.MustCompile(`duration_ms=[0-9.e-]+`)
	got := b.log.lines()
	for i := range got {
		got[i] = duration.ReplaceAllString(got[i], "duration_ms=N")
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("lines (-want +got):\n%s", diff)
	}
}

func TestRequestsCanBeLeftOutOfTheLog(t *testing.T) {
	t.Parallel()
	b := newBundle()
	b.options.Logger = logging.New(b.log, logging.Settings{Filter: "info,http=warn"})
	s := b.server(t)
	call(s, "POST", "/api/v1/ack")
	if lines := b.log.lines(); lines != nil {
		t.Errorf("logged %q", lines)
	}
}

func TestRequestsAreMeasuredByRow(t *testing.T) {
	t.Parallel()
	b := newBundle()
	s := b.server(t)
	call(s, "GET", "/api/v1/pop/queue/one")
	call(s, "GET", "/api/v1/pop/queue/two")
	call(s, "HEAD", "/livez")
	for _, method := range []string{"A", "B", "GET"} {
		call(s, method, "/api/v1/nothing/"+method)
	}
	w := httptest.NewRecorder()
	b.options.Metrics.Handler().ServeHTTP(w, httptest.NewRequest("GET", "/", http.NoBody))
	got := regexp.MustCompile(`(?m)^queen_http_request_duration_seconds_count.*$`).FindAllString(w.Body.String(), -1)
	want := []string{
		`queen_http_request_duration_seconds_count{code="200",method="GET",route="pop_queue"} 2`,
		`queen_http_request_duration_seconds_count{code="200",method="HEAD",route="livez"} 1`,
		`queen_http_request_duration_seconds_count{code="404",method="other",route="unmatched"} 3`,
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("series (-want +got):\n%s", diff)
	}
}

func TestPanicAnswers500AndIsLoggedWithItsStack(t *testing.T) {
	t.Parallel()
	b := newBundle()
	b.options.Handlers["ack"] = func(*gin.Context) { panic("no\nway") }
	call(b.server(t), "POST", "/api/v1/ack").want(t, 500, `{"error":"internal error"}`)
	lines := b.log.lines()
	if len(lines) != 2 || !strings.HasPrefix(lines[0], `ERROR panic: no\nway method=POST path=/api/v1/ack stack=`) ||
		!strings.Contains(lines[0], "observe_test.go") || !strings.HasPrefix(lines[1], `ERROR http: request method=POST route=ack status=500`) {
		t.Errorf("log %q", lines)
	}
}

func TestPanicAfterTheAnswerBeganBreaksTheConnection(t *testing.T) {
	t.Parallel()
	for name, handler := range map[string]gin.HandlerFunc{
		"panic": func(c *gin.Context) { c.String(http.StatusOK, "half"); panic("no way") },
		"abort": func(*gin.Context) { panic(http.ErrAbortHandler) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newBundle()
			b.options.Handlers["ack"] = handler
			s := b.server(t)
			defer func() {
				if recovered := recover(); recovered != http.ErrAbortHandler {
					t.Errorf("net/http gets %v", recovered)
				}
				if lines := b.log.lines(); !strings.HasPrefix(lines[len(lines)-1], "INFO http: request method=POST route=ack status=200") {
					t.Errorf("log %q", lines)
				}
			}()
			call(s, "POST", "/api/v1/ack")
		})
	}
}
