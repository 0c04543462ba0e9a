package meshtest

import (
	"io"
	"net"
	"sync"
	"testing"
)

// Relay stands before one address.
type Relay struct {
	listener net.Listener
	target   string
	wg       sync.WaitGroup

	mu    sync.Mutex
	shut  bool // closes what is open and takes nothing new
	conns map[net.Conn]bool
	clear chan struct{} // closed while anything may pass
}

// NewRelay starts one, until the test ends.
func NewRelay(t testing.TB, target string) *Relay {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	r := &Relay{listener: listener, target: target, conns: map[net.Conn]bool{}, clear: make(chan struct{})}
	close(r.clear)
	r.wg.Go(r.accept)
	t.Cleanup(func() {
		_ = listener.Close() // it is open once
		r.Part()
		r.wg.Wait()
	})
	return r
}

// Port is where it listens.
func (r *Relay) Port() int { return r.listener.Addr().(*net.TCPAddr).Port }

// Part cuts what passes and lets nothing pass until Join.
func (r *Relay) Part() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.shut = true
	r.open()
	for c := range r.conns {
		_ = c.Close() // both ends notice
		delete(r.conns, c)
	}
}

// Join ends Part.
func (r *Relay) Join() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.shut = false
}

// Stall stops taking bytes, while connections stay open and new ones are accepted, until Resume or Part. What was under
// way may still arrive.
func (r *Relay) Stall() {
	r.mu.Lock()
	defer r.mu.Unlock()
	select {
	case <-r.clear:
		r.clear = make(chan struct{})
	default: // it does so already
	}
}

// Resume ends Stall.
func (r *Relay) Resume() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.open()
}

// open lets wait nobody. The caller holds the mutex.
func (r *Relay) open() {
	select {
	case <-r.clear:
	default:
		close(r.clear)
	}
}

// keep says whether the connection may live.
func (r *Relay) keep(c net.Conn) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !r.shut {
		r.conns[c] = true
	}
	return !r.shut
}

func (r *Relay) passage() <-chan struct{} {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.clear
}

func (r *Relay) accept() {
	for {
		from, err := r.listener.Accept()
		if err != nil {
			return
		}
		r.wg.Go(func() { r.pass(from) })
	}
}

func (r *Relay) pass(from net.Conn) {
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
		r.carry(from, to)
		_ = from.Close()
	}()
	r.carry(to, from)
	_ = to.Close()
	<-back
}

// carry copies until either end is closed.
func (r *Relay) carry(to io.Writer, from io.Reader) {
	buffer := make([]byte, 16<<10)
	for {
		<-r.passage()
		n, err := from.Read(buffer)
		if err != nil {
			return
		}
		<-r.passage()
		if _, err := to.Write(buffer[:n]); err != nil {
			return
		}
	}
}
