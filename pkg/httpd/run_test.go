package httpd

import (
	"bufio"
	"context"
	"errors"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"strings"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gin-gonic/gin"
)

// running is a server with a real listener.
type running struct {
	*Server
	stop   func() error // tells it to stop and waits; safe to call again
	ended  chan struct{}
	client *http.Client
}

func (b *bundle) run(t *testing.T) *running {
	t.Helper()
	s := b.server(t)
	if err := s.Listen(); err != nil {
		t.Fatal(err)
	}
	return s.running(t, &http.Transport{})
}

// running starts the server, which has its listener.
func (s *Server) running(t *testing.T, transport *http.Transport) *running {
	r := &running{Server: s, ended: make(chan struct{}), client: &http.Client{Transport: transport}}
	ctx, cancel := context.WithCancel(t.Context())
	var err error
	go func() {
		defer close(r.ended)
		err = s.Run(ctx)
	}()
	r.stop = func() error { cancel(); <-r.ended; return err }
	t.Cleanup(func() {
		transport.CloseIdleConnections()
		if err := r.stop(); err != nil {
			t.Errorf("run: %v", err)
		}
	})
	return r
}

// pipes is a listener of connections in memory, whose deadlines obey the time of a synctest bubble.
type pipes struct {
	conns  chan net.Conn
	closed chan struct{}
}

func (p *pipes) Accept() (net.Conn, error) {
	select {
	case conn := <-p.conns:
		return conn, nil
	case <-p.closed:
		return nil, net.ErrClosed
	}
}

func (p *pipes) Close() error   { close(p.closed); return nil }
func (p *pipes) Addr() net.Addr { return &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: 1} }

// dial is a new connection to whoever accepts.
func (p *pipes) dial(context.Context, string, string) (net.Conn, error) {
	client, server := net.Pipe()
	select {
	case p.conns <- server:
		return client, nil
	case <-p.closed:
		return nil, syscall.ECONNREFUSED
	}
}

// runOnPipes starts the server inside a synctest bubble.
func (b *bundle) runOnPipes(t *testing.T) (*running, *pipes) {
	t.Helper()
	s, p := b.server(t), &pipes{make(chan net.Conn), make(chan struct{})}
	s.listener = p
	return s.running(t, &http.Transport{DialContext: p.dial}), p
}

// raw sends bytes on a connection of its own and returns it.
func (r *running) raw(t *testing.T, request string) (net.Conn, *bufio.Reader) {
	t.Helper()
	conn, err := net.Dial("tcp", r.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { drop(conn) })
	if _, err := io.WriteString(conn, request); err != nil {
		t.Fatal(err)
	}
	return conn, bufio.NewReader(conn)
}

// readHead reads a response up to the blank line.
func readHead(t *testing.T, r *bufio.Reader) string {
	t.Helper()
	var head strings.Builder
	for {
		line, err := r.ReadString('\n')
		if err != nil {
			t.Fatalf("after %q: %v", head.String(), err)
		}
		if line == "\r\n" {
			return head.String()
		}
		head.WriteString(line)
	}
}

// parked is a handler that waits to be released, or until the server drains.
type parked struct {
	in, release chan struct{}
}

func newParked() parked { return parked{make(chan struct{}, 8), make(chan struct{})} }

func (p parked) poll(c *gin.Context) {
	p.in <- struct{}{}
	select {
	case <-Draining(c):
		NoContent(c)
	case <-p.release:
		JSON(c, http.StatusOK, "message")
	case <-c.Request.Context().Done():
		Fail(c, c.Request.Context().Err())
	}
}

func (p parked) work(c *gin.Context) {
	p.in <- struct{}{}
	<-p.release
	JSON(c, http.StatusOK, "worked")
}

type result struct {
	status int
	body   string
	close  bool
	err    error
}

func (r *running) async(method, path string) <-chan result {
	results := make(chan result, 1)
	go func() { results <- r.fetch(method, path) }()
	return results
}

func (r *running) fetch(method, path string) result {
	req, err := http.NewRequest(method, r.URL()+path, http.NoBody)
	if err != nil {
		return result{err: err}
	}
	res, err := r.client.Do(req)
	if err != nil {
		return result{err: err}
	}
	defer res.Body.Close()
	body, err := io.ReadAll(res.Body)
	return result{res.StatusCode, string(body), res.Close, err}
}

func TestStopTellsParkedPollsAndFinishesWorkInFlight(t *testing.T) {
	t.Parallel()
	b := newBundle()
	polls, work := newParked(), newParked()
	b.options.Handlers["pop_discover"], b.options.Handlers["ack"] = polls.poll, work.work
	b.options.ShutdownTimeout = time.Minute
	mesh := toldMesh{make(chan struct{})}
	b.options.Mesh = mesh
	r := b.run(t)
	poll, ack := r.async("GET", "/api/v1/pop"), r.async("POST", "/api/v1/ack")
	<-polls.in
	<-work.in

	stopped := make(chan error, 1)
	go func() { stopped <- r.stop() }()
	if got := <-poll; got != (result{status: 204, close: true}) {
		t.Errorf("the parked poll gets %+v", got)
	}
	<-mesh.drained // while work is in flight
	select {
	case err := <-stopped:
		t.Fatalf("stopped (%v) before the work in flight was done", err)
	default:
	}
	close(work.release)
	if got := <-ack; got != (result{status: 200, body: `"worked"`, close: true}) {
		t.Errorf("the work in flight gets %+v", got)
	}
	if err := <-stopped; err != nil {
		t.Error(err)
	}
	if conn, err := net.Dial("tcp", r.Addr().String()); err == nil {
		drop(conn)
		t.Error("a connection is accepted after the stop")
	}
}

func TestServerServesOnDuringTheDrainDelayWithReadinessOff(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := newBundle()
		polls := newParked()
		b.options.Handlers["pop_discover"] = polls.poll
		b.options.DrainDelay, b.options.ShutdownTimeout = time.Second, time.Minute
		r, _ := b.runOnPipes(t)
		poll := r.async("GET", "/api/v1/pop")
		<-polls.in
		told := time.Now()
		go func() { _ = r.stop() }()
		<-poll // the drain has begun; while the requests below are under way the bubble's time stands still
		if got := r.fetch("GET", "/readyz"); got.status != 503 || !got.close || !strings.Contains(got.body, "shutting down") {
			t.Errorf("readyz answers %+v", got)
		}
		if got := r.fetch("POST", "/api/v1/ack"); got != (result{status: 200, body: `"ack"`, close: true}) {
			t.Errorf("a new request gets %+v", got)
		}
		if got := r.fetch("GET", "/api/v1/pop"); got.status != 204 || !got.close {
			t.Errorf("a new poll gets %+v", got)
		}
		if err := r.stop(); err != nil || time.Since(told) < time.Second {
			t.Errorf("stopped after %v: %v", time.Since(told), err)
		}
	})
}

func TestStopDoesNotWaitForConnectionsThatAskedNothing(t *testing.T) {
	t.Parallel()
	b := newBundle()
	b.options.ShutdownTimeout = time.Minute
	r := b.run(t)
	_, fresh := r.raw(t, "")
	_, half := r.raw(t, "GET /livez HT")
	_, idle := r.raw(t, "GET /livez HTTP/1.1\r\nHost: h\r\n\r\n")
	readHead(t, idle)
	if err := r.stop(); err != nil {
		t.Error(err)
	}
	for name, conn := range map[string]*bufio.Reader{"fresh": fresh, "half": half, "idle": idle} {
		if _, err := io.Copy(io.Discard, conn); err != nil && !strings.Contains(err.Error(), "reset") {
			t.Errorf("the %s connection ends with %v", name, err)
		}
	}
	if log := b.log.String(); strings.Contains(log, "cut") {
		t.Errorf("something was cut: %s", log)
	}
}

func TestStopCutsWhatDoesNotEndInTime(t *testing.T) {
	t.Parallel()
	b := newBundle()
	causes := make(chan error, 1)
	in := make(chan struct{})
	b.options.Handlers["ack"] = func(c *gin.Context) {
		close(in)
		<-c.Request.Context().Done()
		causes <- context.Cause(c.Request.Context())
		Fail(c, c.Request.Context().Err())
	}
	b.options.ShutdownTimeout = 10 * time.Millisecond
	r := b.run(t)
	ack := r.async("POST", "/api/v1/ack")
	<-in
	if err := r.stop(); err != nil {
		t.Error(err)
	}
	if cause := <-causes; !errors.Is(cause, errCut) {
		t.Errorf("the handler's context ended with %v", cause)
	}
	if got := <-ack; got.err == nil && got.status != statusClientGone {
		t.Errorf("the client gets %+v", got)
	}
	if log := b.log.String(); !strings.Contains(log, "WARN http: requests cut at shutdown in_flight=1 after=10ms") {
		t.Errorf("log %s", log)
	}
}

func TestRequestContextEndsWhenTheClientLeaves(t *testing.T) {
	t.Parallel()
	b := newBundle()
	polls := newParked()
	b.options.Handlers["pop_discover"] = polls.poll
	done := make(chan struct{})
	b.options.Handlers["pop_queue"] = func(c *gin.Context) { defer close(done); polls.poll(c) }
	r := b.run(t)
	conn, _ := r.raw(t, "GET /api/v1/pop/queue/q HTTP/1.1\r\nHost: h\r\n\r\n")
	<-polls.in
	drop(conn)
	<-done
}

func TestTakenAddressIsOneClearError(t *testing.T) {
	t.Parallel()
	r := newBundle().run(t)
	b := newBundle()
	b.options.Addr = r.Addr().String()
	s := b.server(t)
	want := "listen on " + b.options.Addr + ": the address is in use (see PORT and QUEEN_BIND_ADDR)"
	if err := s.Run(t.Context()); err == nil || err.Error() != want {
		t.Errorf("got %v, want %s", err, want)
	}
	if s.Addr() != nil || s.URL() != "" {
		t.Errorf("a server that does not listen has the address %v", s.Addr())
	}
}

func TestAcceptFailureEndsRun(t *testing.T) {
	t.Parallel()
	s := newBundle().server(t)
	if err := s.Listen(); err != nil {
		t.Fatal(err)
	}
	if err := s.Listen(); err != nil {
		t.Errorf("the second Listen says %v", err)
	}
	if err := s.listener.Close(); err != nil {
		t.Fatal(err)
	}
	if err := s.Run(t.Context()); !errors.Is(err, net.ErrClosed) {
		t.Errorf("got %v", err)
	}
}

func TestServerStartsAndStopsUnderLoad(t *testing.T) {
	t.Parallel()
	for range 40 {
		b := newBundle()
		polls := newParked()
		polls.in = make(chan struct{}, 1000)
		b.options.Handlers["pop_discover"] = polls.poll
		b.options.ShutdownTimeout = time.Minute
		r := b.run(t)
		var clients sync.WaitGroup
		for range 4 {
			clients.Go(func() {
				for {
					got := r.fetch("GET", "/api/v1/pop")
					if got.err != nil {
						return // refused or closed: the server is gone
					}
					if got.status != 204 {
						t.Errorf("got %+v", got)
					}
				}
			})
		}
		if rand.N(2) == 0 {
			<-polls.in
		}
		if err := r.stop(); err != nil {
			t.Error(err)
		}
		clients.Wait()
	}
}
