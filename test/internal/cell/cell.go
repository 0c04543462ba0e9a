package cell

import (
	"crypto/rand"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"

	"queen.internal/compose/local"
	"queen.internal/pkg/client"
)

// Cell is the addresses of one stack, and ways to speak to them.
type Cell struct {
	Stack           *local.Stack
	Edge            string
	Ingest, Deliver []string // of each copy
	Rest            []string // of maintainer and console
}

func of(s *local.Stack) *Cell {
	return &Cell{
		Stack: s, Edge: s.URL(local.Edge), Ingest: s.URLs(local.Ingest), Deliver: s.URLs(local.Deliver),
		Rest: append(s.URLs(local.Maintainer), s.URLs(local.Console)...),
	}
}

// All is every address of the stack.
func (c *Cell) All() []string { return slices.Concat([]string{c.Edge}, c.Ingest, c.Deliver, c.Rest) }

// FreshQueue is a name no other test uses. Its namespace is test.
func FreshQueue() string { return "test." + strings.ToLower(rand.Text()[:12]) }

// Do sends one request and gives status and body. The path goes out exactly as it is written.
func (c *Cell) Do(t *testing.T, address, method, path, body string) (int, []byte) {
	t.Helper()
	status, answer, _ := c.Send(t, address, method, path, body, http.Header{})
	return status, answer
}

// Send is Do with headers, both ways.
func (c *Cell) Send(t *testing.T, address, method, path, body string, header http.Header) (int, []byte, http.Header) {
	t.Helper()
	base, err := url.Parse(address)
	if err != nil {
		t.Fatal(err)
	}
	rawPath, query, _ := strings.Cut(path, "?")
	req := &http.Request{
		Method: method, Host: base.Host, Header: header,
		URL:  &url.URL{Scheme: "http", Host: base.Host, Opaque: "//" + base.Host + rawPath, RawQuery: query},
		Body: io.NopCloser(strings.NewReader(body)), ContentLength: int64(len(body)),
	}
	resp, err := http.DefaultTransport.RoundTrip(req.WithContext(t.Context()))
	if err != nil {
		t.Fatal(err)
	}
	answer, err := io.ReadAll(resp.Body)
	if closed := resp.Body.Close(); err != nil || closed != nil {
		t.Fatal(err, closed)
	}
	return resp.StatusCode, answer, resp.Header
}

// Post sends a body to the edge.
func (c *Cell) Post(t *testing.T, path, body string) (int, []byte) {
	t.Helper()
	return c.Do(t, c.Edge, http.MethodPost, path, body)
}

// Get asks the edge.
func (c *Cell) Get(t *testing.T, path string) (int, []byte) {
	t.Helper()
	return c.Do(t, c.Edge, http.MethodGet, path, "")
}

// At is a client of its own for one address.
func (c *Cell) At(t *testing.T, address string) *client.Client {
	t.Helper()
	cl, err := client.New(client.Options{URL: address})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(cl.Close)
	return cl
}

// Client is a client of its own for the edge.
func (c *Cell) Client(t *testing.T) *client.Client {
	t.Helper()
	return c.At(t, c.Edge)
}

// Push pushes through the edge. The test fails if an item is not queued.
func (c *Cell) Push(t *testing.T, items ...client.Item) []client.PushResult {
	t.Helper()
	results, err := c.Client(t).Push(t.Context(), items)
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

// PushNumbered pushes count messages whose transaction ids and payloads are the numbers from 0.
func (c *Cell) PushNumbered(t *testing.T, queue string, count int) {
	t.Helper()
	var items []client.Item
	for i := range count {
		items = append(items, client.Item{Queue: queue, TransactionID: fmt.Sprint(i), Payload: fmt.Append(nil, i)})
	}
	c.Push(t, items...)
}

// Pop pops through the edge.
func (c *Cell) Pop(t *testing.T, r client.PopRequest) client.Batch {
	t.Helper()
	batch, err := c.Client(t).Pop(t.Context(), r)
	if err != nil {
		t.Fatal(err)
	}
	return batch
}

// AckAll completes a batch through the edge. The test fails if a message is refused.
func (c *Cell) AckAll(t *testing.T, group string, batch client.Batch) {
	t.Helper()
	var acks []client.Acknowledgment
	for _, m := range batch.Messages {
		acks = append(acks, client.AckOf(m, client.Completed))
	}
	results, err := c.Client(t).AckBatch(t.Context(), group, acks)
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range results {
		if !r.Success {
			t.Errorf("%+v", r)
		}
	}
}

// Transactions are the transaction ids of a batch in order.
func Transactions(batch client.Batch) []string {
	var ids []string
	for _, m := range batch.Messages {
		ids = append(ids, m.TransactionID)
	}
	return ids
}
