package client_test

import (
	"io"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"

	"go.uber.org/goleak"

	"queen.internal/pkg/client"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// seen is one request that arrived.
type seen struct {
	method, uri, body, auth, contentType string
}

// cell answers with the given functions in turn, the last one for ever, and keeps what it was asked.
type cell struct {
	mu       sync.Mutex
	requests []seen
	answers  []http.HandlerFunc
}

func (c *cell) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	c.mu.Lock()
	answer := c.answers[min(len(c.requests), len(c.answers)-1)]
	c.requests = append(c.requests, seen{
		r.Method, r.RequestURI, string(body), r.Header.Get("Authorization"), r.Header.Get("Content-Type"),
	})
	c.mu.Unlock()
	answer(w, r)
}

func (c *cell) asked() []seen {
	c.mu.Lock()
	defer c.mu.Unlock()
	return append([]seen(nil), c.requests...)
}

func answer(status int, body string, headers ...string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		for i := 0; i+1 < len(headers); i += 2 {
			w.Header().Set(headers[i], headers[i+1])
		}
		w.WriteHeader(status)
		_, _ = io.WriteString(w, body) // a client that went away is what some tests are about
	}
}

// hangUp closes the connection without an answer.
func hangUp(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }

func setup(t *testing.T, answers ...http.HandlerFunc) (*client.Client, *cell) {
	t.Helper()
	c := &cell{answers: answers}
	server := httptest.NewServer(c)
	cl, err := client.New(client.Options{URL: server.URL + "/cells/one/", Token: "secret"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		cl.Close()
		server.Close()
	})
	return cl, c
}
