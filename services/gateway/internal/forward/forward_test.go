package forward_test

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/google/go-cmp/cmp"

	"queen.internal/pkg/route"
	"queen.internal/services/gateway/internal/forward"
)

func TestServe(t *testing.T) {
	t.Parallel()

	t.Run("passes the request target on byte for byte", func(t *testing.T) {
		t.Parallel()
		seen := make(chan string, 1)
		url := rawService(t, func(c net.Conn, _ *bufio.Reader, head []string) {
			seen <- head[0]
			fmt.Fprint(c, "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok")
		})
		e := startEdge(t, one(t, route.Deliver, url))
		for _, target := range []string{
			"/pop/queue/a%2Fb", "/pop/queue/a%2fb", "/pop/queue/a+b", "/pop/queue/a%20b", "/pop/queue/%C3%A4", "/pop/queue/ä",
			"/pop/queue/100%25", "/pop/queue/a%252Fb", "/pop/queue/%7E~", "/pop/queue/[x]", "/pop/queue/a;b=c", `/pop/queue/"<>|^`,
			"/pop//double", "//authority/like", "/pop?", "/pop?a=b&c=%2F+%20&d", "/pop?x=http://y/", "/pop/a:b@c",
		} {
			if got := rawExchange(t, e.url, "GET "+target+" HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n"); !strings.HasSuffix(got, "\r\n\r\nok") {
				t.Errorf("%s is answered with %q", target, got)
			}
			if got, want := receive(t, seen, "the request"), "GET "+target+" HTTP/1.1"; got != want {
				t.Errorf("request line %q arrives as %q", want, got)
			}
		}
		for absolute, want := range map[string]string{"http://h/pop/a%2Fb?c": "/pop/a%2Fb?c", "http://h": "/", "http://h?q": "/?q"} {
			rawExchange(t, e.url, "GET "+absolute+" HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n")
			if got := receive(t, seen, "the request"); got != "GET "+want+" HTTP/1.1" {
				t.Errorf("absolute target %q arrives as %q", absolute, got)
			}
		}
	})

	t.Run("leaves credentials alone, strips what concerns one connection, adds the client", func(t *testing.T) {
		t.Parallel()
		seen := make(chan []string, 1)
		url := rawService(t, func(c net.Conn, _ *bufio.Reader, head []string) {
			seen <- head[1:]
			fmt.Fprint(c, "HTTP/1.1 200 OK\r\nContent-Length: 0\r\nKeep-Alive: timeout=5\r\nConnection: X-Hop\r\nX-Hop: 1\r\nX-End: 2\r\n\r\n")
		})
		e := startEdge(t, one(t, route.Deliver, url))
		answer := rawExchange(t, e.url, "GET /pop HTTP/1.1\r\nHost: queue.example:6632\r\nAuthorization: Bearer s3cret\r\nCookie: a=b\r\n"+
			"x-queen-tenant: 1\r\nX-Forwarded-For: 10.0.0.9\r\nConnection: close, X-Private\r\nX-Private: 1\r\nTE: trailers\r\n"+
			"Keep-Alive: 1\r\nUpgrade: h2c\r\nProxy-Authorization: x\r\nUser-Agent: test\r\nAccept-Encoding: br\r\n\r\n")
		got := receive(t, seen, "the request")
		slices.Sort(got)
		want := []string{
			"Accept-Encoding: br", "Authorization: Bearer s3cret", "Cookie: a=b", "Host: queue.example:6632",
			"User-Agent: test", "X-Forwarded-For: 10.0.0.9, 127.0.0.1", "X-Queen-Tenant: 1",
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("headers differ (-want +got):\n%s", diff)
		}
		if strings.Contains(answer, "X-Hop") || strings.Contains(answer, "Keep-Alive") || !strings.Contains(answer, "X-End: 2\r\n") {
			t.Errorf("answer is %q", answer)
		}
	})

	t.Run("passes statuses on, a 204 without a length", func(t *testing.T) {
		t.Parallel()
		s := service(t, func(w http.ResponseWriter, r *http.Request) {
			switch r.URL.Path {
			case "/pop/none":
				w.WriteHeader(http.StatusNoContent)
			case "/pop/full":
				w.Header().Set("Retry-After", "7")
				http.Error(w, `{"error":"full"}`, http.StatusServiceUnavailable)
			}
		})
		e := startEdge(t, one(t, route.Deliver, s.URL))
		none := rawExchange(t, e.url, "GET /pop/none HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n")
		if !strings.HasPrefix(none, "HTTP/1.1 204 ") || strings.Contains(none, "Content-Length") || !strings.HasSuffix(none, "\r\n\r\n") {
			t.Errorf("204 is passed on as %q", none)
		}
		full := rawExchange(t, e.url, "GET /pop/full HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n")
		if !strings.HasPrefix(full, "HTTP/1.1 503 ") || !strings.Contains(full, "Retry-After: 7\r\n") {
			t.Errorf("503 is passed on as %q", full)
		}
	})

	t.Run("passes bodies on whole, of any length and framing", func(t *testing.T) {
		t.Parallel()
		s := service(t, func(w http.ResponseWriter, r *http.Request) {
			body, err := io.ReadAll(r.Body)
			if err != nil {
				t.Errorf("read: %v", err)
			}
			w.Header().Set("X-Length", fmt.Sprint(r.ContentLength))
			_, _ = w.Write(body)
		})
		e := startEdge(t, one(t, route.Ingest, s.URL))
		for _, length := range []int{0, 1, 64<<10 - 1, 64 << 10, 64<<10 + 1, 3 << 20} {
			body := bytes.Repeat([]byte("0123456789abcdef"), length/16+1)[:length]
			for _, reader := range []io.Reader{bytes.NewReader(body), struct{ io.Reader }{bytes.NewReader(body)}} {
				status, got := e.do(t, http.MethodPost, "/push", reader)
				if status != http.StatusOK || got != string(body) {
					t.Errorf("body of %d bytes (%T) comes back as status %d with %d bytes", length, reader, status, len(got))
				}
			}
		}
	})

	t.Run("an idempotent header or a GET changes nothing: no request is sent twice", func(t *testing.T) {
		t.Parallel()
		for name, raw := range map[string]string{
			"pop":             "GET /pop HTTP/1.1\r\nHost: h\r\n\r\n",
			"push":            "POST /push HTTP/1.1\r\nHost: h\r\nIdempotency-Key: k\r\nContent-Length: 2\r\n\r\n{}",
			"empty push":      "POST /push HTTP/1.1\r\nHost: h\r\nX-Idempotency-Key: k\r\nContent-Length: 0\r\n\r\n",
			"delete":          "DELETE /lease HTTP/1.1\r\nHost: h\r\n\r\n",
			"options of pops": "OPTIONS /pop HTTP/1.1\r\nHost: h\r\n\r\n",
		} {
			// The first request of a connection is answered, the second is read and the connection closed: the moment in which
			// net/http's transport sends again.
			var requests atomic.Int32
			url := rawService(t, func(c net.Conn, r *bufio.Reader, head []string) {
				seen := requests.Add(1)
				if slices.Contains(head, "Content-Length: 2") {
					_, _ = r.Discard(2)
				}
				if seen == 2 {
					_ = c.Close()
					return
				}
				fmt.Fprint(c, "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")
			})
			bases := one(t, route.Deliver, url)
			bases[route.Ingest] = bases[route.Deliver]
			e := startEdge(t, bases)
			rawExchange(t, e.url, strings.Replace(raw, "\r\n\r\n", "\r\nConnection: close\r\n\r\n", 1))
			if got := e.ended(t); got.err != nil {
				t.Fatalf("%s: first request ends with %v", name, got.err)
			}
			answer := rawExchange(t, e.url, strings.Replace(raw, "\r\n\r\n", "\r\nConnection: close\r\n\r\n", 1))
			if !strings.HasPrefix(answer, "HTTP/1.1 503 ") {
				t.Errorf("%s: the lost request is answered with %q", name, answer)
			}
			var lost *forward.LostError
			if got := e.ended(t); !errors.As(got.err, &lost) || got.outcome.Tries != 1 {
				t.Errorf("%s: the lost request ends with %v after %d tries", name, got.err, got.outcome.Tries)
			}
			if got := requests.Load(); got != 2 {
				t.Errorf("%s: the service saw %d requests, want 2", name, got)
			}
		}
	})

	t.Run("a read of the management plane is repeated at another address", func(t *testing.T) {
		t.Parallel()
		breaks := rawService(t, func(c net.Conn, _ *bufio.Reader, _ []string) { _ = c.Close() })
		works := service(t, named("works"))
		e := startEdge(t, one(t, route.Deliver, breaks, works.URL))
		for range 4 {
			if status, body := e.get(t, "/manage"); status != http.StatusOK || body != "works" {
				t.Errorf("the read is answered with %d %q", status, body)
			}
		}
	})

	t.Run("or at the only one, once, when a kept connection died", func(t *testing.T) {
		t.Parallel()
		var requests atomic.Int32
		url := rawService(t, func(c net.Conn, _ *bufio.Reader, _ []string) {
			if n := requests.Add(1); n == 2 || n > 3 {
				_ = c.Close()
				return
			}
			fmt.Fprint(c, "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")
		})
		e := startEdge(t, one(t, route.Deliver, url))
		for range 2 { // the second finds its connection dead and is repeated
			if status, body := e.get(t, "/manage"); status != http.StatusOK {
				t.Errorf("a read is answered with %d %q", status, body)
			}
		}
		e.get(t, "/manage") // and this one twice
		e.ended(t)
		e.ended(t)
		var lost *forward.LostError
		if got := e.ended(t); !errors.As(got.err, &lost) || requests.Load() != 5 {
			t.Errorf("ends with %v after %d requests in all, want 5", got.err, requests.Load())
		}
	})
}

// rawExchange sends bytes and reads the answer to its end; the request must ask for the connection's end.
func rawExchange(t *testing.T, url, request string) string {
	t.Helper()
	c, err := net.Dial("tcp", strings.TrimPrefix(url, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = c.Close() }()
	if _, err := io.WriteString(c, request); err != nil {
		t.Fatal(err)
	}
	answer, err := io.ReadAll(c)
	if err != nil {
		t.Fatal(err)
	}
	return string(answer)
}
