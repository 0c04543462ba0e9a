package pgserver

import (
	"errors"
	"math/rand/v2"
	"net"
	"strconv"
	"sync"
)

// Ports are taken from below the ranges that systems draw the local ports of outgoing connections from (32768 on Linux,
// 49152 on macOS). Otherwise, while a server is down, a client that dials its port again and again can be given this
// very port as its own, connects to itself, and keeps the server from coming back.
const (
	lowestPort  = 15000
	highestPort = 31999
)

var (
	handedOutMu sync.Mutex
	handedOut   = map[int]bool{} // a port is free until somebody listens, so what was given away is remembered
)

// FreePort returns a TCP port that nobody listens on at the loopback address and that this process has not got from
// FreePort before. Another process may still take it; the caller that cannot bind it asks again.
func FreePort() (int, error) {
	handedOutMu.Lock()
	defer handedOutMu.Unlock()
	for range 1000 {
		port := lowestPort + rand.IntN(highestPort-lowestPort+1)
		if !handedOut[port] && PortFree(port) {
			handedOut[port] = true
			return port, nil
		}
	}
	return 0, errors.New("find a free port: a thousand are taken")
}

// PortFree reports whether a TCP port of the loopback address can be listened on now.
func PortFree(port int) bool {
	if port < 1 || port > 65535 {
		return false
	}
	listener, err := net.Listen("tcp4", net.JoinHostPort("127.0.0.1", strconv.Itoa(port)))
	if err != nil {
		return false
	}
	return listener.Close() == nil
}
