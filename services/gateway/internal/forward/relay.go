package forward

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"sync"
)

// leaseHeader names the lease of a pop's 200, so that whoever cannot pass the messages on can give it back.
const leaseHeader = "X-Queen-Lease"

// copyBuffers hold a piece of an answer on its way to a client.
var copyBuffers = sync.Pool{New: func() any { return new([32 << 10]byte) }}

// relay passes the answer on. keep says that the connection can carry another request. Errors other than ErrBroken
// mean that nothing was written.
func (l *leg) relay(w http.ResponseWriter, answer *http.Response) (keep bool, err error) {
	lease := ""
	if l.t.t.Pop && answer.StatusCode == http.StatusOK {
		lease = answer.Header.Get(leaseHeader)
	}
	if l.t.r.Context().Err() != nil {
		l.t.giveBack(lease)
		return false, ErrClientGone
	}
	if l.abandoned(answer) {
		return false, ErrDrained
	}
	l.noteClosing(answer)
	l.writeHead(w, answer)
	err = copyBody(w, answer, l.c)
	if err == nil && lease != "" {
		err = flush(w)
	}
	if err != nil {
		l.t.giveBack(lease)
	}
	unsent := l.stopSending(w)
	if err != nil {
		return false, fmt.Errorf("%w: %w", ErrBroken, err)
	}
	return unsent == nil && !l.early && !answer.Close, nil
}

// abandoned recognises the empty 200 that net/http sends for a handler which left because we hung up on it.
func (l *leg) abandoned(answer *http.Response) bool {
	return l.t.t.Pop && answer.StatusCode == http.StatusOK && answer.ContentLength == 0 && l.a.wasInterrupted(l.c)
}

// noteClosing takes a process that announces the end of a good connection for one that is about to stop: its next probe
// decides. Refusals close connections too, to get rid of an unread body.
func (l *leg) noteClosing(answer *http.Response) {
	refused := answer.StatusCode >= 400 && answer.StatusCode != http.StatusServiceUnavailable
	if !answer.Close || refused || l.a.wasInterrupted(l.c) {
		return
	}
	if u := l.t.f.upstreams[l.t.t.Role]; l.a.current() == ready {
		u.turn(l.a, notReady, "it closes its connections")
		u.kick()
	}
}

func (l *leg) writeHead(w http.ResponseWriter, answer *http.Response) {
	header := w.Header()
	connection := answer.Header["Connection"]
	for name, values := range answer.Header {
		if hopByHop(name) || len(connection) > 0 && named(connection, name) {
			continue
		}
		header[name] = values
	}
	if length := answer.Header["Content-Length"]; len(length) > 0 && answer.StatusCode != http.StatusNoContent {
		header["Content-Length"] = length
	}
	if l.early {
		header.Set("Connection", "close") // the client's unsent bytes would be taken for its next request
	}
	w.WriteHeader(answer.StatusCode)
}

// copyBody passes the body on. A body of unknown length is passed on as it comes, one of known length as buffers fill.
func copyBody(w http.ResponseWriter, answer *http.Response, c *conn) error {
	buffer := copyBuffers.Get().(*[32 << 10]byte) // what New makes
	defer copyBuffers.Put(buffer)
	for {
		n, err := answer.Body.Read(buffer[:])
		if n > 0 {
			if _, err := w.Write(buffer[:n]); err != nil {
				return fmt.Errorf("write to the client: %w", err)
			}
		}
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("read the answer: %w", err)
		}
		if answer.ContentLength < 0 && c.reader.Buffered() == 0 {
			if err := flush(w); err != nil {
				return err
			}
		}
	}
}

// flush sends what w holds, and tells whether that went well. Wrappers may hide the error of the writer below, which
// keeps it, so the innermost one is asked too.
func flush(w http.ResponseWriter) error {
	err := http.NewResponseController(w).Flush()
	for err == nil {
		inner, wraps := w.(interface{ Unwrap() http.ResponseWriter })
		if !wraps {
			break
		}
		w = inner.Unwrap()
		if f, ok := w.(interface{ FlushError() error }); ok {
			err = f.FlushError()
		}
	}
	if err != nil {
		return fmt.Errorf("flush to the client: %w", err)
	}
	return nil
}
