package pipe

import (
	"fmt"
	"net"
	"sync"
	"sync/atomic"
	"time"
)

// Flow is what becomes of bytes in one direction.
type Flow int

// The flows.
const (
	Pass Flow = iota
	Hold      // they wait until the flow changes
	Lose      // they are read and dropped; whoever waits for them never gets them
)

// State is what a pipe does to its connections. The zero value passes everything on.
type State struct {
	Up, Down Flow          // from who dialled, and to it
	Delay    time.Duration // of what goes up, so once for a question and its answer
	Rate     int           // bytes a second in each direction, 0: no limit
	Snip     bool          // cut a connection when the answer of a PostgreSQL server is complete, instead of delivering it
	Refuse   bool          // do not listen
}

// Pipe leads connections to one address.
type Pipe struct {
	From, To     string // names of the two ends
	here, target string // addresses
	port         int
	wg           sync.WaitGroup
	ended        chan struct{} // closed by Close
	snipped      atomic.Int64

	mu       sync.Mutex
	closed   bool
	listener net.Listener
	state    State
	turned   chan struct{} // closed and replaced when the state changes
	links    map[*link]bool
}

// New listens on a free port of the loopback address, for connections to port.
func New(from, to string, port int) (*Pipe, error) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, fmt.Errorf("listen between %s and %s: %w", from, to, err)
	}
	p := &Pipe{
		From: from, To: to, here: listener.Addr().String(), target: fmt.Sprintf("127.0.0.1:%d", port), port: listener.Addr().(*net.TCPAddr).Port,
		ended: make(chan struct{}), listener: listener, turned: make(chan struct{}), links: make(map[*link]bool),
	}
	p.wg.Go(p.serve)
	return p, nil
}

// Port is where it listens.
func (p *Pipe) Port() int { return p.port }

// Set changes what becomes of all connections, old and new. Connections of which something was lost are cut when the
// flow passes again: the rest would make no sense to their ends.
func (p *Pipe) Set(s State) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.state = s
	close(p.turned)
	p.turned = make(chan struct{})
	if s.Refuse {
		_ = p.listener.Close() // it may be closed already
	}
	if s.Up != Lose && s.Down != Lose {
		for l := range p.links {
			if l.torn.Load() {
				l.cut(true)
			}
		}
	}
}

// Heal passes everything on again.
func (p *Pipe) Heal() { p.Set(State{}) }

// Cut ends all connections: with a reset, or in order.
func (p *Pipe) Cut(reset bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for l := range p.links {
		l.cut(reset)
	}
}

// Waiting is how many connections have carried something up whose answer has not come down.
func (p *Pipe) Waiting() (n int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for l := range p.links {
		if l.asked.Load() {
			n++
		}
	}
	return n
}

// Snipped is how many connections were cut in the place of an answer.
func (p *Pipe) Snipped() int64 { return p.snipped.Load() }

// Close ends everything and returns when no goroutine is left.
func (p *Pipe) Close() {
	p.mu.Lock()
	if !p.closed {
		p.closed = true
		close(p.ended)
	}
	_ = p.listener.Close() // a second Close has nothing to close
	p.mu.Unlock()
	p.Cut(true)
	p.wg.Wait()
}

func (p *Pipe) now() (State, <-chan struct{}) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.state, p.turned
}

// serve makes links. While nobody listens behind it, and while it is to refuse, it does not listen either: who dials is
// refused by the system, as without a pipe.
func (p *Pipe) serve() {
	for {
		p.accept()
		if !p.listenAgain() {
			return
		}
	}
}

// accept makes links until the listener is closed.
func (p *Pipe) accept() {
	p.mu.Lock()
	listener := p.listener
	p.mu.Unlock()
	for {
		client, err := listener.Accept()
		if err != nil {
			return
		}
		server, err := p.dial()
		if err != nil {
			_ = listener.Close() // it may be closed already
			abort(client)
			return
		}
		p.keep(newLink(p, client.(*net.TCPConn), server.(*net.TCPConn)))
	}
}

// dial takes no time on this machine, or fails.
func (p *Pipe) dial() (net.Conn, error) { return net.DialTimeout("tcp", p.target, 2*time.Second) }

// listenPace is how often it is tried whether somebody listens again.
const listenPace = 10 * time.Millisecond

// listenAgain returns when it listens again; false when the pipe is closed.
func (p *Pipe) listenAgain() bool {
	next := time.NewTicker(listenPace)
	defer next.Stop()
	for {
		select {
		case <-p.ended:
			return false
		case <-next.C:
		}
		if s, _ := p.now(); s.Refuse {
			continue
		}
		server, err := p.dial()
		if err != nil {
			continue
		}
		_ = server.Close() // it has told what it was asked
		if p.open() {
			return true
		}
	}
}

// open listens where it did before; false when it must not or somebody has taken the port for a moment.
func (p *Pipe) open() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed || p.state.Refuse {
		return false
	}
	listener, err := net.Listen("tcp", p.here)
	if err != nil {
		return false
	}
	p.listener = listener
	return true
}

// abort ends a connection with a reset.
func abort(conn net.Conn) {
	_ = conn.(*net.TCPConn).SetLinger(0) // what fails on a socket that is given up tells nothing
	_ = conn.Close()
}

func (p *Pipe) keep(l *link) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		l.cut(true)
		return
	}
	p.links[l] = true
	p.wg.Go(func() {
		var up sync.WaitGroup
		up.Go(l.up)
		l.down()
		up.Wait()
		l.cut(false)
		p.mu.Lock()
		defer p.mu.Unlock()
		delete(p.links, l)
	})
}
