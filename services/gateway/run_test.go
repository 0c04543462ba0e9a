package main

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"queen.internal/pkg/route"
)

// named answers with a name, the method and the request target.
func named(name string) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		fmt.Fprintf(w, "%s %s %s", name, r.Method, r.RequestURI)
	}
}

func TestRoutes(t *testing.T) {
	t.Parallel()
	g := start(t, func(s *settings) {
		s.Ingest = list(service(t, named("ingest")).URL)
		s.Deliver = list(service(t, named("deliver")).URL)
		s.Maintainer = list(service(t, named("maintainer")).URL)
		s.Console = list(service(t, named("console")).URL)
	})

	t.Run("every row of a role goes to that role", func(t *testing.T) {
		t.Parallel()
		for _, row := range route.Table {
			if row.Role == route.Every || slices.Contains([]string{"buffers", "maintenance", "maintenance_set"}, row.Name) { // asked of all; see TestBuffers
				continue
			}
			path := strings.ReplaceAll(row.Path, ":", "a%2F+%20%25%C3%A4:")
			if got, want := g.do(t, row.Method, path, ""), fmt.Sprintf("%s %s ", row.Role, row.Method); got.status != http.StatusOK || !strings.HasPrefix(got.body, want) {
				t.Errorf("%s %s is answered with %d %q, want one by %q", row.Method, path, got.status, got.body, row.Role)
			}
		}
	})

	t.Run("what the mesh is asked goes to one that takes part", func(t *testing.T) {
		t.Parallel()
		for _, path := range []string{"/api/v1/system/shared-state", "/internal/api/shared-state/stats", "/internal/api/inter-instance/stats"} {
			if got, want := g.do(t, http.MethodGet, path, ""), "deliver GET "+path; got.body != want {
				t.Errorf("got %q, want %q", got.body, want)
			}
		}
	})

	t.Run("names and queries arrive byte for byte", func(t *testing.T) {
		t.Parallel()
		for _, target := range []string{
			"/api/v1/pop/queue/a%2Fb", "/api/v1/pop/queue/a+b", "/api/v1/pop/queue/a%20b", "/api/v1/pop/queue/%C3%A4",
			"/api/v1/pop/queue/100%25", "/api/v1/pop/queue/a%252Fb", "/api/v1/pop/queue/a%2fb/partition/c%2Fd", "/api/v1/pop/queue/q?wait=true&x=%2F+%20",
		} {
			if got, want := g.do(t, http.MethodGet, target, ""), "deliver GET "+target; got.body != want {
				t.Errorf("got %q, want %q", got.body, want)
			}
		}
	})

	t.Run("paths outside the table are the console's", func(t *testing.T) {
		t.Parallel()
		for _, path := range []string{"/", "/queues/orders", "/assets/app.js?v=1", "/favicon.ico"} {
			if got := g.do(t, http.MethodGet, path, ""); got.body != "console GET "+path {
				t.Errorf("%s is answered with %d %q", path, got.status, got.body)
			}
		}
		if got := g.do(t, http.MethodHead, "/", ""); got.status != http.StatusOK {
			t.Errorf("HEAD / is answered with %d", got.status)
		}
	})

	t.Run("unknown and ambiguous paths are forwarded to nobody", func(t *testing.T) {
		t.Parallel()
		for _, request := range []string{
			"GET /api/v1/nothing", "POST /api/v1/nothing", "POST /api/v1/push/", "POST /elsewhere", "GET /internal/api/anything",
			"GET /streams/x", "GET /auth/x", "GET /api%2Fv1/nothing", `GET /a\b`, "GET /assets/../api/v1/push", "GET /%2e%2e/x",
			"GET /api/v1/pop/queue/..", "GET /api/v1/pop/queue/%2E", "GET /x%2Fy",
		} {
			method, path, _ := strings.Cut(request, " ")
			got := g.do(t, method, strings.ReplaceAll(path, `\`, "%5C"), "")
			want := `{"error":"Not Found","code":"no_such_route"}`
			if got.status != http.StatusNotFound || got.body != want || got.header.Get("Content-Type") != "application/json" {
				t.Errorf("%s is answered with %d %q", request, got.status, got.body)
			}
		}
	})

	t.Run("a wrong verb on a known path is 405 with Allow", func(t *testing.T) {
		t.Parallel()
		for path, allow := range map[string]string{"/api/v1/push": "POST", "/api/v1/pop/queue/q": "GET"} {
			if got := g.do(t, http.MethodDelete, path, ""); got.status != http.StatusMethodNotAllowed || got.header.Get("Allow") != allow {
				t.Errorf("DELETE %s is answered with %d, Allow %q", path, got.status, got.header.Get("Allow"))
			}
		}
	})

	t.Run("its own rows are its own", func(t *testing.T) {
		t.Parallel()
		if got, want := g.do(t, http.MethodGet, "/health", ""), `{"status":"healthy","database":"connected","engine":"segments-go","version":"test"}`; got.status != http.StatusOK || got.body != want {
			t.Errorf("/health is %d %q", got.status, got.body)
		}
		for path, part := range map[string]string{
			"/livez": `"ok"`, "/readyz": `"ready"`, "/status": `"engine":"segments-go"`, "/metrics/prometheus": `queen_edge_address_state{address="127.0.0.1:`,
		} {
			if got := g.do(t, http.MethodGet, path, ""); got.status != http.StatusOK || !strings.Contains(got.body, part) {
				t.Errorf("%s is %d %q", path, got.status, got.body)
			}
		}
	})
}

func TestLimits(t *testing.T) {
	t.Parallel()
	refuses := service(t, func(w http.ResponseWriter, r *http.Request) {
		http.Error(w, `{"error":"too large for a role"}`, http.StatusRequestEntityTooLarge)
	})
	g := start(t, func(s *settings) {
		s.Ingest = list(refuses.URL)
		s.MaxBodyBytes = 1 << 20
	})
	if got := g.do(t, http.MethodPost, "/api/v1/push", "{}"); got.status != http.StatusRequestEntityTooLarge || !strings.Contains(got.body, "too large for a role") {
		t.Errorf("a role's 413 comes back as %d %q", got.status, got.body)
	}
	const over = 1<<20 + 1
	large := strings.Repeat("x", over)
	if got := g.upload(t, fmt.Sprintf("Content-Length: %d\r\n\r\n%s", over, large)); got.status != http.StatusRequestEntityTooLarge || !strings.Contains(got.body, "larger than 1048576 bytes") {
		t.Errorf("a body over the edge's own limit is answered with %d %q", got.status, got.body)
	}
	if got := g.upload(t, fmt.Sprintf("Transfer-Encoding: chunked\r\n\r\n%x\r\n%s\r\n0\r\n\r\n", over, large)); got.status != http.StatusRequestEntityTooLarge {
		t.Errorf("in chunks it is answered with %d %q", got.status, got.body)
	}
}

// upload pushes by a client that reads while it writes; net/http's prefers the error of its writing to a refusal that it
// has not read yet.
func (g *gateway) upload(t *testing.T, rest string) answer {
	t.Helper()
	c, err := net.Dial("tcp", strings.TrimPrefix(g.url, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	sent := make(chan struct{})
	go func() {
		defer close(sent)
		_, _ = io.WriteString(c, "POST /api/v1/push HTTP/1.1\r\nHost: h\r\n"+rest) // a refusal ends it early
	}()
	defer func() { _ = c.Close(); <-sent }()
	res, err := http.ReadResponse(bufio.NewReader(c), nil)
	if err != nil {
		t.Fatal(err)
	}
	body, err := io.ReadAll(res.Body)
	if err != nil {
		t.Fatal(err)
	}
	return answer{res.StatusCode, res.Header, string(body)}
}

func TestHealth(t *testing.T) {
	t.Parallel()
	well := service(t, named("well")).URL
	sick := service(t, named("sick"))
	sick.Config.Handler = http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(http.StatusServiceUnavailable)
		fmt.Fprint(w, `{"status":"unhealthy","database":"disconnected","engine":"segments-go","version":"test"}`)
	})
	gone := service(t, named("gone"))
	gone.Close()
	tests := []struct {
		name            string
		ingest, deliver []string
		healthy         bool
		ready           bool
	}{
		{"one healthy of each", []string{gone.URL, well}, []string{sick.URL, well}, true, true},
		{"no healthy ingest", []string{sick.URL}, []string{well}, false, true},
		{"no deliver at all", []string{well}, []string{gone.URL}, false, true},
		{"nothing", []string{gone.URL}, nil, false, false},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			g := start(t, func(s *settings) { s.Ingest, s.Deliver = test.ingest, test.deliver })
			for _, url := range append(test.ingest, test.deliver...) {
				if url == gone.URL {
					g.log.wait(t, "address is down", strings.TrimPrefix(url, "http://"))
				}
			}
			status, body := http.StatusOK, `{"status":"healthy","database":"connected","engine":"segments-go","version":"test"}`
			if !test.healthy {
				status, body = http.StatusServiceUnavailable, `{"status":"unhealthy","database":"disconnected","engine":"segments-go","version":"test"}`
			}
			if got := g.do(t, http.MethodGet, "/health", ""); got.status != status || got.body != body {
				t.Errorf("/health is %d %q", got.status, got.body)
			}
			if got := g.do(t, http.MethodGet, "/readyz", ""); (got.status == http.StatusOK) != test.ready {
				t.Errorf("/readyz is %d %q", got.status, got.body)
			}
			if got := g.do(t, http.MethodGet, "/livez", ""); got.status != http.StatusOK {
				t.Errorf("/livez is %d", got.status)
			}
		})
	}
}

func TestProcesses(t *testing.T) {
	t.Parallel()

	t.Run("with one of two killed, pushes go to the other without an error", func(t *testing.T) {
		t.Parallel()
		one, two := startService(t), startService(t)
		g := start(t, func(s *settings) { s.Ingest = list(one.url, two.url) })
		seen := make(map[string]bool)
		for range 20 { // a connection stays where it is, so this takes some connections
			g.client.CloseIdleConnections()
			seen[g.do(t, http.MethodPost, "/api/v1/push", "{}").body] = true
		}
		if len(seen) != 2 {
			t.Fatalf("pushes reach %v, want both processes", seen)
		}
		one.kill(t)
		for range 20 {
			g.client.CloseIdleConnections()
			if got := g.do(t, http.MethodPost, "/api/v1/push", "{}"); got.status != http.StatusOK || got.body != strconv.Itoa(two.Process.Pid) {
				t.Errorf("a push is answered with %d %q", got.status, got.body)
			}
		}
	})

	t.Run("a request that a killed process had is answered with 503, once and at once", func(t *testing.T) {
		t.Parallel()
		victim := startService(t)
		g := start(t, func(s *settings) { s.Deliver = list(victim.url) })
		got := make(chan answer, 1)
		go func() {
			a, err := g.try(http.MethodGet, "/api/v1/pop/queue/q?wait=true", "")
			if err != nil {
				t.Errorf("the pop ends with %v", err)
			}
			got <- a
		}()
		receive(t, victim.parked, "the pop")
		victim.kill(t)
		a := receive(t, got, "the answer")
		if a.status != http.StatusServiceUnavailable || !strings.Contains(a.body, `"code":"upstream_lost"`) || a.header.Get("Retry-After") != "1" {
			t.Errorf("the pop is answered with %d %q", a.status, a.body)
		}
		after := g.do(t, http.MethodGet, "/api/v1/pop/queue/q", "")
		want := answer{http.StatusServiceUnavailable, after.header, `{"error":"no deliver service is reachable","code":"upstream_unavailable"}`}
		if diff := cmp.Diff(want, after, cmp.AllowUnexported(answer{})); diff != "" || after.header.Get("Retry-After") != "1" {
			t.Errorf("with nobody there a pop differs (-want +got), Retry-After %q:\n%s", after.header.Get("Retry-After"), diff)
		}
	})

	t.Run("a stop answers parked pops with 204 and does not wait for them", func(t *testing.T) {
		t.Parallel()
		deliver := startService(t)
		g := start(t, func(s *settings) { s.Deliver = list(deliver.url) })
		const pops = 20
		got := make(chan int, pops)
		for range pops {
			go func() {
				a, err := g.try(http.MethodGet, "/api/v1/pop/queue/q?wait=true", "")
				if err != nil {
					t.Errorf("a pop ends with %v", err)
				}
				got <- a.status
			}()
			receive(t, deliver.parked, "a parked pop")
		}
		if err := g.stop(); err != nil {
			t.Errorf("the stop ends with %v", err)
		}
		for range pops {
			if status := receive(t, got, "an answer"); status != http.StatusNoContent {
				t.Errorf("a parked pop is answered with %d", status)
			}
		}
	})
}

// Each bad setting is one clear line and exit code 1, from the real program.
func TestBoot(t *testing.T) {
	t.Parallel()
	taken := service(t, named("taken"))
	_, port, _ := strings.Cut(strings.TrimPrefix(taken.URL, "http://"), ":")
	tests := []struct {
		name string
		env  []string
		want string
	}{
		{"tenancy mode", []string{"QUEEN_GATEWAY_MODE=tenancy"}, "the tenancy gateway is not part of this build"},
		{"a control database", []string{"PXDB_HOST=pxdb"}, "PXDB_HOST asks for the tenancy gateway, which is not part of this build"},
		{"an unknown mode", []string{"QUEEN_GATEWAY_MODE=Edge"}, `QUEEN_GATEWAY_MODE="Edge" is not a mode`},
		{"a bad address", []string{"QUEEN_DELIVER_URL=http://a:1, deliver:6642"}, `QUEEN_DELIVER_URL: "deliver:6642" is not the address of a service`},
		{"a bad number", []string{"QUEEN_MAX_BODY_BYTES=1MB"}, `QUEEN_MAX_BODY_BYTES="1MB" is not`},
		{"a taken port", []string{"PORT=" + port, "QUEEN_BIND_ADDR=127.0.0.1"}, "the address is in use"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			cmd := exec.Command(os.Args[0])
			cmd.Env = append([]string{playVariable + "=" + playGateway, "LOG_LEVEL=error", "GOCOVERDIR=" + t.TempDir()}, test.env...)
			out, err := cmd.CombinedOutput()
			var exit *exec.ExitError
			if !asExit(err, &exit) || exit.ExitCode() != 1 {
				t.Errorf("ends with %v, want exit code 1", err)
			}
			if text := string(out); strings.Count(text, "\n") != 1 || !strings.Contains(text, "FATAL: ") || !strings.Contains(text, test.want) {
				t.Errorf("prints %q, want one line with %q", text, test.want)
			}
		})
	}
}

func asExit(err error, exit **exec.ExitError) bool {
	e, ok := err.(*exec.ExitError)
	*exit = e
	return ok
}

// PXDB_HOST belongs to blocks of settings that people paste everywhere; an explicit mode wins.
func TestModeEdgeWinsOverTheControlDatabase(t *testing.T) {
	t.Parallel()
	if err := (Mode{Name: "edge", ControlHost: "pxdb"}).Validate(); err != nil {
		t.Error(err)
	}
}

func TestStartStop(t *testing.T) {
	t.Parallel()
	url := service(t, named("any")).URL
	for range 20 {
		g := start(t, func(s *settings) { s.Ingest, s.Deliver = list(url), list(url) })
		if err := g.stop(); err != nil {
			t.Errorf("ends with %v", err)
		}
	}
}
