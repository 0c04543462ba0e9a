package testkit

import (
	"bufio"
	"bytes"
	"io"
	"net"
	"sync"
	"time"
)

// link is one client's connection and the one to the server behind it.
type link struct {
	proxy          *Proxy
	client, server *net.TCPConn
	ended          chan struct{} // closed by cut
	once           sync.Once

	mu      sync.Mutex
	waiting []*exchange // forwarded and not completely answered, oldest first
}

func newLink(p *Proxy, client, server *net.TCPConn) *link {
	return &link{proxy: p, client: client, server: server, ended: make(chan struct{})}
}

// cut ends both connections and whatever waits for them.
func (l *link) cut() {
	l.once.Do(func() {
		close(l.ended)
		// Errors of closing a socket that is given up tell nothing.
		_ = l.client.Close()
		_ = l.server.Close()
	})
}

// pass waits until traffic may pass; false when the link was cut.
func (l *link) pass() bool { return l.wait(l.proxy.passage()) }

func (l *link) wait(event <-chan struct{}) bool {
	select {
	case <-event:
	case <-l.ended:
	}
	select {
	case <-l.ended:
		return false
	default:
		return true
	}
}

// up carries what the client sends. When the client hangs up the server is told so after everything before it, and the
// link ends when the server does.
func (l *link) up() {
	from := bufio.NewReaderSize(l.client, 64<<10)
	if !l.open(from) {
		return
	}
	s := session{prepared: make(map[string]string), portals: make(map[string]string)}
	ex := &exchange{}
	for {
		m, err := readMessage(from)
		if err != nil {
			if l.pass() {
				_ = l.server.CloseWrite() // the server may have hung up first
			}
			return
		}
		if !s.add(ex, m) {
			continue
		}
		if !l.forward(ex, len(m.raw)) {
			return
		}
		ex = &exchange{}
	}
}

// open forwards the first message; false when nothing follows it.
func (l *link) open(from *bufio.Reader) bool {
	for {
		code, raw, err := readFirst(from)
		if err != nil || !l.pass() {
			l.cut()
			return false
		}
		switch code {
		case sslRequest, gssRequest:
			if _, err := l.client.Write([]byte{'N'}); err != nil {
				l.cut()
				return false
			}
		case cancelRequest: // the server answers by hanging up
			if _, err := l.server.Write(raw); err != nil {
				l.cut()
			}
			return false
		default:
			return l.send(&exchange{bytes: raw, answered: true}, 0)
		}
	}
}

// forward does with an exchange what its trap says. last is how many bytes its last message has.
func (l *link) forward(ex *exchange, last int) bool {
	l.proxy.arrive(ex)
	tr := ex.trap
	if tr == nil {
		return l.send(ex, 0)
	}
	switch tr.action {
	case CutStatement:
		l.cut()
		close(tr.sprung)
		return false
	case HoldStatement:
		close(tr.sprung)
		return l.wait(tr.released) && l.send(ex, 0)
	case DelayStatement:
		close(tr.sprung)
		pause := time.NewTimer(tr.pause)
		defer pause.Stop()
		select {
		case <-pause.C:
		case <-l.ended:
			return false
		}
		return l.send(ex, 0)
	case HoldEnd:
		return l.send(ex, last)
	default: // the answer's turn is later
		return l.send(ex, 0)
	}
}

// send writes an exchange to the server; the bytes held back follow when its trap is released.
func (l *link) send(ex *exchange, held int) bool {
	if !l.pass() {
		return false
	}
	if ex.answered {
		l.mu.Lock()
		l.waiting = append(l.waiting, ex)
		l.mu.Unlock()
	}
	now, later := ex.bytes[:len(ex.bytes)-held], ex.bytes[len(ex.bytes)-held:]
	ex.bytes = nil
	if _, err := l.server.Write(now); err != nil {
		return false // down sees why, and ends the link
	}
	if held == 0 {
		return true
	}
	close(ex.trap.sprung)
	if !l.wait(ex.trap.released) {
		return false
	}
	_, err := l.server.Write(later)
	return err == nil
}

// current is the exchange that the server is answering; nil for what it says unasked.
func (l *link) current() *exchange {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.waiting) == 0 {
		return nil
	}
	return l.waiting[0]
}

func (l *link) answered() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.waiting = l.waiting[1:]
}

// down carries what the server sends, an answer at a time or as far as it has come. A client that is gone does not keep
// the rest from being read.
func (l *link) down() {
	from := bufio.NewReaderSize(l.server, 64<<10)
	var out bytes.Buffer
	for {
		m, err := readMessage(from)
		if err != nil {
			l.rest(from, &out)
			return
		}
		out.Write(m.raw)
		ex := l.current()
		if ex == nil {
			l.deliver(&out)
			continue
		}
		ex.answer.add(m)
		if m.kind != 'Z' {
			if from.Buffered() == 0 && (ex.trap == nil || ex.trap.action != DropAnswer && ex.trap.action != HoldAnswer) {
				l.deliver(&out)
			}
			continue
		}
		l.answered()
		if !l.finish(ex) {
			return
		}
		l.deliver(&out)
	}
}

// finish ends an exchange whose answer is complete; false when the client must not see it.
func (l *link) finish(ex *exchange) bool {
	tr := ex.trap
	if tr == nil {
		return true
	}
	tr.answer = ex.answer
	close(tr.answered)
	switch tr.action {
	case DropAnswer:
		l.cut()
		close(tr.sprung)
		return false
	case HoldAnswer:
		close(tr.sprung)
		return l.wait(tr.released)
	}
	return true
}

func (l *link) deliver(out *bytes.Buffer) {
	if l.pass() {
		_, _ = l.client.Write(out.Bytes()) // up sees that the client is gone
	}
	out.Reset()
}

// rest delivers what came before the server hung up, which a stalled link shows only when it is resumed.
func (l *link) rest(from *bufio.Reader, out *bytes.Buffer) {
	if ex := l.current(); ex != nil && ex.trap != nil && ex.trap.action == DropAnswer {
		return
	}
	_, _ = io.CopyN(out, from, int64(from.Buffered())) // an unfinished message, already read
	l.deliver(out)
}
