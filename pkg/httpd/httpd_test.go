package httpd

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"strings"
	"sync"
	"testing"

	"github.com/gin-gonic/gin"
	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"

	"queen.internal/pkg/health"
	"queen.internal/pkg/logging"
	"queen.internal/pkg/metrics"
	"queen.internal/pkg/route"
)

func TestMain(m *testing.M) {
	if os.Getenv("GIN_MODE") == "" {
		gin.SetMode(gin.ReleaseMode)
	}
	// net/http lets a connection linger for half a second before it closes it; that is longer than goleak waits.
	goleak.VerifyTestMain(m, goleak.IgnoreAnyFunction("net/http.(*conn).closeWriteAndWait"))
}

// logBuffer is where a server under test logs.
type logBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *logBuffer) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *logBuffer) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

// lines are the log lines without their times.
func (l *logBuffer) lines() []string {
	var lines []string
	for line := range strings.Lines(l.String()) {
		_, rest, _ := strings.Cut(strings.TrimSpace(line), " ")
		lines = append(lines, rest)
	}
	return lines
}

// bundle is a deliver service with handlers that tests replace.
type bundle struct {
	options Options
	log     *logBuffer
}

func newBundle() *bundle {
	b := &bundle{log: &logBuffer{}}
	handlers := map[string]gin.HandlerFunc{}
	for _, row := range route.Table {
		if row.Role == route.Deliver {
			handlers[row.Name] = func(c *gin.Context) { JSON(c, http.StatusOK, row.Name) }
		}
	}
	b.options = Options{
		Role: route.Deliver, Logger: logging.New(b.log, logging.Settings{Filter: "trace"}), Metrics: metrics.New("deliver", "test"),
		Health: health.New(health.Options{Version: "test"}), Addr: "127.0.0.1:0", MaxBodyBytes: 1000, Handlers: handlers,
	}
	return b
}

func (b *bundle) server(t *testing.T) *Server {
	t.Helper()
	s, err := New(b.options)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// answered is what a client sees.
type answered struct {
	Status int
	Body   string
	Header http.Header
}

func call(s *Server, method, target string, edit ...func(*http.Request)) answered {
	r := httptest.NewRequest(method, target, http.NoBody)
	for _, f := range edit {
		f(r)
	}
	w := httptest.NewRecorder()
	s.Handler().ServeHTTP(w, r)
	return answered{w.Code, w.Body.String(), w.Header()}
}

func withBody(body string) func(*http.Request) {
	return func(r *http.Request) {
		with := httptest.NewRequest(r.Method, r.URL.String(), strings.NewReader(body))
		r.Body, r.ContentLength = with.Body, with.ContentLength
	}
}

func withHeader(name string, values ...string) func(*http.Request) {
	return func(r *http.Request) { r.Header[http.CanonicalHeaderKey(name)] = values }
}

func (a answered) want(t *testing.T, status int, body string) {
	t.Helper()
	if a.Status != status || a.Body != body {
		t.Errorf("got  %d %s\nwant %d %s", a.Status, a.Body, status, body)
	}
}

// pathOf is a path that the row matches.
func pathOf(row route.Row) string {
	segments := strings.Split(row.Path, "/")
	for i, segment := range segments {
		if strings.HasPrefix(segment, ":") {
			segments[i] = "some-" + segment[1:]
		}
	}
	return strings.Join(segments, "/")
}

func TestEveryRowOfTheTableIsMountedForEveryRole(t *testing.T) {
	t.Parallel()
	for _, role := range []route.Role{route.Ingest, route.Deliver, route.Maintainer, route.Console} {
		t.Run(string(role), func(t *testing.T) {
			t.Parallel()
			b := newBundle()
			b.options.Role, b.options.Handlers = role, map[string]gin.HandlerFunc{}
			for _, row := range route.Table {
				if row.Role == role {
					b.options.Handlers[row.Name] = func(c *gin.Context) { JSON(c, http.StatusOK, row.Name) }
				}
			}
			s := b.server(t)
			for _, row := range route.Table {
				got := call(s, row.Method, pathOf(row))
				switch row.Role {
				case role:
					got.want(t, http.StatusOK, `"`+row.Name+`"`)
				case route.Every:
					if got.Status != http.StatusOK {
						t.Errorf("%s answers %d %s", row.Name, got.Status, got.Body)
					}
				default:
					got.want(t, http.StatusNotFound,
						`{"error":"`+pathOf(row)+` is served by the `+string(row.Role)+` service","code":"wrong_role"}`)
				}
			}
		})
	}
}

// toldMesh is a mesh that says who was asked. It closes drained, unless that is nil, when it is told of a stop.
type toldMesh struct{ drained chan struct{} }

func (m toldMesh) Drain() {
	if m.drained != nil {
		close(m.drained)
	}
}

func (toldMesh) ServeStats(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte("stats")) }

func (toldMesh) ServeSharedState(w http.ResponseWriter, _ *http.Request) {
	_, _ = w.Write([]byte("state"))
}

func TestTheMeshAnswersForItselfAndWithoutOneItIsSaidToBeOff(t *testing.T) {
	t.Parallel()
	off := `{"enabled":false,"reason":"%s","maintenance_mode":false,"pop_maintenance_mode":false}`
	with, without := newBundle(), newBundle()
	with.options.Mesh = toldMesh{}
	told, silent := with.server(t), without.server(t)
	for path, want := range map[string]struct{ on, reason string }{
		"/api/v1/system/shared-state":        {"state", "single_node_segments_broker"},
		"/internal/api/shared-state/stats":   {"stats", "no_peers"},
		"/internal/api/inter-instance/stats": {"stats", "no_peers"},
	} {
		call(told, http.MethodGet, path).want(t, http.StatusOK, want.on)
		call(silent, http.MethodGet, path).want(t, http.StatusOK, fmt.Sprintf(off, want.reason))
	}
}

func TestNewRefusesRowsWithoutHandlersAndHandlersWithoutRows(t *testing.T) {
	t.Parallel()
	handler := func(*gin.Context) {}
	for name, tc := range map[string]struct {
		edit func(handlers map[string]gin.HandlerFunc)
		want string
	}{
		"row without handler":           {func(h map[string]gin.HandlerFunc) { delete(h, "ack") }, "route ack of deliver has no handler"},
		"row with a nil handler":        {func(h map[string]gin.HandlerFunc) { h["ack"] = nil }, "route ack of deliver has no handler"},
		"handler without row":           {func(h map[string]gin.HandlerFunc) { h["nack"] = handler }, "handler nack is for no route of deliver"},
		"handler of another role's row": {func(h map[string]gin.HandlerFunc) { h["push"] = handler }, "handler push is for no route of deliver"},
		"handler of a row of everybody": {func(h map[string]gin.HandlerFunc) { h["health"] = handler }, "handler health is for no route of deliver"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newBundle()
			tc.edit(b.options.Handlers)
			if _, err := New(b.options); err == nil || err.Error() != tc.want {
				t.Errorf("got %v, want %s", err, tc.want)
			}
		})
	}
}

func TestRowsOfEveryServiceAnswerWithTheirProbes(t *testing.T) {
	t.Parallel()
	s := newBundle().server(t)
	call(s, "GET", "/health").want(t, 200, `{"status":"healthy","database":"connected","engine":"segments-go","version":"test"}`)
	call(s, "GET", "/livez").want(t, 200, `{"status":"ok"}`)
	call(s, "GET", "/readyz").want(t, 200, `{"status":"ready","version":"test","reasons":[]}`)
	call(s, "GET", "/status").want(t, 200, `{"status":"ok","engine":"segments-go"}`)
	if got := call(s, "HEAD", "/health"); got.Status != 200 {
		t.Errorf("HEAD /health answers %d", got.Status)
	}
	if got := call(s, "GET", "/metrics/prometheus"); got.Status != 200 || !strings.Contains(got.Body, "queen_build_info") {
		t.Errorf("metrics answer %d %.100s", got.Status, got.Body)
	}
}

func TestUnknownPathsAndVerbsAnswerJSON(t *testing.T) {
	t.Parallel()
	s := newBundle().server(t)
	const unknown = `{"error":"Not Found","code":"no_such_route"}`
	for _, target := range []string{
		"/api/v1/nothing", "/api/", "/auth/me2", "/", "/nothing", "/api/v1/pop/", "/api/v1/pop/queue/", "//api/v1/pop",
		"/api/v1/p%6Fp", "/api/v1/pop%2Fqueue/a", "/api/v1/pop/queue/a/partition", "/API/v1/pop",
	} {
		for _, method := range []string{"GET", "POST", "DELETE", "BREW"} {
			call(s, method, target).want(t, http.StatusNotFound, unknown)
		}
	}
	for _, tc := range []struct{ method, target, allow, body string }{
		{"DELETE", "/api/v1/ack", "POST", `{"error":"/api/v1/ack does not take DELETE, only POST"}`},
		{"POST", "/api/v1/pop/queue/a%22b", "GET", `{"error":"/api/v1/pop/queue/a%22b does not take POST, only GET"}`},
		{"HEAD", "/api/v1/pop", "GET", `{"error":"/api/v1/pop does not take HEAD, only GET"}`},
		{"GET", "/api/v1/push", "POST", `{"error":"/api/v1/push does not take GET, only POST"}`},
		{"POST", "/health", "GET, HEAD", `{"error":"/health does not take POST, only GET, HEAD"}`},
	} {
		got := call(s, tc.method, tc.target)
		got.want(t, http.StatusMethodNotAllowed, tc.body)
		if allow := got.Header.Get("Allow"); allow != tc.allow {
			t.Errorf("%s %s: Allow %q, want %q", tc.method, tc.target, allow, tc.allow)
		}
	}
}

func TestFallbackTakesReadsOutsideTheAPI(t *testing.T) {
	t.Parallel()
	b := newBundle()
	b.options.Fallback = func(c *gin.Context) { c.String(http.StatusOK, "page") }
	s := b.server(t)
	call(s, "GET", "/").want(t, 200, "page")
	call(s, "GET", "/queues/a%2Fb").want(t, 200, "page")
	call(s, "GET", "/api").want(t, 200, "page")
	const unknown = `{"error":"Not Found","code":"no_such_route"}`
	call(s, "GET", "/api/v1/nothing").want(t, 404, unknown)
	call(s, "POST", "/queues").want(t, 404, unknown)
}

func TestForeignRowsGoToTheirHandlerWithTheRawPath(t *testing.T) {
	t.Parallel()
	b := newBundle()
	b.options.Foreign = func(row route.Row) gin.HandlerFunc {
		return func(c *gin.Context) { c.String(http.StatusOK, "%s %s", row.Name, c.Request.RequestURI) }
	}
	s := b.server(t)
	call(s, "POST", "/api/v1/push?a=%2F", withHeader("Content-Encoding", "gzip")).want(t, 200, "push /api/v1/push?a=%2F")
	call(s, "GET", "/api/v1/pop").want(t, 200, `"pop_discover"`)
}

func TestNamesInPathsSurviveEveryEncoding(t *testing.T) {
	t.Parallel()
	b := newBundle()
	type names struct{ Queue, Partition string }
	b.options.Handlers["pop_partition"] = func(c *gin.Context) {
		var n names
		var err error
		if n.Queue, err = Param(c, "queue"); err == nil {
			n.Partition, err = Param(c, "partition")
		}
		if err != nil {
			Fail(c, err)
			return
		}
		JSON(c, http.StatusOK, n)
	}
	s := b.server(t)
	for target, want := range map[string]names{
		"/a/partition/b":                     {"a", "b"},
		"/a%2Fb/partition/c%2fd":             {"a/b", "c/d"},
		"/a+b/partition/a%2Bb":               {"a+b", "a+b"},
		"/a%20b/partition/100%25":            {"a b", "100%"},
		"/%C3%A9/partition/é":                {"é", "é"},
		"/a%2F\u00e9\u65e5/partition/x%2Fy|": {"a/é日", "x/y|"},
		"/%22%3C%3E/partition/a%3Fb%23c":     {`"<>`, "a?b#c"},
		"/partition/partition/partition":     {"partition", "partition"},
		"/%252F/partition/a:b@c;d=e,f":       {"%2F", "a:b@c;d=e,f"},
		"/../partition/%2e%2e":               {"..", ".."},
	} {
		got := call(s, "GET", "/", func(r *http.Request) {
			u, err := r.URL.Parse("http://h/")
			if err != nil {
				t.Fatal(err)
			}
			// What a server does with the request line, without the cleaning that clients do.
			if u.Path, err = url.PathUnescape("/api/v1/pop/queue" + target); err != nil {
				t.Fatal(err)
			}
			u.RawPath = "/api/v1/pop/queue" + target
			r.URL = u
		})
		var n names
		if err := json.Unmarshal([]byte(got.Body), &n); err != nil || got.Status != 200 {
			t.Errorf("%s answers %d %s", target, got.Status, got.Body)
		} else if diff := cmp.Diff(want, n); diff != "" {
			t.Errorf("%s (-want +got):\n%s", target, diff)
		}
	}
	call(s, "GET", "/api/v1/pop/queue/a%00b/partition/c").want(t, 400, `{"error":"queue contains a control character"}`)
	call(s, "GET", "/api/v1/pop/queue/a/partition/%ff").want(t, 400, `{"error":"partition is not valid UTF-8"}`)
	call(s, "GET", "/api/v1/pop/queue/"+strings.Repeat("a", 2049)+"/partition/c").
		want(t, 400, `{"error":"queue is 2049 bytes long, at most 2048 are allowed"}`)
}

func TestTenantComesFromTheHeaderOnlyWhenItIsBelieved(t *testing.T) {
	t.Parallel()
	const (
		standard = "00000000-0000-0000-0000-000000000001"
		given    = "01990a10-7c1e-7b60-9f10-2f6c0a4b8d11"
		refused  = `{"error":"invalid x-queen-tenant header (must be a UUID)"}`
	)
	for _, tc := range []struct {
		tenancy bool
		headers []string
		status  int
		body    string
	}{
		{false, nil, 200, `"` + standard + `"`},
		{false, []string{given}, 200, `"` + standard + `"`},
		{false, []string{"nonsense"}, 200, `"` + standard + `"`},
		{true, nil, 200, `"` + standard + `"`},
		{true, []string{""}, 200, `"` + standard + `"`},
		{true, []string{given}, 200, `"` + given + `"`},
		{true, []string{strings.ToUpper(given)}, 200, `"` + given + `"`},
		{true, []string{"nonsense"}, 400, refused},
		{true, []string{"{" + given + "}"}, 400, refused},
		{true, []string{strings.ReplaceAll(given, "-", "")}, 400, refused},
		{true, []string{given, standard}, 400, refused},
	} {
		b := newBundle()
		b.options.Tenancy = tc.tenancy
		b.options.Handlers["ack"] = func(c *gin.Context) { JSON(c, http.StatusOK, Tenant(c)) }
		call(b.server(t), "POST", "/api/v1/ack", withHeader("X-Queen-Tenant", tc.headers...)).want(t, tc.status, tc.body)
	}
	b := newBundle()
	b.options.Tenancy = true
	if got := call(b.server(t), "GET", "/health", withHeader("X-Queen-Tenant", "nonsense")); got.Status != 200 {
		t.Errorf("a route without tenant answers %d", got.Status)
	}
}

func TestHandlersWithoutAServerNeverDrain(t *testing.T) {
	t.Parallel()
	c, _ := gin.CreateTestContext(httptest.NewRecorder())
	c.Request = httptest.NewRequestWithContext(context.Background(), "GET", "/", http.NoBody)
	if Draining(c) != nil {
		t.Error("a channel nobody closes was given")
	}
}
