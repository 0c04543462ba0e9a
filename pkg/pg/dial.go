package pg

import (
	"context"
	"net"
	"syscall"
	"time"
)

// A dead path to the database must be noticed in seconds. Keepalive finds it on an idle connection after
// 60 + 3 x 10 s; the user timeout finds it on a busy one, whose unacknowledged data keepalive does not watch.
const (
	keepAliveIdle     = 60 * time.Second
	keepAliveInterval = 10 * time.Second
	keepAliveCount    = 3
	tcpUserTimeout    = 30 * time.Second
)

func dialer() func(ctx context.Context, network, address string) (net.Conn, error) {
	d := &net.Dialer{
		KeepAliveConfig: net.KeepAliveConfig{
			Enable: true, Idle: keepAliveIdle, Interval: keepAliveInterval, Count: keepAliveCount,
		},
		Control: func(network, _ string, raw syscall.RawConn) error {
			if network == "unix" {
				return nil
			}
			return setUserTimeout(raw, tcpUserTimeout)
		},
	}
	return d.DialContext
}
