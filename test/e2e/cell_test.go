package e2e

import (
	"bufio"
	"bytes"
	"crypto/rand"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"queen.internal/compose/local"
	"queen.internal/pkg/client"
)

// cell is the addresses of one stack, and ways to speak to them.
type cell struct {
	edge            string
	ingest, deliver []string
	rest            []string
}

func cellOf(s *local.Stack) *cell {
	return &cell{
		edge: s.URL(local.Edge), ingest: s.URLs(local.Ingest), deliver: s.URLs(local.Deliver),
		rest: append(s.URLs(local.Maintainer), s.URLs(local.Console)...),
	}
}

func (c *cell) all() []string { return slices.Concat([]string{c.edge}, c.ingest, c.deliver, c.rest) }

// freshQueue is a name no other test uses.
func freshQueue(t *testing.T) string {
	t.Helper()
	return "e2e." + strings.ToLower(rand.Text()[:12])
}

// do sends one request and gives status and body. The path goes out exactly as it is written.
func (c *cell) do(t *testing.T, address, method, path, body string) (int, []byte) {
	t.Helper()
	base, err := url.Parse(address)
	if err != nil {
		t.Fatal(err)
	}
	rawPath, query, _ := strings.Cut(path, "?")
	req := &http.Request{
		Method: method, Host: base.Host, Header: http.Header{},
		URL:  &url.URL{Scheme: "http", Host: base.Host, Opaque: "//" + base.Host + rawPath, RawQuery: query},
		Body: io.NopCloser(strings.NewReader(body)), ContentLength: int64(len(body)),
	}
	resp, err := http.DefaultTransport.RoundTrip(req.WithContext(t.Context()))
	if err != nil {
		t.Fatal(err)
	}
	defer hangUp(t, resp.Body)
	answer, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp.StatusCode, answer
}

func (c *cell) post(t *testing.T, path, body string) (int, []byte) {
	t.Helper()
	return c.do(t, c.edge, http.MethodPost, path, body)
}

func (c *cell) get(t *testing.T, path string) (int, []byte) {
	t.Helper()
	return c.do(t, c.edge, http.MethodGet, path, "")
}

// at is a client of its own for one address.
func (c *cell) at(t *testing.T, address string) *client.Client {
	t.Helper()
	cl, err := client.New(client.Options{URL: address})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(cl.Close)
	return cl
}

func (c *cell) client(t *testing.T) *client.Client {
	t.Helper()
	return c.at(t, c.edge)
}

func (c *cell) push(t *testing.T, items ...client.Item) []client.PushResult {
	t.Helper()
	results, err := c.client(t).Push(t.Context(), items)
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range results {
		if r.Status != client.Queued {
			t.Fatalf("%+v", r)
		}
	}
	return results
}

func (c *cell) pop(t *testing.T, r client.PopRequest) client.Batch {
	t.Helper()
	batch, err := c.client(t).Pop(t.Context(), r)
	if err != nil {
		t.Fatal(err)
	}
	return batch
}

func (c *cell) ackAll(t *testing.T, group string, batch client.Batch) {
	t.Helper()
	var acks []client.Acknowledgment
	for _, m := range batch.Messages {
		acks = append(acks, client.AckOf(m, client.Completed))
	}
	results, err := c.client(t).AckBatch(t.Context(), group, acks)
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range results {
		if !r.Success {
			t.Errorf("%+v", r)
		}
	}
}

// parked is how many long polls the delivers hold.
func (c *cell) parked(t *testing.T) int {
	t.Helper()
	total := 0
	for _, address := range c.deliver {
		_, body := c.do(t, address, http.MethodGet, "/metrics/prometheus", "")
		lines := bufio.NewScanner(bytes.NewReader(body))
		lines.Buffer(nil, 1<<20)
		for lines.Scan() {
			if value, found := strings.CutPrefix(lines.Text(), "queen_parked_long_polls "); found {
				n, err := strconv.ParseFloat(value, 64)
				if err != nil {
					t.Fatal(err)
				}
				total += int(n)
			}
		}
	}
	return total
}

// awaitParked returns once at least n long polls are parked.
func (c *cell) awaitParked(t *testing.T, n int) {
	t.Helper()
	eventually(t, func() bool { return c.parked(t) >= n })
}

// eventually asks again and again, at a pace that leaves the machine to others, until the answer is yes.
func eventually(t *testing.T, answer func() bool) {
	t.Helper()
	pace := time.NewTicker(20 * time.Millisecond)
	defer pace.Stop()
	limit := time.NewTimer(time.Minute)
	defer limit.Stop()
	for !answer() {
		select {
		case <-pace.C:
		case <-limit.C:
			t.Fatal("not within a minute")
		}
	}
}

func lastLines(text string, n int) string {
	lines := strings.Split(strings.TrimRight(text, "\n"), "\n")
	return strings.Join(lines[max(0, len(lines)-n):], "\n")
}
