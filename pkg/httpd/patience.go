package httpd

import (
	"io"
	"net/http"
	"sync"
	"time"
)

const (
	// stallTimeout is how long a client may take or send nothing while it is its turn. The server has no overall read
	// or write timeout, since a long poll is longer than any sensible one.
	stallTimeout = 30 * time.Second
	// rearmAfter keeps deadlines from being moved for every small read.
	rearmAfter = time.Second
	// writeChunk is what a client must take within stallTimeout. Writes below easyWrite fit into the socket's buffer.
	writeChunk = 256 << 10
	easyWrite  = 16 << 10
)

// patientBody is a request body whose every part must arrive within stallTimeout of the one before.
type patientBody struct {
	io.ReadCloser
	control *http.ResponseController

	mu      sync.Mutex // a transport that forwards the body may read after the handler returned
	retired bool
	armed   time.Time
}

func newPatientBody(w http.ResponseWriter, body io.ReadCloser) *patientBody {
	b := &patientBody{ReadCloser: body, control: http.NewResponseController(w)}
	b.arm(time.Now()) // also bounds what net/http discards of a body that nobody reads
	return b
}

// Read reads on, or ends with the connection's timeout error.
func (b *patientBody) Read(p []byte) (int, error) {
	b.arm(time.Now())
	n, err := b.ReadCloser.Read(p)
	if err == io.EOF {
		b.disarm()
	}
	return n, err
}

// retire ends the influence on the connection, which goes on to its next request.
func (b *patientBody) retire() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.retired = true
}

func (b *patientBody) arm(now time.Time) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.retired || now.Sub(b.armed) < rearmAfter {
		return
	}
	b.armed = now
	// Recorders in tests have no deadlines; real connections always do.
	_ = b.control.SetReadDeadline(now.Add(stallTimeout))
}

// disarm lets the handler work as long as it needs: the server goes on reading, to notice when the client leaves.
func (b *patientBody) disarm() {
	b.mu.Lock()
	defer b.mu.Unlock()
	if !b.retired {
		_ = b.control.SetReadDeadline(time.Time{})
	}
}

// response is what gin writes to. It bounds stalled writes and, once draining, tells the client to go elsewhere.
type response struct {
	http.ResponseWriter
	draining <-chan struct{}
}

// Unwrap lets a ResponseController reach the connection.
func (r *response) Unwrap() http.ResponseWriter { return r.ResponseWriter }

func (r *response) WriteHeader(status int) {
	select {
	case <-r.draining:
		r.Header().Set("Connection", "close")
	default:
	}
	r.ResponseWriter.WriteHeader(status)
}

func (r *response) Write(p []byte) (written int, err error) {
	if len(p) <= easyWrite {
		return r.ResponseWriter.Write(p)
	}
	control := http.NewResponseController(r.ResponseWriter)
	// The next response on this connection starts without a deadline.
	defer func() { _ = control.SetWriteDeadline(time.Time{}) }()
	for written < len(p) && err == nil {
		var n int
		_ = control.SetWriteDeadline(time.Now().Add(stallTimeout))
		n, err = r.ResponseWriter.Write(p[written:min(written+writeChunk, len(p))])
		written += n
	}
	return written, err
}

// Flush is for gin, which wants it; FlushError tells whether it worked.
func (r *response) Flush() { _ = r.FlushError() }

func (r *response) FlushError() error {
	return http.NewResponseController(r.ResponseWriter).Flush()
}
