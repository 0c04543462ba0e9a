package httpd

import (
	"net"
	"net/http"
	"sync"
)

// tracker counts requests in flight.
type tracker struct {
	mu      sync.Mutex
	n       int
	waiting chan struct{} // made by idle, closed when n falls to 0
}

func (t *tracker) enter() {
	t.mu.Lock()
	t.n++
	t.mu.Unlock()
}

func (t *tracker) leave() {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.n--; t.n == 0 && t.waiting != nil {
		close(t.waiting)
		t.waiting = nil
	}
}

func (t *tracker) count() int {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.n
}

// idle is closed as soon as no request is in flight. Only one caller waits at a time.
func (t *tracker) idle() <-chan struct{} {
	t.mu.Lock()
	defer t.mu.Unlock()
	done := make(chan struct{})
	if t.n == 0 {
		close(done)
	} else {
		t.waiting = done
	}
	return done
}

// freshConns knows the connections on which no request has begun. Closing one loses nothing that was asked.
type freshConns struct {
	mu     sync.Mutex
	conns  map[net.Conn]struct{}
	closed bool // every connection that appears from now on is closed
}

// track is the server's ConnState hook.
func (f *freshConns) track(conn net.Conn, state http.ConnState) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if state != http.StateNew {
		delete(f.conns, conn)
		return
	}
	if f.closed {
		drop(conn)
		return
	}
	if f.conns == nil {
		f.conns = map[net.Conn]struct{}{}
	}
	f.conns[conn] = struct{}{}
}

func (f *freshConns) close() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.closed = true
	for conn := range f.conns {
		drop(conn)
	}
}

// drop closes a connection that nothing was asked on; an error would mean that it is closed already.
func drop(conn net.Conn) { _ = conn.Close() }
