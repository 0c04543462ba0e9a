package meshtest

import (
	"fmt"
	"testing"

	"github.com/nats-io/nats-server/v2/server"
)

// NATS is a server that somebody runs for other reasons as well.
type NATS struct {
	options server.Options
	server  *server.Server
}

// StartNATS starts one on a port of the loopback address, 0 for any that is free, until the test ends. Clients come with
// one of these keys; without keys everybody may come.
func StartNATS(t testing.TB, port int, keys ...string) *NATS {
	t.Helper()
	n := &NATS{options: server.Options{Host: "127.0.0.1", Port: port, NoSigs: true, NoLog: true, NoSystemAccount: true}}
	if port == 0 {
		n.options.Port = server.RANDOM_PORT
	}
	for _, key := range keys {
		n.options.Nkeys = append(n.options.Nkeys, &server.NkeyUser{Nkey: key})
	}
	n.start(t)
	t.Cleanup(n.End)
	return n
}

func (n *NATS) start(t testing.TB) {
	t.Helper()
	options := n.options
	s, err := server.NewServer(&options)
	if err != nil {
		t.Fatal(err)
	}
	s.Start()
	n.server, n.options.Port = s, options.Port // it was chosen by now
}

// Port is where it listens.
func (n *NATS) Port() int { return n.options.Port }

// URL is its address.
func (n *NATS) URL() string { return fmt.Sprintf("nats://127.0.0.1:%d", n.Port()) }

// End cuts every connection, says good-bye to nobody, and returns when nothing is left. It may be called again.
func (n *NATS) End() {
	n.server.Shutdown()
	n.server.WaitForShutdown()
}

// Return starts it again where it was, after End.
func (n *NATS) Return(t testing.TB) {
	t.Helper()
	n.start(t)
}
