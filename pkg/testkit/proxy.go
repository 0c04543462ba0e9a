package testkit

import (
	"fmt"
	"net"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"queen.internal/pkg/pg"
)

// Proxy stands between clients and one PostgreSQL server. Make it with NewProxy or Between.
type Proxy struct {
	listener net.Listener
	target   string
	wg       sync.WaitGroup

	mu     sync.Mutex
	closed bool
	links  map[*link]bool
	traps  []*Trap
	seen   map[string]int // statements by text
	news   chan struct{}  // closed and replaced when seen changes
	gate   chan struct{}  // closed while traffic may pass
}

// NewProxy forwards to the server at target, host:port, until the test ends.
func NewProxy(t testing.TB, target string) *Proxy {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	open := make(chan struct{})
	close(open)
	p := &Proxy{
		listener: listener, target: target,
		links: make(map[*link]bool), seen: make(map[string]int), news: make(chan struct{}), gate: open,
	}
	p.wg.Go(p.accept)
	t.Cleanup(p.Close)
	return p
}

// Between puts a proxy in front of cfg's server and returns cfg with the proxy in its place.
func Between(t testing.TB, cfg pg.Config) (*Proxy, pg.Config) {
	t.Helper()
	p := NewProxy(t, net.JoinHostPort(cfg.Host, strconv.Itoa(cfg.Port)))
	cfg.Host, cfg.Port = "127.0.0.1", p.Port()
	return p, cfg
}

// Port is where the proxy listens on the loopback address.
func (p *Proxy) Port() int { return p.listener.Addr().(*net.TCPAddr).Port }

// Close cuts every connection, accepts no more, and returns when no goroutine of the proxy is left.
func (p *Proxy) Close() {
	p.mu.Lock()
	p.closed = true
	p.mu.Unlock()
	_ = p.listener.Close() // a second Close has nothing to close
	p.Cut()
	p.wg.Wait()
}

// Cut closes every connection on both sides.
func (p *Proxy) Cut() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for l := range p.links {
		l.cut()
	}
}

// Stall lets nothing pass any more, in either direction, and keeps every connection open; new ones are accepted and
// hang as well.
func (p *Proxy) Stall() {
	p.mu.Lock()
	defer p.mu.Unlock()
	select {
	case <-p.gate:
		p.gate = make(chan struct{})
	default: // stalled already
	}
}

// Resume lets everything pass that Stall has held up.
func (p *Proxy) Resume() {
	p.mu.Lock()
	defer p.mu.Unlock()
	select {
	case <-p.gate:
	default:
		close(p.gate)
	}
}

// Next traps the next exchange that executes a statement whose SQL has text in it.
func (p *Proxy) Next(action Action, text string) *Trap { return p.Nth(1, action, text) }

// Nth traps the n-th such exchange from now. Traps of one text count on their own, so that Next and Nth(2) get two
// exchanges in a row; of several whose turn it is, the oldest has it and the others take later ones.
func (p *Proxy) Nth(n int, action Action, text string) *Trap { return p.set(newTrap(action, n, text)) }

// Delay forwards the next such exchange after pause.
func (p *Proxy) Delay(pause time.Duration, text string) *Trap {
	tr := newTrap(DelayStatement, 1, text)
	tr.pause = pause
	return p.set(tr)
}

func (p *Proxy) set(tr *Trap) *Trap {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.traps = append(p.traps, tr)
	return tr
}

// Count is how many statements with text in them clients have sent to be executed, forwarded or not.
func (p *Proxy) Count(text string) int {
	n, _ := p.count(text)
	return n
}

func (p *Proxy) count(text string) (n int, news <-chan struct{}) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for sql, times := range p.seen {
		if strings.Contains(sql, text) {
			n += times
		}
	}
	return n, p.news
}

// AwaitCount returns when Count(text) is at least n.
func (p *Proxy) AwaitCount(t testing.TB, text string, n int) {
	t.Helper()
	for {
		got, news := p.count(text)
		if got >= n {
			return
		}
		await(t, news, fmt.Sprintf("%d statements with %s, want %d", got, text, n))
	}
}

// Connections is how many clients are connected.
func (p *Proxy) Connections() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.links)
}

// arrive counts an exchange and finds its trap.
func (p *Proxy) arrive(ex *exchange) {
	if len(ex.sql) == 0 {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, text := range ex.sql {
		p.seen[text]++
	}
	close(p.news)
	p.news = make(chan struct{})
	var left []*Trap
	for _, tr := range p.traps {
		if tr.matches(ex.sql) {
			if tr.left == 1 && ex.trap == nil {
				ex.trap = tr
				continue
			}
			tr.left = max(tr.left-1, 1)
		}
		left = append(left, tr)
	}
	p.traps = left
}

func (p *Proxy) passage() <-chan struct{} {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.gate
}

// accept makes a link of every connection until the listener is closed.
func (p *Proxy) accept() {
	for {
		client, err := p.listener.Accept()
		if err != nil {
			return
		}
		server, err := net.Dial("tcp", p.target)
		if err != nil {
			_ = client.Close() // what the client would see without a proxy
			continue
		}
		p.keep(newLink(p, client.(*net.TCPConn), server.(*net.TCPConn)))
	}
}

func (p *Proxy) keep(l *link) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		l.cut()
		return
	}
	p.links[l] = true
	p.wg.Go(func() {
		var up sync.WaitGroup
		up.Go(l.up)
		l.down()
		l.cut()
		up.Wait()
		p.mu.Lock()
		defer p.mu.Unlock()
		delete(p.links, l)
	})
}
