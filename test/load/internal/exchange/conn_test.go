package exchange

import (
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"
)

// served is a real server that says what it got.
func served(t *testing.T, answer http.HandlerFunc) (*Conn, string) {
	t.Helper()
	server := httptest.NewServer(answer)
	t.Cleanup(server.Close)
	host := strings.TrimPrefix(server.URL, "http://")
	c := New(host)
	t.Cleanup(c.Close)
	return c, host
}

func echo(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		w.WriteHeader(http.StatusBadRequest)
		return
	}
	w.WriteHeader(http.StatusCreated)
	_, _ = io.WriteString(w, r.Method+" "+r.URL.String()+" "+r.Header.Get("X-Queen-Tenant")+" "+string(body))
}

func TestRequestsArriveWhole(t *testing.T) {
	t.Parallel()
	c, host := served(t, echo)
	post := NewPost("/push", host, "acme")
	for _, body := range []string{"", "7", strings.Repeat("x", 10), strings.Repeat("y", 12345)} {
		request := post.Bytes(func(b []byte) []byte { return append(b, body...) })
		status, got, err := c.Do(t.Context(), request, time.Minute)
		if err != nil || status != http.StatusCreated || string(got) != "POST /push acme "+body {
			t.Fatalf("%d %.50s (%v)", status, got, err)
		}
	}
	status, got, err := c.Do(t.Context(), Get("/pop?batch=1", host, ""), time.Minute)
	if err != nil || status != http.StatusCreated || string(got) != "GET /pop?batch=1  " {
		t.Errorf("%d %s (%v)", status, got, err)
	}
}

func TestConnectionIsKeptUntilTheServerClosesIt(t *testing.T) {
	t.Parallel()
	seen := make(chan string, 4)
	c, host := served(t, func(w http.ResponseWriter, r *http.Request) {
		seen <- r.RemoteAddr
		if r.URL.Path == "/last" {
			w.Header().Set("Connection", "close")
		}
		w.WriteHeader(http.StatusNoContent)
	})
	for _, path := range []string{"/", "/", "/last", "/"} {
		if status, body, err := c.Do(t.Context(), Get(path, host, ""), time.Minute); err != nil || status != http.StatusNoContent || len(body) > 0 {
			t.Fatalf("%d %s (%v)", status, body, err)
		}
	}
	first, second, third, fourth := <-seen, <-seen, <-seen, <-seen
	if first != second || second != third || third == fourth {
		t.Errorf("%s, %s, %s, %s", first, second, third, fourth)
	}
}

func TestFailedRequestIsNotRepeated(t *testing.T) {
	t.Parallel()
	calls := make(chan struct{}, 4)
	c, host := served(t, func(w http.ResponseWriter, _ *http.Request) {
		calls <- struct{}{}
		conn, _, err := http.NewResponseController(w).Hijack()
		if err == nil {
			_ = conn.Close()
		}
	})
	if _, _, err := c.Do(t.Context(), Get("/", host, ""), time.Minute); err == nil {
		t.Error("no error")
	}
	if len(calls) != 1 {
		t.Errorf("asked %d times", len(calls))
	}
}
