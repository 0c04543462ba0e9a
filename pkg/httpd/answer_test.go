package httpd

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/gin-gonic/gin"

	"queen.internal/pkg/queue"
)

func TestStatusTableKnowsEveryKind(t *testing.T) {
	t.Parallel()
	want := map[queue.Kind]int{
		queue.KindInternal: 500, queue.KindInvalid: 400, queue.KindNotFound: 404, queue.KindTooLarge: 413, queue.KindUnauthorized: 401,
		queue.KindForbidden: 403, queue.KindOverloaded: 503, queue.KindUnavailable: 503, queue.KindUnknown: 503,
	}
	for kind := queue.KindInternal; named(kind); kind++ {
		if statuses[kind] == 0 || statuses[kind] != want[kind] {
			t.Errorf("kind %s answers %d, want %d", kind, statuses[kind], want[kind])
		}
	}
	if len(statuses) != len(want) {
		t.Errorf("the table has %d kinds, want %d", len(statuses), len(want))
	}
}

// named says whether the kind is in the closed list; the list has no other way to tell its end.
func named(kind queue.Kind) (ok bool) {
	defer func() { ok = recover() == nil }()
	return kind.String() != ""
}

func failing(t *testing.T, err error, edit ...func(*http.Request)) (answered, []string) {
	t.Helper()
	b := newBundle()
	b.options.Handlers["ack"] = func(c *gin.Context) { Fail(c, err) }
	got := call(b.server(t), "POST", "/api/v1/ack", edit...)
	return got, b.log.lines()
}

func TestFailTellsTheClientTheMessageAndTheLogTheCause(t *testing.T) {
	t.Parallel()
	cause := errors.New(`dial 10.0.0.1: "refused"`)
	for name, tc := range map[string]struct {
		err    error
		status int
		body   string
		retry  string
		logged string
	}{
		"kind": {
			queue.Invalid("batch", `batch "x" is not a number`), 400, `{"error":"batch \"x\" is not a number"}`, "",
			`INFO http: request method=POST route=ack status=400`,
		},
		"wrapped": {
			fmt.Errorf("claim: %w", queue.Unavailable("PostgreSQL is not reachable", 1500*time.Millisecond, cause)), 503,
			`{"error":"PostgreSQL is not reachable"}`, "2", `WARN http: request method=POST route=ack status=503`,
		},
		"overloaded": {queue.Overloaded("too many waiters", time.Nanosecond), 503, `{"error":"too many waiters"}`, "1", "WARN http:"},
		"no kind":    {cause, 500, `{"error":"internal error"}`, "", `ERROR http: request method=POST route=ack status=500`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got, lines := failing(t, tc.err)
			got.want(t, tc.status, tc.body)
			if retry := got.Header.Get("Retry-After"); retry != tc.retry {
				t.Errorf("Retry-After %q, want %q", retry, tc.retry)
			}
			if kind := got.Header.Get("Content-Type"); kind != "application/json" {
				t.Errorf("Content-Type %q", kind)
			}
			if len(lines) != 1 || !strings.HasPrefix(lines[0], tc.logged) || !strings.Contains(lines[0], "err=") {
				t.Errorf("log %q, want one line %s … err=…", lines, tc.logged)
			}
			if errors.Is(tc.err, cause) && (strings.Contains(got.Body, "10.0.0.1") || !strings.Contains(lines[0], "10.0.0.1")) {
				t.Errorf("the cause is in the wrong place: %s, %q", got.Body, lines)
			}
		})
	}
}

func TestFailForAClientThatLeftIsNoFaultOfOurs(t *testing.T) {
	t.Parallel()
	gone := func(r *http.Request) {
		ctx, cancel := context.WithCancel(r.Context())
		cancel()
		*r = *r.WithContext(ctx)
	}
	got, lines := failing(t, fmt.Errorf("claim: %w", context.Canceled), gone)
	got.want(t, statusClientGone, "")
	if len(lines) != 1 || !strings.HasPrefix(lines[0], "INFO http: request method=POST route=ack status=499") {
		t.Errorf("log %q", lines)
	}
	got, _ = failing(t, fmt.Errorf("claim: %w", context.Canceled)) // the client is there: something else was cancelled
	got.want(t, 500, `{"error":"internal error"}`)
}

func TestFailAfterTheAnswerBeganOnlyMarksTheLog(t *testing.T) {
	t.Parallel()
	b := newBundle()
	b.options.Handlers["ack"] = func(c *gin.Context) {
		JSON(c, http.StatusOK, "done")
		Fail(c, errors.New("too late"))
	}
	call(b.server(t), "POST", "/api/v1/ack").want(t, 200, `"done"`)
	if lines := b.log.lines(); len(lines) != 1 || !strings.Contains(lines[0], `status=200 bytes=6`) || !strings.Contains(lines[0], `err="too late"`) {
		t.Errorf("log %q", lines)
	}
}

func TestJSONKeepsTextReadableAndFailsWhenItCannotEncode(t *testing.T) {
	t.Parallel()
	b := newBundle()
	var v any
	b.options.Handlers["ack"] = func(c *gin.Context) { JSON(c, http.StatusCreated, v) }
	s := b.server(t)
	v = map[string]string{"text": "<a&b> \u2028 \"é\" \x01"}
	call(s, "POST", "/api/v1/ack").want(t, 201, `{"text":"<a&b> \u2028 \"é\" \u0001"}`)
	v = math.Inf(1)
	call(s, "POST", "/api/v1/ack").want(t, 500, `{"error":"internal error"}`)
}

func TestNoContentHasNeitherBodyNorLength(t *testing.T) {
	t.Parallel()
	b := newBundle()
	b.options.Handlers["ack"] = NoContent
	got := call(b.server(t), "POST", "/api/v1/ack")
	got.want(t, 204, "")
	if len(got.Header) != 0 {
		t.Errorf("headers %v", got.Header)
	}
}

func TestBodyIsReadWholeAndBounded(t *testing.T) {
	t.Parallel()
	b := newBundle()
	b.options.Handlers["ack"] = func(c *gin.Context) {
		body, err := Body(c)
		if err != nil {
			Fail(c, err)
			return
		}
		c.String(http.StatusOK, "%s", body)
	}
	s := b.server(t)
	fits, over := strings.Repeat("x", 1000), strings.Repeat("x", 1001)
	const tooLarge = `{"error":"request body is larger than 1000 bytes"}`
	unsized := func(r *http.Request) { r.ContentLength = -1 }
	call(s, "POST", "/api/v1/ack").want(t, 200, "")
	call(s, "POST", "/api/v1/ack", withBody(fits)).want(t, 200, fits)
	call(s, "POST", "/api/v1/ack", withBody(fits), unsized).want(t, 200, fits)
	call(s, "POST", "/api/v1/ack", withBody(over), unsized).want(t, 413, tooLarge)
	got := call(s, "POST", "/api/v1/ack", withBody(over))
	got.want(t, 413, tooLarge)
	if got.Header.Get("Connection") != "close" {
		t.Error("the connection is kept although the body may be on its way")
	}
	broken := func(r *http.Request) {
		r.Body, r.ContentLength = io.NopCloser(io.MultiReader(strings.NewReader("{"), brokenReader{})), 10
	}
	call(s, "POST", "/api/v1/ack", broken).want(t, 400, `{"error":"bad body: it ended early"}`)

	b = newBundle()
	b.options.MaxBodyBytes = 0
	call(b.server(t), "POST", "/api/v1/ack", withBody(over)).want(t, 200, `"ack"`)
}

type brokenReader struct{}

func (brokenReader) Read([]byte) (int, error) { return 0, io.ErrUnexpectedEOF }

func TestEncodedBodiesAreRefused(t *testing.T) {
	t.Parallel()
	s := newBundle().server(t)
	for _, encoding := range []string{"gzip", "deflate", "gzip, identity", "br"} {
		call(s, "POST", "/api/v1/ack", withBody("{}"), withHeader("Content-Encoding", encoding)).
			want(t, 415, `{"error":"Content-Encoding `+encoding+` is not supported, send the body as it is"}`)
	}
	for _, encoding := range []string{"identity", "Identity", " "} {
		call(s, "POST", "/api/v1/ack", withBody("{}"), withHeader("Content-Encoding", encoding)).want(t, 200, `"ack"`)
	}
}
