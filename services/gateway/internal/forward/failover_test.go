package forward_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"queen.internal/pkg/route"
	"queen.internal/services/gateway/internal/forward"
)

func TestFailover(t *testing.T) {
	t.Parallel()

	t.Run("a dead address is skipped, left alone, and used again when it is back", func(t *testing.T) {
		t.Parallel()
		dead := strings.TrimPrefix(closedAddress(t), "http://")
		alive := service(t, named("alive"))
		e := startEdge(t, one(t, route.Deliver, "http://"+dead, alive.URL))
		for range 8 {
			if status, body := e.get(t, "/pop"); status != http.StatusOK || body != "alive" {
				t.Fatalf("with one address dead a pop is answered with %d %q", status, body)
			}
		}
		e.logs.wait(t, "address is down", dead, "connection refused")

		server := &http.Server{Handler: probed(named("back"))}
		l := listen(t, dead)
		served := make(chan struct{})
		go func() { defer close(served); _ = server.Serve(l) }()
		t.Cleanup(func() { _ = server.Close(); <-served })
		e.logs.wait(t, "address is ready", dead, "was=down")
		seen := make(map[string]bool)
		for range 8 {
			_, body := e.get(t, "/pop")
			seen[body] = true
		}
		if !seen["back"] || !seen["alive"] {
			t.Errorf("answers come from %v, want both addresses", seen)
		}
	})

	t.Run("without any address nothing is sent and the caller is told so", func(t *testing.T) {
		t.Parallel()
		e := startEdge(t, one(t, route.Deliver, closedAddress(t), closedAddress(t)))
		e.get(t, "/pop")
		var unreachable *forward.UnreachableError
		if got := e.ended(t); !errors.As(got.err, &unreachable) || unreachable.Role != route.Deliver || got.outcome.Tries != 2 {
			t.Errorf("ends with %v after %d tries, want both addresses refused", got.err, got.outcome.Tries)
		}
		e.do(t, http.MethodPost, "/push", strings.NewReader("{}"))
		if got := e.ended(t); !errors.As(got.err, &unreachable) || unreachable.Role != route.Ingest {
			t.Errorf("a role without addresses ends with %v", got.err)
		}
	})

	t.Run("a body is sent whole to the second address", func(t *testing.T) {
		t.Parallel()
		s := service(t, func(w http.ResponseWriter, r *http.Request) {
			buffer := new(strings.Builder)
			_, _ = bufio.NewReader(r.Body).WriteTo(buffer)
			fmt.Fprint(w, buffer.Len())
		})
		e := startEdge(t, one(t, route.Ingest, closedAddress(t), s.URL), func(o *forward.Options) { o.ProbeEvery = time.Hour })
		for _, length := range []int{10, 300_000, 300_000} {
			if _, body := e.do(t, http.MethodPost, "/push", strings.NewReader(strings.Repeat("x", length))); body != fmt.Sprint(length) {
				t.Errorf("of %d bytes arrive %s", length, body)
			}
		}
	})

	t.Run("a connection that the service closed while it was idle costs no request", func(t *testing.T) {
		t.Parallel()
		closed := make(chan struct{}, 1)
		url := rawService(t, func(c net.Conn, r *bufio.Reader, _ []string) {
			_, _ = r.Discard(2)
			fmt.Fprint(c, "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n") // without a word about closing
			_ = c.Close()
			closed <- struct{}{}
		})
		e := startEdge(t, one(t, route.Ingest, url))
		for range 50 {
			if status, body := e.do(t, http.MethodPost, "/push", strings.NewReader("{}")); status != http.StatusOK {
				t.Fatalf("a push is answered with %d %q", status, body)
			}
			receive(t, closed, "the connection's end")
		}
	})

	t.Run("an address that is not ready is used only when no other is", func(t *testing.T) {
		t.Parallel()
		var draining atomic.Bool
		answers := func(name string) http.Handler {
			return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if r.URL.Path == "/readyz" && draining.Load() {
					w.WriteHeader(http.StatusServiceUnavailable)
					return
				}
				named(name)(w, r)
			})
		}
		leaving := httptest.NewServer(answers("leaving"))
		t.Cleanup(leaving.Close)
		staying := service(t, named("staying"))
		e := startEdge(t, one(t, route.Deliver, leaving.URL, staying.URL))
		draining.Store(true)
		e.logs.wait(t, "address is not ready", strings.TrimPrefix(leaving.URL, "http://"))
		for range 6 {
			if _, body := e.get(t, "/pop"); body != "staying" {
				t.Errorf("a pop goes to %q", body)
			}
		}
		staying.Close()
		e.logs.wait(t, "address is down", strings.TrimPrefix(staying.URL, "http://"))
		if _, body := e.get(t, "/pop"); body != "leaving" {
			t.Errorf("with nothing better a pop goes to %q", body)
		}
	})

	t.Run("a service that begins to close connections is left before it is gone", func(t *testing.T) {
		t.Parallel()
		s := service(t, func(w http.ResponseWriter, _ *http.Request) { w.Header().Set("Connection", "close") })
		e := startEdge(t, one(t, route.Deliver, s.URL), func(o *forward.Options) { o.ProbeEvery = time.Hour })
		e.get(t, "/pop")
		e.logs.wait(t, "address is not ready", "it closes its connections")
		e.logs.wait(t, "address is ready", "was=not ready") // the probe that this causes finds it well
	})

	t.Run("requests to a process that stands still are ended once it is known to be dead", func(t *testing.T) {
		t.Parallel()
		l := listen(t, "127.0.0.1:0") // its backlog accepts, nobody reads
		e := startEdge(t, one(t, route.Deliver, "http://"+l.Addr().String()), func(o *forward.Options) { o.ProbeTimeout = 50 * time.Millisecond })
		e.get(t, "/pop")
		var lost *forward.LostError
		if got := e.ended(t); !errors.As(got.err, &lost) {
			t.Errorf("the pop ends with %v", got.err)
		}
		e.logs.wait(t, "requests to a dead address are interrupted", "requests=1")
	})

	t.Run("a service killed mid-answer breaks the client's answer", func(t *testing.T) {
		t.Parallel()
		for name, head := range map[string]string{"known length": "Content-Length: 100", "chunked": "Transfer-Encoding: chunked"} {
			url := rawService(t, func(c net.Conn, _ *bufio.Reader, _ []string) {
				fmt.Fprintf(c, "HTTP/1.1 200 OK\r\n%s\r\n\r\n5\r\nhello\r\n", head)
				_ = c.Close()
			})
			e := startEdge(t, one(t, route.Deliver, url))
			answer, err := e.client.Get(e.url + "/pop")
			if err == nil {
				_, err = bufio.NewReader(answer.Body).WriteTo(new(strings.Builder))
				answer.Body.Close()
			}
			if err == nil {
				t.Errorf("%s: a part of an answer is taken for the whole", name)
			}
			if got := e.ended(t); !errors.Is(got.err, forward.ErrBroken) {
				t.Errorf("%s: ends with %v", name, got.err)
			}
		}
	})
}

func TestSpread(t *testing.T) {
	t.Parallel()

	t.Run("a client connection's pushes stay on one ingest and connections go round", func(t *testing.T) {
		t.Parallel()
		first, second := service(t, named("first")), service(t, named("second"))
		e := startEdge(t, one(t, route.Ingest, first.URL, second.URL))
		homes := make(map[string]int)
		for range 6 {
			c := newClient(t)
			home := c.push(t, e.url)
			homes[home]++
			for range 5 {
				if at := c.push(t, e.url); at != home {
					t.Errorf("a connection that began on %s goes to %s", home, at)
				}
			}
		}
		if homes["first"] != 3 || homes["second"] != 3 {
			t.Errorf("6 connections live on %v, want 3 and 3", homes)
		}
	})

	t.Run("a client connection moves when its ingest dies, and stays where it moved", func(t *testing.T) {
		t.Parallel()
		servers := map[string]*httptest.Server{"first": service(t, named("first")), "second": service(t, named("second"))}
		e := startEdge(t, one(t, route.Ingest, servers["first"].URL, servers["second"].URL))
		c := newClient(t)
		home := c.push(t, e.url)
		address := strings.TrimPrefix(servers[home].URL, "http://")
		servers[home].Close()
		other := c.push(t, e.url)
		if other == home {
			t.Fatalf("pushes still go to %s", home)
		}
		back := &http.Server{Handler: probed(named("back"))}
		l := listen(t, address)
		served := make(chan struct{})
		go func() { defer close(served); _ = back.Serve(l) }()
		t.Cleanup(func() { _ = back.Close(); <-served })
		e.logs.wait(t, "address is ready", address, "was=down")
		for range 4 {
			if at := c.push(t, e.url); at != other {
				t.Errorf("after the restart a connection moves from %s to %s", other, at)
			}
		}
	})

	t.Run("parked polls are shared evenly", func(t *testing.T) {
		t.Parallel()
		parked := make(chan string, 10)
		release := make(chan struct{})
		park := func(name string) http.HandlerFunc {
			return func(http.ResponseWriter, *http.Request) {
				parked <- name
				<-release
			}
		}
		first, second := service(t, park("first")), service(t, park("second"))
		e := startEdge(t, one(t, route.Deliver, first.URL, second.URL))
		var polls sync.WaitGroup
		counts := make(map[string]int)
		for range 10 {
			polls.Go(func() {
				if answer, err := e.client.Get(e.url + "/pop"); err == nil {
					answer.Body.Close()
				}
			})
			counts[receive(t, parked, "a parked poll")]++
		}
		close(release)
		polls.Wait()
		if counts["first"] != 5 || counts["second"] != 5 {
			t.Errorf("10 polls are parked as %v, want 5 and 5", counts)
		}
	})
}

// client is one connection.
type client struct{ http.Client }

func newClient(t *testing.T) *client {
	t.Helper()
	transport := &http.Transport{MaxConnsPerHost: 1}
	t.Cleanup(transport.CloseIdleConnections)
	return &client{http.Client{Transport: transport}}
}

func (c *client) push(t *testing.T, url string) string {
	t.Helper()
	answer, err := c.Post(url+"/push", "application/json", strings.NewReader("{}"))
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	body := new(strings.Builder)
	if _, err := bufio.NewReader(answer.Body).WriteTo(body); err != nil || answer.StatusCode != http.StatusOK {
		t.Fatalf("a push is answered with %d %q, %v", answer.StatusCode, body, err)
	}
	return body.String()
}

func TestResolve(t *testing.T) {
	t.Parallel()
	first := service(t, named("first"))
	second := listen(t, "127.0.0.2:"+port(t, first.URL)) // the same port, as copies behind one name have it
	server := &http.Server{Handler: probed(named("second"))}
	served := make(chan struct{})
	go func() { defer close(served); _ = server.Serve(second) }()
	t.Cleanup(func() { _ = server.Close(); <-served })

	var mu sync.Mutex
	known := []string{"127.0.0.1"}
	var fault error
	set := func(err error, ips ...string) {
		mu.Lock()
		defer mu.Unlock()
		known, fault = ips, err
	}
	lookups := make(chan struct{}, 1000)
	e := startEdge(t, one(t, route.Deliver, "http://deliver.test:"+port(t, first.URL)), func(o *forward.Options) {
		o.ResolveEvery = 0
		o.Lookup = func(_ context.Context, host string) ([]netip.Addr, error) {
			if host != "deliver.test" {
				t.Errorf("%q is looked up", host)
			}
			mu.Lock()
			defer mu.Unlock()
			var found []netip.Addr
			for _, ip := range known {
				found = append(found, netip.MustParseAddr(ip))
			}
			select {
			case lookups <- struct{}{}:
			default:
			}
			return found, fault
		}
	})
	settle := func() { // the second look-up from now on has seen what was set, and its predecessor has been stored
		for len(lookups) > 0 {
			<-lookups
		}
		for range 3 {
			receive(t, lookups, "a look-up")
		}
	}
	answers := func() map[string]bool {
		seen := make(map[string]bool)
		for range 6 {
			_, body := e.get(t, "/pop")
			seen[body] = true
		}
		return seen
	}

	if seen := answers(); seen["second"] || !seen["first"] {
		t.Errorf("one address resolved, answers from %v", seen)
	}
	set(nil, "127.0.0.1", "127.0.0.2")
	settle()
	if seen := answers(); !seen["first"] || !seen["second"] {
		t.Errorf("every address that the name resolves to is to be used, answers come from %v", seen)
	}
	set(errors.New("no name server"))
	e.logs.wait(t, "cannot be resolved", "no name server")
	settle()
	if seen := answers(); !seen["first"] || !seen["second"] {
		t.Errorf("a name server that fails takes addresses away, answers come from %v", seen)
	}
	set(nil, "127.0.0.2")
	e.logs.wait(t, "resolved again", "deliver.test")
	settle()
	e.logs.wait(t, "address is gone", "127.0.0.1:")
	if seen := answers(); seen["first"] {
		t.Errorf("an address that is gone still answers: %v", seen)
	}
}

func port(t *testing.T, url string) string {
	t.Helper()
	return base(t, url).Port
}

func TestHealthy(t *testing.T) {
	t.Parallel()
	sick := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(http.StatusServiceUnavailable)
		fmt.Fprint(w, `{"status":"unhealthy","database":"disconnected","engine":"segments-go","version":"test"}`)
	}))
	t.Cleanup(sick.Close)
	well := service(t, named("well"))
	tests := []struct {
		name    string
		urls    []string
		reasons []string // nil: healthy
	}{
		{"one is", []string{closedAddress(t), sick.URL, well.URL}, nil},
		{"none is", []string{sick.URL}, []string{"unhealthy", "disconnected", "503"}},
		{"none answers", []string{closedAddress(t)}, []string{"connection refused"}},
		{"none is known", nil, []string{"no address of ingest is known"}},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			e := startEdge(t, one(t, route.Ingest, test.urls...))
			err := e.Healthy(t.Context(), route.Ingest)
			if test.reasons == nil {
				if err != nil {
					t.Errorf("unhealthy: %v", err)
				}
				return
			}
			if err == nil || !containsAll(err.Error(), test.reasons) || strings.Contains(err.Error(), "\n") {
				t.Errorf("error %q, want one line with %q", err, test.reasons)
			}
		})
	}
}

func TestReachable(t *testing.T) {
	t.Parallel()
	well := service(t, named("well"))
	e := startEdge(t, map[route.Role][]forward.Base{route.Ingest: {base(t, well.URL)}, route.Deliver: {base(t, closedAddress(t))}})
	e.logs.wait(t, "address is down", "role=deliver")
	if err := e.Reachable(route.Ingest); err != nil {
		t.Errorf("a live role is not reachable: %v", err)
	}
	if err := e.Reachable(route.Deliver); err == nil {
		t.Error("a dead role is reachable")
	}
	if err := e.Reachable(route.Console); err == nil {
		t.Error("a role without addresses is reachable")
	}
}

func TestParseBase(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"http://ingest:6632": "ingest:6632", "http://ingest": "ingest:80", "http://10.0.0.1:1/": "10.0.0.1:1", "http://[::1]:6641": "[::1]:6641",
	} {
		if got, err := forward.ParseBase(text); err != nil || got.String() != want {
			t.Errorf("ParseBase(%q) = %v, %v, want %s", text, got, err, want)
		}
	}
	for _, text := range []string{"", "ingest:6632", "https://ingest:6632", "http://", "http://h/base", "http://u:p@h", "http://h?q", "http://h#f", "http://h:x", "\x00"} {
		if _, err := forward.ParseBase(text); err == nil || !strings.Contains(err.Error(), fmt.Sprintf("%q", text)) {
			t.Errorf("ParseBase(%q): error %v does not quote it", text, err)
		}
	}
}
