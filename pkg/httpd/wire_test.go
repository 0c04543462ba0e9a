package httpd

import (
	"bufio"
	"bytes"
	"errors"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gin-gonic/gin"
)

func TestAnswersOnTheWire(t *testing.T) {
	t.Parallel()
	b := newBundle()
	b.options.Handlers["pop_discover"] = NoContent
	b.options.Handlers["pop_queue"] = func(c *gin.Context) {
		name, err := Param(c, "queue")
		if err != nil {
			Fail(c, err)
			return
		}
		JSON(c, http.StatusOK, name)
	}
	b.options.Handlers["ack"] = func(c *gin.Context) {
		if _, err := Body(c); err != nil {
			Fail(c, err)
			return
		}
		JSON(c, http.StatusOK, "ok")
	}
	r := b.run(t)
	for name, tc := range map[string]struct {
		request string
		head    []string // lines that the head must have
		not     string   // text that it must not have
		body    string
	}{
		"204 without body and length": {
			"GET /api/v1/pop HTTP/1.1\r\nHost: h\r\n\r\n", []string{"HTTP/1.1 204 No Content"}, "Content-", "",
		},
		"JSON with its length": {
			"GET /api/v1/pop/queue/a%2Fb+c HTTP/1.1\r\nHost: h\r\n\r\n",
			[]string{"HTTP/1.1 200 OK", "Content-Type: application/json", "Content-Length: 7"},
			"Transfer-Encoding", `"a/b+c"`,
		},
		"plain UTF-8 beside an encoded slash": {
			"GET /api/v1/pop/queue/a%2F\u00e9 HTTP/1.1\r\nHost: h\r\n\r\n", []string{"HTTP/1.1 200 OK"}, "", `"a/é"`,
		},
		"broken escape": {"GET /api/v1/pop/queue/a%2 HTTP/1.1\r\nHost: h\r\n\r\n", []string{"HTTP/1.1 400 Bad Request"}, "", ""},
		"declared size over the limit": {
			"POST /api/v1/ack HTTP/1.1\r\nHost: h\r\nContent-Length: 1001\r\n\r\n",
			[]string{"HTTP/1.1 413 Request Entity Too Large", "Connection: close"},
			"", `{"error":"request body is larger than 1000 bytes"}`,
		},
		"chunks over the limit": {
			"POST /api/v1/ack HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n3e9\r\n" + strings.Repeat("x", 1001) + "\r\n0\r\n\r\n",
			[]string{"HTTP/1.1 413 Request Entity Too Large", "Connection: close"},
			"", `{"error":"request body is larger than 1000 bytes"}`,
		},
		"head larger than anybody needs": {
			"GET /livez HTTP/1.1\r\nHost: h\r\nX: " + strings.Repeat("x", 80<<10) + "\r\n\r\n",
			[]string{"HTTP/1.1 431 Request Header Fields Too Large"},
			"", "",
		},
		"HEAD has no body": {
			"HEAD /livez HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n", []string{"HTTP/1.1 200 OK", "Content-Length: 15"}, "", "",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, reader := r.raw(t, tc.request)
			head := readHead(t, reader)
			for _, line := range tc.head {
				if !strings.Contains(head, line+"\r\n") {
					t.Errorf("no line %q in %q", line, head)
				}
			}
			if tc.not != "" && strings.Contains(head, tc.not) {
				t.Errorf("%q in %q", tc.not, head)
			}
			body := make([]byte, len(tc.body))
			if _, err := io.ReadFull(reader, body); err != nil || string(body) != tc.body {
				t.Errorf("body %q (%v), want %q", body, err, tc.body)
			}
		})
	}
}

// bubble runs test inside a synctest bubble with one connection to a server.
//
// Channels must be made inside the bubble, so the handler gets one to report on.
func bubble(t *testing.T, handler func(c *gin.Context, report chan<- error), test func(t *testing.T, conn net.Conn, reports <-chan error)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		b := newBundle()
		reports := make(chan error, 1)
		b.options.MaxBodyBytes = 1 << 20
		b.options.Handlers["ack"] = func(c *gin.Context) { handler(c, reports) }
		_, p := b.runOnPipes(t)
		conn, err := p.dial(t.Context(), "", "")
		if err != nil {
			t.Fatal(err)
		}
		defer drop(conn)
		test(t, conn, reports)
	})
}

const ackHead = "POST /api/v1/ack HTTP/1.1\r\nHost: h\r\nContent-Length: 4\r\n\r\n"

func TestBodyThatStallsIsGivenUp(t *testing.T) {
	t.Parallel()
	bubble(t, func(c *gin.Context, _ chan<- error) {
		_, err := Body(c)
		Fail(c, err)
	}, func(t *testing.T, conn net.Conn, _ <-chan error) {
		began := time.Now()
		if _, err := io.WriteString(conn, ackHead+"x"); err != nil {
			t.Fatal(err)
		}
		head := readHead(t, bufio.NewReader(conn))
		if !strings.HasPrefix(head, "HTTP/1.1 400") || time.Since(began) != stallTimeout {
			t.Errorf("after %v: %s", time.Since(began), head)
		}
	})
}

func TestBodyThatTricklesIsWaitedForAndTheHandlerHasAllItsTime(t *testing.T) {
	t.Parallel()
	const pause = 25 * time.Second
	bubble(t, func(c *gin.Context, _ chan<- error) {
		body, err := Body(c)
		if err != nil {
			Fail(c, err)
			return
		}
		select { // a poll that is longer than any stall
		case <-time.After(5 * stallTimeout):
		case <-c.Request.Context().Done():
		}
		if err := c.Request.Context().Err(); err != nil {
			Fail(c, err)
			return
		}
		JSON(c, http.StatusOK, string(body))
	}, func(t *testing.T, conn net.Conn, _ <-chan error) {
		for i, part := range []string{ackHead, "a", "b", "c", "d"} {
			if i > 0 {
				time.Sleep(pause) // in the bubble's time
			}
			if _, err := io.WriteString(conn, part); err != nil {
				t.Fatal(err)
			}
		}
		reader := bufio.NewReader(conn)
		if head := readHead(t, reader); !strings.HasPrefix(head, "HTTP/1.1 200") {
			t.Fatal(head)
		}
		body := make([]byte, 6)
		if _, err := io.ReadFull(reader, body); err != nil || string(body) != `"abcd"` {
			t.Errorf("body %q, %v", body, err)
		}
		// The connection goes on to its next request without a deadline of the last one.
		time.Sleep(2 * stallTimeout)
		if _, err := io.WriteString(conn, "GET /livez HTTP/1.1\r\nHost: h\r\n\r\n"); err != nil {
			t.Fatal(err)
		}
		if head := readHead(t, reader); !strings.HasPrefix(head, "HTTP/1.1 200") {
			t.Error(head)
		}
	})
}

func TestClientThatTakesNothingIsDropped(t *testing.T) {
	t.Parallel()
	large := bytes.Repeat([]byte("1"), 3*writeChunk)
	bubble(t, func(c *gin.Context, report chan<- error) {
		_, _ = Body(c)
		report <- Raw(c, http.StatusOK, large)
	}, func(t *testing.T, conn net.Conn, reports <-chan error) {
		began := time.Now()
		if _, err := io.WriteString(conn, ackHead+"full"); err != nil {
			t.Fatal(err)
		}
		time.Sleep(stallTimeout - time.Second)
		if _, err := io.CopyN(io.Discard, conn, 2*writeChunk); err != nil { // just in time, then never again
			t.Fatal(err)
		}
		var timeout net.Error
		if err := <-reports; !errors.As(err, &timeout) || !timeout.Timeout() {
			t.Errorf("the handler learns %v", err)
		}
		if took := time.Since(began); took != 2*stallTimeout-time.Second {
			t.Errorf("dropped after %v", took)
		}
	})
}

func TestFlushTellsWhenTheClientIsGone(t *testing.T) {
	t.Parallel()
	results := make(chan error, 2)
	release := make(chan struct{})
	b := newBundle()
	b.options.Handlers["ack"] = func(c *gin.Context) {
		results <- Flush(c)
		<-release
		<-c.Request.Context().Done()
		for { // the socket takes a few writes before it knows
			if _, err := c.Writer.WriteString("x"); err != nil {
				results <- err
				return
			}
			if err := Flush(c); err != nil {
				results <- err
				return
			}
		}
	}
	r := b.run(t)
	conn, reader := r.raw(t, "POST /api/v1/ack HTTP/1.1\r\nHost: h\r\n\r\n")
	if err := <-results; err != nil {
		t.Fatal(err)
	}
	if head := readHead(t, reader); !strings.HasPrefix(head, "HTTP/1.1 200") {
		t.Error(head)
	}
	drop(conn)
	close(release)
	if err := <-results; err == nil {
		t.Error("a flush to nobody succeeds")
	}
}
