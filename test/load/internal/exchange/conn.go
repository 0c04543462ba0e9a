// Package exchange is HTTP/1.1 for a load generator: one kept connection, one request at a time, requests that are ready
// bytes. On a machine that the measured services share, an ordinary client would be a large part of what is measured.
// Nothing is ever sent twice; a connection that failed is opened anew by the next call.
package exchange

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"net"
	"time"

	"github.com/valyala/fasthttp"
)

// Conn is one connection to one address. It belongs to one goroutine.
type Conn struct {
	addr   string
	conn   net.Conn // nil while there is none
	reader *bufio.Reader
	answer fasthttp.Response
}

// readBuffer holds most answers whole.
const readBuffer = 64 << 10

// New is a connection to host:port that opens with its first call.
func New(addr string) *Conn {
	return &Conn{addr: addr, reader: bufio.NewReaderSize(nil, readBuffer)}
}

// Open connects, unless it is connected.
func (c *Conn) Open(ctx context.Context) error {
	if c.conn != nil {
		return nil
	}
	conn, err := new(net.Dialer).DialContext(ctx, "tcp", c.addr)
	if err != nil {
		return fmt.Errorf("connect to %s: %w", c.addr, err)
	}
	c.conn = conn
	c.reader.Reset(conn)
	return nil
}

// Do sends a request, as it is, and returns status and body of the answer. The body is valid until the next call. After
// an error nobody knows whether the request had an effect. The context bounds connecting only, timeout all of it.
func (c *Conn) Do(ctx context.Context, request []byte, timeout time.Duration) (int, []byte, error) {
	if err := c.Open(ctx); err != nil {
		return 0, nil, err
	}
	err := c.conn.SetDeadline(time.Now().Add(timeout))
	if err == nil {
		_, err = c.conn.Write(request)
	}
	if err == nil {
		err = c.answer.Read(c.reader)
	}
	if err != nil {
		c.Close()
		return 0, nil, fmt.Errorf("exchange with %s: %w", c.addr, err)
	}
	if c.answer.ConnectionClose() {
		c.Close()
	}
	return c.answer.StatusCode(), c.answer.Body(), nil
}

// Close ends the connection, if there is one.
func (c *Conn) Close() {
	if c.conn != nil {
		_ = c.conn.Close() // everything that counts was read
		c.conn = nil
	}
}

// header of a request.
func header(method, target, host, tenant, more string) []byte {
	var b bytes.Buffer
	fmt.Fprintf(&b, "%s %s HTTP/1.1\r\nHost: %s\r\n", method, target, host)
	if tenant != "" {
		fmt.Fprintf(&b, "X-Queen-Tenant: %s\r\n", tenant)
	}
	b.WriteString(more)
	return b.Bytes()
}

// Get is a complete request without a body. tenant may be empty.
func Get(target, host, tenant string) []byte {
	return append(header("GET", target, host, tenant, ""), "\r\n"...)
}

// Post is a request whose body is written anew for each call, behind a header that stays.
type Post struct {
	buf    []byte
	header int // length
}

// lengthDigits leave room for bodies of up to 100 MB; blanks before the number are allowed.
const lengthDigits = 9

// NewPost prepares the header. tenant may be empty.
func NewPost(target, host, tenant string) *Post {
	b := header("POST", target, host, tenant, "Content-Type: application/json\r\nContent-Length: "+string(bytes.Repeat([]byte(" "), lengthDigits))+"\r\n\r\n")
	return &Post{buf: b, header: len(b)}
}

// Bytes is the request with the body that write appends to what it gets. They are valid until the next call.
func (p *Post) Bytes(write func(body []byte) []byte) []byte {
	p.buf = write(p.buf[:p.header])
	digits := p.buf[p.header-4-lengthDigits : p.header-4]
	n := len(p.buf) - p.header
	for i := len(digits) - 1; i >= 0; i-- {
		digits[i] = ' '
		if n > 0 || i == len(digits)-1 {
			digits[i] = byte('0' + n%10)
		}
		n /= 10
	}
	return p.buf
}
