package pipe

import (
	"errors"
	"io"
	"net"
	"sync"
	"sync/atomic"
	"time"
)

// chunk is how much is carried at a time.
const chunk = 32 << 10

// link is one connection and the one behind it.
type link struct {
	pipe           *Pipe
	client, server *net.TCPConn
	ended          chan struct{} // closed by cut
	once           sync.Once
	asked          atomic.Bool // the last bytes went up
	torn           atomic.Bool // bytes of it were lost
}

func newLink(p *Pipe, client, server *net.TCPConn) *link {
	return &link{pipe: p, client: client, server: server, ended: make(chan struct{})}
}

// cut ends both connections and whatever waits for them.
func (l *link) cut(reset bool) {
	l.once.Do(func() {
		close(l.ended)
		for _, conn := range []*net.TCPConn{l.client, l.server} {
			if reset {
				abort(conn)
			} else {
				_ = conn.Close() // the other end may have been faster
			}
		}
	})
}

// up carries what the client sends. A client that hangs up is told to the server after everything it has sent.
func (l *link) up() {
	l.carry(l.client, l.server, func(s State) Flow { return s.Up }, func(s State, _ []byte) bool {
		l.asked.Store(true)
		return s.Delay == 0 || l.pause(s.Delay)
	})
}

// down carries what the server sends.
func (l *link) down() {
	var answers answers
	greeted := false // the first answer is the server's welcome
	l.carry(l.server, l.client, func(s State) Flow { return s.Down }, func(s State, data []byte) bool {
		ends := answers.feed(data)
		welcome := !greeted && ends > 0
		greeted = greeted || welcome
		if s.Snip && ends > 0 && !welcome {
			l.pipe.snipped.Add(1)
			l.cut(true)
			return false
		}
		l.asked.Store(false)
		return true
	})
}

// carry copies one direction until it ends. see is shown all that is carried before it is written; false ends it.
func (l *link) carry(from, to *net.TCPConn, flow func(State) Flow, see func(State, []byte) bool) {
	buffer := make([]byte, chunk)
	for {
		n, err := from.Read(buffer)
		if n > 0 && !l.pass(to, buffer[:n], flow, see) {
			return
		}
		if errors.Is(err, io.EOF) {
			if l.await(flow) {
				_ = to.CloseWrite() // the other side may have hung up as well
			}
			return
		}
		if err != nil { // a reset goes on as one
			if l.await(flow) {
				l.cut(true)
			}
			return
		}
	}
}

// pass carries one chunk as the state wants it; false when the link has ended.
func (l *link) pass(to *net.TCPConn, data []byte, flow func(State) Flow, see func(State, []byte) bool) bool {
	if !l.await(flow) {
		return false
	}
	s, _ := l.pipe.now()
	if !see(s, data) {
		return false
	}
	if flow(s) == Lose {
		l.torn.Store(true)
		return true
	}
	if s.Rate > 0 && !l.pause(time.Duration(len(data))*time.Second/time.Duration(s.Rate)) {
		return false
	}
	if _, err := to.Write(data); err != nil {
		l.cut(true)
		return false
	}
	return true
}

// await returns when nothing is held; false when the link has ended.
func (l *link) await(flow func(State) Flow) bool {
	for {
		s, turned := l.pipe.now()
		if flow(s) != Hold {
			select {
			case <-l.ended:
				return false
			default:
				return true
			}
		}
		select {
		case <-turned:
		case <-l.ended:
			return false
		}
	}
}

func (l *link) pause(d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-l.ended:
		return false
	}
}
