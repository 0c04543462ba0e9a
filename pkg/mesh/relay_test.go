package mesh_test

import (
	"io"
	"net"
	"sync"
	"testing"
)

// relay stands between two nodes, so that a test can part them.
type relay struct {
	listener net.Listener
	target   string
	wg       sync.WaitGroup

	mu    sync.Mutex
	shut  bool // closes what is open and takes nothing new
	conns map[net.Conn]bool
}

func newRelay(t *testing.T, target string) *relay {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	r := &relay{listener: listener, target: target, conns: map[net.Conn]bool{}}
	r.wg.Go(r.accept)
	t.Cleanup(func() {
		_ = listener.Close() // it is open once
		r.part()
		r.wg.Wait()
	})
	return r
}

func (r *relay) port() int { return r.listener.Addr().(*net.TCPAddr).Port }

// part cuts what passes and lets nothing pass until join.
func (r *relay) part() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.shut = true
	for c := range r.conns {
		_ = c.Close() // both ends notice
	}
}

func (r *relay) join() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.shut = false
}

// keep says whether the connection may live.
func (r *relay) keep(c net.Conn) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !r.shut {
		r.conns[c] = true
	}
	return !r.shut
}

func (r *relay) accept() {
	for {
		from, err := r.listener.Accept()
		if err != nil {
			return
		}
		r.wg.Go(func() { r.pass(from) })
	}
}

func (r *relay) pass(from net.Conn) {
	defer func() { _ = from.Close() }()
	if !r.keep(from) {
		return
	}
	to, err := net.Dial("tcp", r.target)
	if err != nil {
		return
	}
	defer func() { _ = to.Close() }()
	if !r.keep(to) {
		return
	}
	back := make(chan struct{})
	go func() {
		defer close(back)
		_, _ = io.Copy(from, to) // ends when either is closed
		_ = from.Close()
	}()
	_, _ = io.Copy(to, from)
	_ = to.Close()
	<-back
}
