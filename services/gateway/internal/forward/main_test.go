package forward_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"queen.internal/pkg/route"
	"queen.internal/services/gateway/internal/forward"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// safetyNet is long enough for a busy machine; no test waits for it unless it fails.
const safetyNet = 20 * time.Second

// edge is a Forwarder behind a real listener, with a client.
type edge struct {
	*forward.Forwarder
	url    string
	logs   *logs
	ends   chan end // what each Serve returned
	client *http.Client
}

type end struct {
	outcome forward.Outcome
	err     error
}

// startEdge forwards every request to the role that the first path segment names; pops are what deliver gets by GET.
func startEdge(t *testing.T, bases map[route.Role][]forward.Base, adjust ...func(*forward.Options)) *edge {
	t.Helper()
	e := &edge{logs: newLogs(), ends: make(chan end, 4096)}
	o := forward.Default(slog.New(e.logs))
	o.Bases = bases
	o.ProbeEvery = 10 * time.Millisecond
	for _, f := range adjust {
		f(&o)
	}
	e.Forwarder = forward.New(o)
	if err := e.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	stopped := make(chan error, 1)
	go func() { stopped <- e.Run(ctx) }()

	server := httptest.NewUnstartedServer(http.HandlerFunc(e.serve))
	server.Config.ConnContext = func(ctx context.Context, _ net.Conn) context.Context { return forward.WithPin(ctx) }
	server.Config.ErrorLog = slog.NewLogLogger(slog.DiscardHandler, slog.LevelError)
	server.Start()
	e.url = server.URL
	e.client = server.Client()
	t.Cleanup(func() {
		e.client.CloseIdleConnections()
		server.Close()
		cancel()
		if err := <-stopped; err != nil {
			t.Errorf("Run ended with %v", err)
		}
	})
	return e
}

func (e *edge) serve(w http.ResponseWriter, r *http.Request) {
	outcome, err := e.Serve(w, r, targetOf(r))
	defer func() { e.ends <- end{outcome: outcome, err: err} }()
	switch {
	case err == nil:
	case errors.Is(err, forward.ErrBroken), errors.Is(err, forward.ErrClientGone):
		panic(http.ErrAbortHandler)
	case errors.Is(err, forward.ErrDrained):
		w.WriteHeader(http.StatusNoContent)
	default:
		if body := new(forward.BodyError); errors.As(err, &body) {
			http.Error(w, err.Error(), http.StatusRequestEntityTooLarge)
			return
		}
		http.Error(w, err.Error(), http.StatusServiceUnavailable)
	}
}

// targetOf reads /push..., /pop..., /manage... and anything else as a plain request to deliver.
func targetOf(r *http.Request) forward.Target {
	path := forward.RawPath(r)
	switch {
	case strings.HasPrefix(path, "/push"):
		return forward.To(route.Row{Role: route.Ingest, Class: route.ClassPush}, r.Method)
	case strings.HasPrefix(path, "/pop"):
		return forward.To(route.Row{Role: route.Deliver, Class: route.ClassPop}, r.Method)
	case strings.HasPrefix(path, "/manage"):
		return forward.To(route.Row{Role: route.Deliver, Class: route.ClassManage}, r.Method)
	}
	return forward.Target{Role: route.Deliver}
}

// get sends a GET and returns status and body.
func (e *edge) get(t *testing.T, path string) (int, string) {
	t.Helper()
	return e.do(t, http.MethodGet, path, nil)
}

func (e *edge) do(t *testing.T, method, path string, body io.Reader) (int, string) {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), method, e.url+path, body)
	if err != nil {
		t.Fatal(err)
	}
	answer, err := e.client.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	if err != nil {
		t.Fatal(err)
	}
	return answer.StatusCode, string(text)
}

// ended is the next Serve's end.
func (e *edge) ended(t *testing.T) end {
	t.Helper()
	return receive(t, e.ends, "the end of a request")
}

// service starts an HTTP server that is ready and healthy and answers everything else with handler.
func service(t *testing.T, handler http.HandlerFunc) *httptest.Server {
	t.Helper()
	server := httptest.NewUnstartedServer(probed(handler))
	server.Config.ErrorLog = slog.NewLogLogger(slog.DiscardHandler, slog.LevelError)
	server.Start()
	t.Cleanup(server.Close)
	return server
}

func probed(handler http.HandlerFunc) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/readyz":
		case "/health":
			fmt.Fprint(w, `{"status":"healthy","database":"connected","engine":"segments-go","version":"test"}`)
		default:
			handler(w, r)
		}
	})
}

func named(name string) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		fmt.Fprint(w, name)
	}
}

func base(t *testing.T, url string) forward.Base {
	t.Helper()
	b, err := forward.ParseBase(url)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func one(t *testing.T, role route.Role, urls ...string) map[route.Role][]forward.Base {
	t.Helper()
	var bases []forward.Base
	for _, url := range urls {
		bases = append(bases, base(t, url))
	}
	return map[route.Role][]forward.Base{role: bases}
}

// closedAddress is the URL of a port that nothing listens on.
func closedAddress(t *testing.T) string {
	t.Helper()
	l := listen(t, "127.0.0.1:0")
	_ = l.Close()
	return "http://" + l.Addr().String()
}

func listen(t *testing.T, address string) net.Listener {
	t.Helper()
	l, err := net.Listen("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	return l
}

// rawService answers readiness probes, and hands every other request to script with its connection, head lines read.
func rawService(t *testing.T, script func(c net.Conn, r *bufio.Reader, head []string)) string {
	t.Helper()
	l := listen(t, "127.0.0.1:0")
	var serving sync.WaitGroup
	t.Cleanup(serving.Wait)
	serving.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			serving.Go(func() {
				defer func() { _ = c.Close() }()
				stop := context.AfterFunc(t.Context(), func() { _ = c.Close() })
				defer stop()
				r := bufio.NewReader(c)
				for {
					head, err := readHead(r)
					if err != nil {
						return
					}
					if strings.HasPrefix(head[0], "GET /readyz ") {
						fmt.Fprint(c, "HTTP/1.1 200 OK\r\nContent-Length: 0\r\nConnection: close\r\n\r\n")
						return
					}
					script(c, r, head)
				}
			})
		}
	})
	// Runs before the wait above: cleanups go backwards.
	t.Cleanup(func() { _ = l.Close() })
	return "http://" + l.Addr().String()
}

func readHead(r *bufio.Reader) ([]string, error) {
	var head []string
	for {
		line, err := r.ReadString('\n')
		if err != nil {
			return nil, err
		}
		line = strings.TrimSuffix(line, "\r\n")
		if line == "" {
			return head, nil
		}
		head = append(head, line)
	}
}

func receive[T any](t *testing.T, ch <-chan T, what string) T {
	t.Helper()
	select {
	case v := <-ch:
		return v
	case <-time.After(safetyNet):
		t.Fatalf("%s did not come", what)
		panic("unreachable")
	}
}

// logs is a log handler that tests wait on: the forwarder tells each change of state exactly once.
type logs struct {
	mu    sync.Mutex
	lines []string
	more  chan struct{}
}

func newLogs() *logs { return &logs{more: make(chan struct{})} }

func (l *logs) Enabled(context.Context, slog.Level) bool { return true }
func (l *logs) WithAttrs([]slog.Attr) slog.Handler       { return l }
func (l *logs) WithGroup(string) slog.Handler            { return l }

func (l *logs) Handle(_ context.Context, r slog.Record) error {
	line := r.Message
	r.Attrs(func(a slog.Attr) bool {
		line += " " + a.String()
		return true
	})
	l.mu.Lock()
	defer l.mu.Unlock()
	l.lines = append(l.lines, line)
	close(l.more)
	l.more = make(chan struct{})
	return nil
}

// wait returns once a line contains every part.
func (l *logs) wait(t *testing.T, parts ...string) {
	t.Helper()
	deadline := time.After(safetyNet)
	for {
		l.mu.Lock()
		lines, more := l.lines, l.more
		l.mu.Unlock()
		for _, line := range lines {
			if containsAll(line, parts) {
				return
			}
		}
		select {
		case <-more:
		case <-deadline:
			t.Fatalf("no log line has %q; lines:\n%s", parts, strings.Join(lines, "\n"))
		}
	}
}

func containsAll(line string, parts []string) bool {
	for _, part := range parts {
		if !strings.Contains(line, part) {
			return false
		}
	}
	return true
}
