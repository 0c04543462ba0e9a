package pg_test

import (
	"net"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"

	"queen.internal/pkg/pg"
)

// proxy stands between a pool and a server, so that a test can take the network away.
type proxy struct {
	listener net.Listener
	target   string
	silent   atomic.Bool // answers of the server are swallowed

	mu    sync.Mutex
	open  map[net.Conn]bool
	ended bool
	wg    sync.WaitGroup
}

// startProxy forwards connections to the server of cfg from address, and returns cfg with the proxy in it. The proxy
// ends with the test.
func startProxy(t *testing.T, cfg pg.Config, address string) (*proxy, pg.Config) {
	t.Helper()
	listener, err := net.Listen("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	p := &proxy{listener: listener, target: net.JoinHostPort(cfg.Host, strconv.Itoa(cfg.Port)), open: map[net.Conn]bool{}}
	p.wg.Go(p.accept)
	t.Cleanup(p.close)
	cfg.Host, cfg.Port = "127.0.0.1", listener.Addr().(*net.TCPAddr).Port
	return p, cfg
}

func (p *proxy) accept() {
	for {
		client, err := p.listener.Accept()
		if err != nil {
			return
		}
		server, err := net.Dial("tcp", p.target)
		if err != nil {
			_ = client.Close()
			continue
		}
		if !p.keep(client, server) {
			return
		}
		p.wg.Go(func() { p.copy(server, client, false) })
		p.wg.Go(func() { p.copy(client, server, true) })
	}
}

// keep registers a pair for cut; false when the proxy has ended.
func (p *proxy) keep(pair ...net.Conn) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, conn := range pair {
		if p.ended {
			_ = conn.Close()
		}
		p.open[conn] = true
	}
	return !p.ended
}

func (p *proxy) copy(to, from net.Conn, answers bool) {
	defer func() { _ = to.Close() }()
	defer func() { _ = from.Close() }()
	buffer := make([]byte, 32<<10)
	for {
		n, err := from.Read(buffer)
		if n > 0 && !(answers && p.silent.Load()) {
			if _, err := to.Write(buffer[:n]); err != nil {
				return
			}
		}
		if err != nil {
			return
		}
	}
}

// cut closes every connection on both sides.
func (p *proxy) cut() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for conn := range p.open {
		_ = conn.Close()
		delete(p.open, conn)
	}
}

func (p *proxy) close() {
	p.mu.Lock()
	p.ended = true
	p.mu.Unlock()
	_ = p.listener.Close()
	p.cut()
	p.wg.Wait()
}
