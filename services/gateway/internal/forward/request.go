package forward

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httputil"
	"strconv"
	"strings"
)

// aheadBytes is how much of a body is read before a process is chosen. A body that fits can be sent again as long as
// nothing was sent, and needs no second goroutine; a batch of 100 usual messages fits.
const aheadBytes = 64 << 10

// request is what goes upstream. It can be sent more than once while the first attempts sent nothing.
type request struct {
	head   []byte    // request line and headers, complete
	ahead  []byte    // the first bytes of the body
	rest   io.Reader // the remaining ones, nil when ahead is all
	length int64     // of the whole body; -1: not known, sent in chunks
}

// BodyError is a request body that could not be read from the client. It is an *http.MaxBytesError inside when the body
// is too large.
type BodyError struct{ Err error }

func (e *BodyError) Error() string { return "read the request body: " + e.Err.Error() }

// Unwrap is the reader's error.
func (e *BodyError) Unwrap() error { return e.Err }

// newRequest reads ahead and builds the head.
func newRequest(r *http.Request, target string) (*request, error) {
	q := &request{length: r.ContentLength}
	if err := q.readAhead(r.Body); err != nil {
		return nil, &BodyError{Err: err}
	}
	q.head = appendHead(make([]byte, 0, 1<<10), r, target, q.length)
	return q, nil
}

func (q *request) readAhead(body io.ReadCloser) error {
	switch {
	case q.length == 0 || body == nil || body == http.NoBody:
		q.length = 0
		return nil
	case q.length > 0 && q.length <= aheadBytes:
		q.ahead = make([]byte, q.length)
		_, err := io.ReadFull(body, q.ahead)
		return err
	}
	ahead, err := io.ReadAll(io.LimitReader(body, aheadBytes))
	if err != nil {
		return err
	}
	q.ahead = ahead
	if q.length < 0 && len(ahead) < aheadBytes { // the chunks have ended
		q.length = int64(len(ahead))
		return nil
	}
	q.rest = body
	return nil
}

// target is the target of a request line as an origin server gets it, byte for byte: the path and the query, without the
// scheme and host that the absolute form has.
func target(r *http.Request) string {
	t := r.RequestURI
	if strings.HasPrefix(t, "/") {
		return t
	}
	_, t, found := strings.Cut(t, "://")
	if !found {
		return "*" // the form of OPTIONS and CONNECT, which no route has
	}
	switch at := strings.IndexAny(t, "/?"); {
	case at < 0:
		return "/"
	case t[at] == '?':
		return "/" + t[at:]
	default:
		return t[at:]
	}
}

// RawPath is the path of r as it stands in its request line, which is what a route must be found by.
func RawPath(r *http.Request) string {
	path, _, _ := strings.Cut(target(r), "?")
	return path
}

// hopByHop are the headers that concern one connection only (RFC 9110 section 7.6.1), those that describe the framing,
// which each side does for itself, and Expect, which our server has answered.
func hopByHop(name string) bool {
	switch name {
	case "Connection", "Proxy-Connection", "Keep-Alive", "Proxy-Authenticate", "Proxy-Authorization", "Te", "Trailer",
		"Transfer-Encoding", "Upgrade", "Content-Length", "Expect":
		return true
	}
	return false
}

// named says whether one of the Connection headers names the header, which makes it hop-by-hop too.
func named(connection []string, name string) bool {
	for _, line := range connection {
		for token := range strings.SplitSeq(line, ",") {
			if strings.EqualFold(strings.TrimSpace(token), name) {
				return true
			}
		}
	}
	return false
}

// appendHead writes the request line and the headers. The server that parsed r has refused control characters in all
// of them, so they can be copied as they are.
func appendHead(b []byte, r *http.Request, target string, length int64) []byte {
	b = append(b, r.Method...)
	b = append(b, ' ')
	b = append(b, target...)
	b = append(b, " HTTP/1.1\r\n"...)
	b = appendHeader(b, "Host", r.Host)
	connection := r.Header["Connection"]
	for name, values := range r.Header {
		if hopByHop(name) || name == forwardedFor || len(connection) > 0 && named(connection, name) {
			continue
		}
		for _, value := range values {
			b = appendHeader(b, name, value)
		}
	}
	if r.RemoteAddr != "" {
		b = appendHeader(b, forwardedFor, clientChain(r))
	}
	switch {
	case length < 0:
		b = appendHeader(b, "Transfer-Encoding", "chunked")
	case length > 0 || r.Method == http.MethodPost || r.Method == http.MethodPut || r.Method == http.MethodPatch:
		b = append(b, "Content-Length: "...)
		b = strconv.AppendInt(b, length, 10)
		b = append(b, "\r\n"...)
	}
	return append(b, "\r\n"...)
}

func appendHeader(b []byte, name, value string) []byte {
	b = append(b, name...)
	b = append(b, ": "...)
	b = append(b, value...)
	return append(b, "\r\n"...)
}

const forwardedFor = "X-Forwarded-For"

// clientChain is X-Forwarded-For with the client's own address at the end.
func clientChain(r *http.Request) string {
	client, _, err := net.SplitHostPort(r.RemoteAddr)
	if err != nil {
		client = r.RemoteAddr
	}
	if before := r.Header[forwardedFor]; len(before) > 0 {
		return strings.Join(before, ", ") + ", " + client
	}
	return client
}

// send writes what is in memory: all of the request, or all but rest. One system call where it can be one.
func (c *conn) send(q *request) error {
	parts := net.Buffers{q.head}
	switch {
	case len(q.ahead) == 0:
	case q.length < 0:
		parts = append(parts, fmt.Appendf(nil, "%x\r\n", len(q.ahead)), q.ahead, []byte("\r\n"))
	default:
		parts = append(parts, q.ahead)
	}
	n, err := parts.WriteTo(c.tcp)
	c.sent += n
	return err
}

// sendRest streams what the client has not sent yet. An error of the client's side is a *BodyError; any other is the
// process's side.
func (c *conn) sendRest(q *request) error {
	body := &clientReader{r: q.rest}
	if q.length >= 0 {
		want := q.length - int64(len(q.ahead))
		_, err := io.CopyN(c, body, want)
		if body.err == nil && errors.Is(err, io.EOF) {
			body.err = io.ErrUnexpectedEOF
		}
		return body.fault(err)
	}
	chunks := httputil.NewChunkedWriter(c)
	if _, err := io.Copy(chunks, body); err != nil || body.err != nil {
		return body.fault(err) // without the last chunk the process cannot mistake the body for complete
	}
	if err := chunks.Close(); err != nil {
		return err
	}
	_, err := c.Write([]byte("\r\n"))
	return err
}

// clientReader tells the errors of reading from those of writing.
type clientReader struct {
	r   io.Reader
	err error
}

func (b *clientReader) Read(p []byte) (int, error) {
	n, err := b.r.Read(p)
	if err != nil && !errors.Is(err, io.EOF) {
		b.err = err
	}
	return n, err
}

func (b *clientReader) fault(err error) error {
	if b.err != nil {
		return &BodyError{Err: b.err}
	}
	return err
}

// plain is a request of our own: no body, no client behind it.
func plain(ctx context.Context, method, path, host string, header http.Header) (*http.Request, error) {
	r, err := http.NewRequestWithContext(ctx, method, "http://"+host+path, nil)
	if err != nil {
		return nil, err
	}
	r.Header = header
	r.RequestURI = path
	return r, nil
}
