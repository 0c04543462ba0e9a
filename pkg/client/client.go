package client

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"time"

	"queen.internal/pkg/backoff"
)

// Options describe a Client. Only URL is required.
type Options struct {
	URL      string        // of the edge, a gateway or a single role; a path prefix is kept
	Token    string        // sent as a bearer token when not empty
	Timeout  time.Duration // of one attempt, without a pop's own waiting time; default 30 s
	Attempts int           // of a call that may be repeated; default 4
	Conns    int           // idle connections kept to the address; default 64
}

// Client calls one cell.
type Client struct {
	base     string
	token    string
	timeout  time.Duration
	attempts int
	pause    backoff.Policy
	http     *http.Client
}

// answerMargin is what a pop's attempt may take beyond the waiting time it asks for: the broker answers strictly before
// that time, so the margin is for the way.
const answerMargin = 5 * time.Second

// longestPause is what a call waits before it is repeated; who is told to come back later than that tells its caller.
const longestPause = 30 * time.Second

// New returns a Client for o. It is an error if URL is not an absolute http or https address.
func New(o Options) (*Client, error) {
	u, err := url.Parse(o.URL)
	if err != nil {
		return nil, fmt.Errorf("address of the cell: %w", err)
	}
	if (u.Scheme != "http" && u.Scheme != "https") || u.Host == "" {
		return nil, fmt.Errorf("address of the cell %q: want http://host:port", o.URL)
	}
	conns := positive(o.Conns, 64)
	transport := http.DefaultTransport.(*http.Transport).Clone()
	transport.MaxIdleConns, transport.MaxIdleConnsPerHost = conns, conns
	return &Client{
		base:     strings.TrimRight(u.Scheme+"://"+u.Host+u.EscapedPath(), "/"),
		token:    o.Token,
		timeout:  positive(o.Timeout, 30*time.Second),
		attempts: positive(o.Attempts, 4),
		pause:    backoff.Policy{Min: 100 * time.Millisecond, Max: 2 * time.Second},
		http: &http.Client{
			Transport: transport,
			// A redirect would repeat a request; a cell never sends one, so it is reported instead of followed.
			CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		},
	}, nil
}

// Close closes the idle connections; calls under way are not touched.
func (c *Client) Close() { c.http.CloseIdleConnections() }

// call is one request. Repeatable says that sending it twice has the effect of sending it once.
type call struct {
	method, path string
	body         []byte
	wait         time.Duration // added to the attempt's time
	repeatable   bool
}

// do sends r until it is answered or may not be repeated, and decodes a JSON answer into out. An answer without a body
// (204) leaves out as it is. The status of the last answer is returned, 0 when there was none.
func (c *Client) do(ctx context.Context, r call, out any) (int, error) {
	for attempt := 1; ; attempt++ {
		status, err := c.once(ctx, r, out)
		if err == nil || !r.repeatable || attempt >= c.attempts || ctx.Err() != nil || !Transient(err) {
			return status, err
		}
		wait := c.pause.Next(attempt - 1)
		var answered *Error
		if errors.As(err, &answered) && answered.RetryAfter > wait {
			wait = answered.RetryAfter
		}
		if wait > longestPause {
			return status, err
		}
		if backoff.Sleep(ctx, wait) != nil {
			return status, err
		}
	}
}

func (c *Client) once(ctx context.Context, r call, out any) (int, error) {
	ctx, cancel := context.WithTimeout(ctx, c.timeout+r.wait)
	defer cancel()
	// The reader's concrete type is hidden and no GetBody is set, so net/http cannot send the request again on its own.
	req, err := http.NewRequestWithContext(ctx, r.method, c.base+r.path, struct{ io.Reader }{bytes.NewReader(r.body)})
	if err != nil {
		return 0, fmt.Errorf("%s %s: %w", r.method, r.path, err)
	}
	if len(r.body) > 0 {
		req.ContentLength = int64(len(r.body))
		req.Header.Set("Content-Type", "application/json")
	}
	if c.token != "" {
		req.Header.Set("Authorization", "Bearer "+c.token)
	}
	resp, err := c.http.Do(req)
	if err != nil {
		return 0, &TransportError{Err: err}
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		return resp.StatusCode, &TransportError{Err: fmt.Errorf("read the answer to %s %s: %w", r.method, r.path, err)}
	}
	if resp.StatusCode >= 300 {
		return resp.StatusCode, answerError(resp, body)
	}
	if len(body) == 0 || out == nil {
		return resp.StatusCode, nil
	}
	if err := json.Unmarshal(body, out); err != nil {
		return resp.StatusCode, fmt.Errorf("answer to %s %s: %w", r.method, r.path, err)
	}
	return resp.StatusCode, nil
}

func positive[T int | time.Duration](value, fallback T) T {
	if value > 0 {
		return value
	}
	return fallback
}
