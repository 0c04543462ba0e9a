package forward_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"queen.internal/pkg/route"
	"queen.internal/services/gateway/internal/forward"
)

func TestStreaming(t *testing.T) {
	t.Parallel()

	t.Run("an answer arrives piece by piece", func(t *testing.T) {
		t.Parallel()
		next := make(chan struct{})
		s := service(t, func(w http.ResponseWriter, _ *http.Request) {
			for range 3 {
				fmt.Fprintln(w, "piece")
				w.(http.Flusher).Flush()
				<-next // the piece must have reached the client to come here
			}
		})
		e := startEdge(t, one(t, route.Deliver, s.URL))
		answer, err := e.client.Get(e.url + "/other")
		if err != nil {
			t.Fatal(err)
		}
		defer answer.Body.Close()
		lines := bufio.NewScanner(answer.Body)
		for range 3 {
			if !lines.Scan() || lines.Text() != "piece" {
				t.Fatalf("got %q, %v", lines.Text(), lines.Err())
			}
			next <- struct{}{}
		}
	})

	t.Run("a long body arrives piece by piece", func(t *testing.T) {
		t.Parallel()
		const piece = 128 << 10
		arrived := make(chan int)
		s := service(t, func(_ http.ResponseWriter, r *http.Request) {
			for range 3 {
				n, _ := io.ReadFull(r.Body, make([]byte, piece))
				arrived <- n
			}
			n, _ := io.Copy(io.Discard, r.Body)
			arrived <- int(n)
		})
		e := startEdge(t, one(t, route.Ingest, s.URL))
		for name, length := range map[string]int64{"known length": 3 * piece, "chunked": -1} {
			body, write := io.Pipe()
			r, err := http.NewRequest(http.MethodPost, e.url+"/push", body)
			if err != nil {
				t.Fatal(err)
			}
			r.ContentLength = length
			done := make(chan error, 1)
			go func() {
				answer, err := e.client.Do(r)
				if err == nil {
					answer.Body.Close()
				}
				done <- err
			}()
			for range 3 {
				if _, err := write.Write(make([]byte, piece)); err != nil {
					t.Fatal(err)
				}
				if n := receive(t, arrived, "a piece"); n != piece {
					t.Errorf("%s: %d bytes arrive, want %d", name, n, piece)
				}
			}
			_ = write.Close()
			if n := receive(t, arrived, "the end"); n != 0 {
				t.Errorf("%s: %d bytes too many", name, n)
			}
			if err := receive(t, done, "the answer"); err != nil {
				t.Errorf("%s: %v", name, err)
			}
		}
	})

	t.Run("a refusal before the body has ended reaches the client", func(t *testing.T) {
		t.Parallel()
		s := service(t, func(w http.ResponseWriter, _ *http.Request) {
			http.Error(w, `{"error":"too large"}`, http.StatusRequestEntityTooLarge)
		})
		e := startEdge(t, one(t, route.Ingest, s.URL))
		// Not net/http's client: it prefers the error of its writing over an answer that it has not read yet.
		c, err := net.Dial("tcp", strings.TrimPrefix(e.url, "http://"))
		if err != nil {
			t.Fatal(err)
		}
		sent := make(chan struct{})
		go func() {
			defer close(sent)
			fmt.Fprintf(c, "POST /push HTTP/1.1\r\nHost: h\r\nContent-Length: %d\r\n\r\n", 64<<20)
			_, _ = c.Write(make([]byte, 32<<20)) // more than any buffer on the way takes, and never all
		}()
		answer, err := http.ReadResponse(bufio.NewReader(c), nil)
		if err != nil {
			t.Fatal(err)
		}
		text, err := io.ReadAll(answer.Body)
		if answer.StatusCode != http.StatusRequestEntityTooLarge || !strings.Contains(string(text), "too large") || err != nil {
			t.Errorf("answer %d %q, %v", answer.StatusCode, text, err)
		}
		_ = c.Close()
		<-sent
	})

	t.Run("a body over the caller's limit is the caller's fault, before and after the first bytes went", func(t *testing.T) {
		t.Parallel()
		s := service(t, func(_ http.ResponseWriter, r *http.Request) { _, _ = io.Copy(io.Discard, r.Body) })
		for _, limit := range []int64{10, 100 << 10} {
			e := startEdge(t, one(t, route.Ingest, s.URL))
			ends := make(chan error, 1)
			limited := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				r.Body = http.MaxBytesReader(w, r.Body, limit)
				_, err := e.Serve(w, r, forward.Target{Role: route.Ingest})
				ends <- err
			}))
			answer, err := http.Post(limited.URL, "application/json", struct{ io.Reader }{strings.NewReader(strings.Repeat("x", 300<<10))})
			if err == nil {
				answer.Body.Close()
			}
			var body *forward.BodyError
			var tooLarge *http.MaxBytesError
			if err := receive(t, ends, "the end"); !errors.As(err, &body) || !errors.As(err, &tooLarge) {
				t.Errorf("limit %d: ends with %v", limit, err)
			}
			limited.Close()
		}
	})
}

func TestClientGoes(t *testing.T) {
	t.Parallel()

	t.Run("its request is cancelled at the service", func(t *testing.T) {
		t.Parallel()
		arrived, cancelled := make(chan struct{}), make(chan struct{})
		s := service(t, func(_ http.ResponseWriter, r *http.Request) {
			_, _ = io.Copy(io.Discard, r.Body)
			arrived <- struct{}{}
			<-r.Context().Done()
			cancelled <- struct{}{}
		})
		bases := one(t, route.Deliver, s.URL)
		bases[route.Ingest] = bases[route.Deliver]
		e := startEdge(t, bases)
		for method, path := range map[string]string{http.MethodGet: "/pop", http.MethodPost: "/push"} {
			e.leave(t, method, path, arrived)
			receive(t, cancelled, "the cancellation")
			if got := e.ended(t); !errors.Is(got.err, forward.ErrClientGone) {
				t.Errorf("%s ends with %v", path, got.err)
			}
		}
	})

	t.Run("messages leased for it all the same are given back", func(t *testing.T) {
		t.Parallel()
		arrived := make(chan struct{})
		released := make(chan *http.Request, 1)
		s := service(t, func(w http.ResponseWriter, r *http.Request) {
			if r.Method == http.MethodPost {
				released <- r
				return
			}
			arrived <- struct{}{}
			<-r.Context().Done() // the claim was under way and could not be stopped
			w.Header().Set("X-Queen-Lease", "lease/1")
			fmt.Fprint(w, `{"messages":[1]}`)
		})
		e := startEdge(t, one(t, route.Deliver, s.URL))
		e.leave(t, http.MethodGet, "/pop", arrived)
		r := receive(t, released, "the release")
		if got := r.URL.EscapedPath(); got != "/internal/api/lease/lease%2F1/release" {
			t.Errorf("released by %s", got)
		}
		if r.Header.Get("Authorization") != "Bearer consumer" || r.Header.Get("X-Queen-Tenant") != "7" {
			t.Errorf("released with headers %v", r.Header)
		}
	})

	t.Run("messages that could not be written are given back", func(t *testing.T) {
		t.Parallel()
		released := make(chan string, 1)
		s := service(t, func(w http.ResponseWriter, r *http.Request) {
			if r.Method == http.MethodPost {
				released <- r.URL.Path
				return
			}
			w.Header().Set("X-Queen-Lease", "abc")
			fmt.Fprint(w, "messages")
		})
		e := startEdge(t, one(t, route.Deliver, s.URL))
		for name, w := range map[string]http.ResponseWriter{"write": &deafWriter{failWrite: true}, "flush": &deafWriter{}} {
			r := httptest.NewRequest(http.MethodGet, "/pop", nil)
			if _, err := e.Serve(w, r, targetOf(r)); !errors.Is(err, forward.ErrBroken) {
				t.Errorf("%s: ends with %v", name, err)
			}
			if got := receive(t, released, "the release"); got != "/internal/api/lease/abc/release" {
				t.Errorf("%s: released by %s", name, got)
			}
		}
	})

	t.Run("messages whose answer broke off are given back at another address", func(t *testing.T) {
		t.Parallel()
		released := make(chan string, 1)
		breaks := rawService(t, func(c net.Conn, _ *bufio.Reader, head []string) {
			if strings.HasPrefix(head[0], "GET ") {
				fmt.Fprint(c, "HTTP/1.1 200 OK\r\nX-Queen-Lease: abc\r\nContent-Length: 100\r\n\r\nhalf")
			}
			_ = c.Close() // a release is lost here, and tried again
		})
		other := service(t, func(w http.ResponseWriter, r *http.Request) {
			if r.Method == http.MethodPost {
				released <- r.URL.Path
			}
		})
		e := startEdge(t, one(t, route.Deliver, breaks, other.URL))
		for broken := 0; broken < 2; { // pops alternate, so do releases: of two, one begins at the wrong address
			// Not net/http's client, which sends the pop again when nothing of the answer came.
			got := rawExchange(t, e.url, "GET /pop HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n")
			if end := e.ended(t); errors.Is(end.err, forward.ErrBroken) {
				broken++
				if strings.Count(got, "half") > 0 && !strings.Contains(got, "Content-Length: 100") {
					t.Errorf("half an answer is passed on as a whole: %q", got)
				}
				if got := receive(t, released, "the release"); got != "/internal/api/lease/abc/release" {
					t.Errorf("released by %s", got)
				}
			}
		}
	})

	t.Run("messages that it got are not given back when it leaves at once", func(t *testing.T) {
		t.Parallel()
		s := service(t, func(w http.ResponseWriter, r *http.Request) {
			if r.Method == http.MethodPost {
				t.Error("a delivered lease is given back")
				return
			}
			w.Header().Set("X-Queen-Lease", "abc")
			fmt.Fprint(w, "messages")
		})
		e := startEdge(t, one(t, route.Deliver, s.URL))
		for range 20 {
			if got := rawExchange(t, e.url, "GET /pop HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n"); !strings.HasSuffix(got, "messages") {
				t.Errorf("got %q", got)
			}
			if got := e.ended(t); got.err != nil {
				t.Errorf("ends with %v", got.err)
			}
		}
	})
}

// leave sends a request and goes away once it has arrived.
func (e *edge) leave(t *testing.T, method, path string, arrived <-chan struct{}) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	r, err := http.NewRequestWithContext(ctx, method, e.url+path, nil)
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Authorization", "Bearer consumer")
	r.Header.Set("X-Queen-Tenant", "7")
	done := make(chan error, 1)
	go func() {
		answer, err := e.client.Do(r)
		if err == nil {
			answer.Body.Close()
		}
		done <- err
	}()
	receive(t, arrived, "the request")
	cancel()
	if err := receive(t, done, "the client's end"); !errors.Is(err, context.Canceled) {
		t.Errorf("the client ends with %v", err)
	}
}

// deafWriter is a client that cannot be written to.
type deafWriter struct {
	header    http.Header
	failWrite bool
}

func (w *deafWriter) Header() http.Header {
	if w.header == nil {
		w.header = make(http.Header)
	}
	return w.header
}

func (w *deafWriter) WriteHeader(int) {}

func (w *deafWriter) Write(p []byte) (int, error) {
	if w.failWrite {
		return 0, io.ErrClosedPipe
	}
	return len(p), nil
}

func (w *deafWriter) FlushError() error { return io.ErrClosedPipe }

func TestDrain(t *testing.T) {
	t.Parallel()

	t.Run("parked pops end without messages, other requests end as they would", func(t *testing.T) {
		t.Parallel()
		arrived, finish := make(chan struct{}), make(chan struct{})
		s := service(t, func(w http.ResponseWriter, r *http.Request) {
			arrived <- struct{}{}
			if r.URL.Path == "/pop" {
				<-r.Context().Done() // and leaves without a word: net/http answers an empty 200 for it
				return
			}
			<-finish
			fmt.Fprint(w, "finished")
		})
		e := startEdge(t, one(t, route.Deliver, s.URL))
		pop, other := make(chan int, 1), make(chan string, 1)
		go func() { status, _ := e.get(t, "/pop"); pop <- status }()
		receive(t, arrived, "the pop")
		go func() { _, body := e.get(t, "/other"); other <- body }()
		receive(t, arrived, "the other request")

		e.Drain()
		if status := receive(t, pop, "the pop's answer"); status != http.StatusNoContent {
			t.Errorf("the parked pop is answered with %d", status)
		}
		if status, _ := e.get(t, "/pop"); status != http.StatusNoContent {
			t.Errorf("a pop during the drain is answered with %d", status)
		}
		close(finish)
		if body := receive(t, other, "the other answer"); body != "finished" {
			t.Errorf("the other request is answered with %q", body)
		}
	})

	t.Run("messages on their way reach their client", func(t *testing.T) {
		t.Parallel()
		arrived := make(chan struct{})
		s := service(t, func(w http.ResponseWriter, r *http.Request) {
			arrived <- struct{}{}
			<-r.Context().Done()
			w.Header().Set("X-Queen-Lease", "abc")
			fmt.Fprint(w, "messages")
		})
		e := startEdge(t, one(t, route.Deliver, s.URL))
		pop := make(chan string, 1)
		go func() { _, body := e.get(t, "/pop"); pop <- body }()
		receive(t, arrived, "the pop")
		e.Drain()
		if body := receive(t, pop, "the pop's answer"); body != "messages" {
			t.Errorf("the pop is answered with %q", body)
		}
	})

	t.Run("pops that begin at the same moment end too", func(t *testing.T) {
		t.Parallel()
		s := service(t, func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() })
		e := startEdge(t, one(t, route.Deliver, s.URL))
		const pops = 100
		statuses := make(chan int, pops)
		for i := range pops {
			go func() { status, _ := e.get(t, "/pop"); statuses <- status }()
			if i == pops/2 {
				go e.Drain()
			}
		}
		for range pops {
			if status := receive(t, statuses, "a pop's answer"); status != http.StatusNoContent {
				t.Errorf("a pop is answered with %d", status)
			}
		}
	})

	t.Run("a process that does not react holds a pop no longer than the grace", func(t *testing.T) {
		t.Parallel()
		arrived := make(chan struct{})
		url := rawService(t, func(c net.Conn, _ *bufio.Reader, _ []string) {
			arrived <- struct{}{}
			<-t.Context().Done()
		})
		e := startEdge(t, one(t, route.Deliver, url), func(o *forward.Options) { o.HangUpGrace = time.Millisecond })
		pop := make(chan int, 1)
		go func() { status, _ := e.get(t, "/pop"); pop <- status }()
		receive(t, arrived, "the pop")
		e.Drain()
		if status := receive(t, pop, "the pop's answer"); status != http.StatusNoContent {
			t.Errorf("the pop is answered with %d", status)
		}
	})
}

// The trap that this package exists for, in net/http: what TestServe forbids here happens there.
func TestTransportOfNetHTTPSendsAPopTwice(t *testing.T) {
	t.Parallel()
	requests := make(chan string, 10)
	url := rawService(t, func(c net.Conn, _ *bufio.Reader, head []string) {
		requests <- head[0]
		if len(requests) == 2 {
			_ = c.Close()
			return
		}
		fmt.Fprint(c, "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")
	})
	transport := &http.Transport{}
	t.Cleanup(transport.CloseIdleConnections)
	c := &http.Client{Transport: transport}
	for range 2 {
		answer, err := c.Get(url + "/pop")
		if err != nil {
			t.Fatal(err)
		}
		_, _ = io.Copy(io.Discard, answer.Body)
		answer.Body.Close()
	}
	if len(requests) != 3 {
		t.Errorf("2 pops were sent %d times; if net/http does not repeat them any more, this package's reasons need another look", len(requests))
	}
}
