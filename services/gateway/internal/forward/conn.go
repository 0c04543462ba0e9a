package forward

import (
	"bufio"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"syscall"
	"time"
)

// conn is a connection to an address. One exchange at a time owns it.
type conn struct {
	tcp       *net.TCPConn
	reader    *bufio.Reader
	sent      int64     // bytes of the running exchange that the operating system took
	reused    bool      // it has carried an exchange before
	idleSince time.Time // while in the pool

	// Guarded by the address's mutex.
	interrupted bool // the exchange was ended from outside; the connection is not used again
}

// answerBuffer is the read buffer of a connection, in bytes. Each parked poll holds one, so it is small.
const answerBuffer = 4 << 10

func newDialer(timeout time.Duration) net.Dialer {
	return net.Dialer{
		Timeout: timeout,
		// A machine that vanished without a word is noticed after about half a minute, parked polls included.
		KeepAliveConfig: net.KeepAliveConfig{Enable: true, Idle: 15 * time.Second, Interval: 5 * time.Second, Count: 3},
	}
}

func dial(ctx context.Context, dialer net.Dialer, address string) (*conn, error) {
	raw, err := dialer.DialContext(ctx, "tcp", address)
	if err != nil {
		return nil, err
	}
	tcp := raw.(*net.TCPConn) // what "tcp" dials
	return &conn{tcp: tcp, reader: bufio.NewReaderSize(tcp, answerBuffer)}, nil
}

// Write counts what the operating system took.
func (c *conn) Write(p []byte) (int, error) {
	n, err := c.tcp.Write(p)
	c.sent += int64(n)
	return n, err
}

// usable says whether the peer has neither closed the idle connection nor said anything on it.
func (c *conn) usable() bool {
	raw, err := c.tcp.SyscallConn()
	if err != nil || c.reader.Buffered() > 0 {
		return false
	}
	open := false
	err = raw.Read(func(fd uintptr) bool {
		var one [1]byte
		_, err := syscall.Read(int(fd), one[:])
		// Nothing to read is the only good news: end of file, a reset and unexpected bytes are not.
		open = errors.Is(err, syscall.EAGAIN)
		return true
	})
	return err == nil && open
}

// receive reads the head of the answer to a request of that method; interim answers are skipped.
func (c *conn) receive(r *http.Request) (*http.Response, error) {
	for {
		answer, err := http.ReadResponse(c.reader, r)
		if err != nil {
			if errors.Is(err, io.EOF) {
				err = io.ErrUnexpectedEOF
			}
			return nil, err
		}
		if answer.StatusCode >= 200 {
			return answer, nil
		}
		if answer.StatusCode == http.StatusSwitchingProtocols {
			return nil, errors.New("the service switched protocols unasked")
		}
	}
}
