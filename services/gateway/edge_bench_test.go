package main

import (
	"bufio"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"strings"
	"testing"

	"queen.internal/pkg/daemon"
	"queen.internal/pkg/metrics"
	"queen.internal/services/gateway/internal/forward"
)

// BenchmarkPush compares one small push straight at a service with one through the edge, and with one through
// httputil.ReverseProxy in the edge's place. Client, proxy and service share the process, so the differences count.
func BenchmarkPush(b *testing.B) {
	upstream := httptest.NewServer(serviceHandler(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		_, _ = io.WriteString(w, `[{"status":"queued"}]`)
	}))
	defer upstream.Close()
	target, err := url.Parse(upstream.URL)
	if err != nil {
		b.Fatal(err)
	}
	proxy := httptest.NewServer(&httputil.ReverseProxy{
		Rewrite:   func(r *httputil.ProxyRequest) { r.SetURL(target); r.SetXForwarded() },
		Transport: &http.Transport{MaxIdleConnsPerHost: 1000},
	})
	defer proxy.Close()
	for name, url := range map[string]string{"straight": upstream.URL, "edge": benchEdge(b, upstream.URL), "reverse proxy": proxy.URL} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			b.SetParallelism(32)
			b.RunParallel(func(pb *testing.PB) { pushLoop(b, strings.TrimPrefix(url, "http://"), pb.Next) })
		})
	}
}

// benchEdge is an edge that logs nothing.
func benchEdge(b *testing.B, url string) string {
	s := defaults()
	s.Ingest, s.Deliver = list(url), list(url)
	bases, err := s.bases()
	if err != nil {
		b.Fatal(err)
	}
	o := forward.Default(slog.New(slog.DiscardHandler))
	o.Bases = bases
	f := forward.New(o)
	if err := f.Start(b.Context()); err != nil {
		b.Fatal(err)
	}
	server, err := newServer(daemon.Env{Logger: o.Logger}, s, f, metrics.New("gateway", "test"))
	if err != nil {
		b.Fatal(err)
	}
	listening := httptest.NewServer(server.Handler())
	b.Cleanup(listening.Close)
	return listening.URL
}

// pushLoop is a client that costs next to nothing: one connection, prepared bytes.
func pushLoop(b *testing.B, address string, more func() bool) {
	c, err := net.Dial("tcp", address)
	if err != nil {
		b.Error(err)
		return
	}
	defer func() { _ = c.Close() }()
	const body = `{"items":[{"queue":"q","payload":{"text":"some few words"}}]}`
	request := fmt.Sprintf("POST /api/v1/push HTTP/1.1\r\nHost: h\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s", len(body), body)
	r := bufio.NewReader(c)
	for more() {
		if _, err := io.WriteString(c, request); err != nil {
			b.Error(err)
			return
		}
		answer, err := http.ReadResponse(r, nil)
		if err != nil || answer.StatusCode != http.StatusOK {
			b.Errorf("%v, %v", answer, err)
			return
		}
		_, _ = io.Copy(io.Discard, answer.Body)
	}
}
