package pg_test

import (
	"net"
	"testing"

	"golang.org/x/sys/unix"

	"queen.internal/pkg/pg"
)

func TestDialedConnectionsNoticeADeadPeer(t *testing.T) {
	t.Parallel()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = listener.Close() }()
	conn, err := pg.Dialer()(t.Context(), "tcp", listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close() }()
	raw, err := conn.(*net.TCPConn).SyscallConn()
	if err != nil {
		t.Fatal(err)
	}
	for _, option := range []struct {
		name                string
		level, number, want int
	}{
		{"TCP_USER_TIMEOUT", unix.IPPROTO_TCP, unix.TCP_USER_TIMEOUT, 30_000},
		{"SO_KEEPALIVE", unix.SOL_SOCKET, unix.SO_KEEPALIVE, 1},
		{"TCP_KEEPIDLE", unix.IPPROTO_TCP, unix.TCP_KEEPIDLE, 60},
		{"TCP_KEEPINTVL", unix.IPPROTO_TCP, unix.TCP_KEEPINTVL, 10},
		{"TCP_KEEPCNT", unix.IPPROTO_TCP, unix.TCP_KEEPCNT, 3},
	} {
		var got int
		var getErr error
		if err := raw.Control(func(fd uintptr) { got, getErr = unix.GetsockoptInt(int(fd), option.level, option.number) }); err != nil || getErr != nil {
			t.Fatal(err, getErr)
		}
		if got != option.want {
			t.Errorf("%s is %d, want %d", option.name, got, option.want)
		}
	}
}
