package main

import (
	"io"
	"net"
	"strconv"
	"sync"
	"testing"

	"queen.internal/pkg/pg"
)

// state is what a link does with the bytes of its connections.
type state int

const (
	up   state = iota // passes them on
	held              // keeps what clients send; asked tells that something came
	down              // cuts connections, and new ones at once
)

// link is a relay between ingest and its database that the test can hold and cut.
type link struct {
	database pg.Config
	listener net.Listener
	asked    chan struct{} // gets an element when a client sends while the link is held

	mu      sync.Mutex
	moved   sync.Cond // the state changed
	state   state
	open    map[net.Conn]bool
	running sync.WaitGroup
}

func newLink(t testing.TB, database pg.Config) *link {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	l := &link{database: database, listener: listener, asked: make(chan struct{}, 100), open: map[net.Conn]bool{}}
	l.moved.L = &l.mu
	l.running.Go(l.accept)
	t.Cleanup(func() {
		_ = listener.Close()
		l.set(down)
		l.running.Wait()
	})
	return l
}

// config leads to the database through the link.
func (l *link) config() pg.Config {
	c := l.database
	addr := l.listener.Addr().(*net.TCPAddr)
	c.Host, c.Port = addr.IP.String(), addr.Port
	return c
}

func (l *link) set(s state) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.state = s
	if s == down {
		for conn := range l.open {
			_ = conn.Close()
		}
	}
	l.moved.Broadcast()
}

// admit registers a connection, unless the link is down.
func (l *link) admit(conn net.Conn) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.state == down {
		_ = conn.Close()
		return false
	}
	l.open[conn] = true
	return true
}

func (l *link) accept() {
	for {
		client, err := l.listener.Accept()
		if err != nil {
			return
		}
		l.running.Go(func() { l.relay(client) })
	}
}

func (l *link) relay(client net.Conn) {
	if !l.admit(client) {
		return
	}
	defer l.forget(client)
	server, err := net.Dial("tcp", net.JoinHostPort(l.database.Host, strconv.Itoa(l.database.Port)))
	if err != nil || !l.admit(server) {
		return
	}
	defer l.forget(server)
	answers := make(chan struct{})
	go func() {
		defer close(answers)
		_, _ = io.Copy(client, server)
		_ = client.Close()
	}()
	buf := make([]byte, 64<<10)
	for {
		n, err := client.Read(buf)
		if err != nil || !l.pass() {
			break
		}
		if _, err = server.Write(buf[:n]); err != nil {
			break
		}
	}
	_ = server.Close()
	<-answers
}

// pass waits while the link is held; it is false when it went down.
func (l *link) pass() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.state == held {
		l.asked <- struct{}{}
	}
	for l.state == held {
		l.moved.Wait()
	}
	return l.state == up
}

func (l *link) forget(conn net.Conn) {
	_ = conn.Close()
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.open, conn)
}
