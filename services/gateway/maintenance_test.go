package main

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
)

// modal answers as an ingest does whose mode can be turned.
func modal(pending int, on *atomic.Bool, token string) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		if token != "" && r.Header.Get("Authorization") != "Bearer "+token {
			w.WriteHeader(http.StatusUnauthorized)
			fmt.Fprint(w, `{"error":"Authentication required"}`)
			return
		}
		if r.Method == http.MethodGet {
			fmt.Fprintf(w, `{"maintenanceMode":%t,"popMaintenanceMode":false,"bufferedMessages":%[2]d,"bufferHealthy":true,"bufferStats":{"pendingCount":%[2]d,`+
				`"failedCount":1,"dbHealthy":true,"failedFiles":{"count":2,"totalBytes":1048576,"totalMB":1.0,"failoverCount":2,"qos0Count":0}}}`, on.Load(), pending)
			return
		}
		body, err := io.ReadAll(r.Body)
		if err != nil || string(body) != `{"enabled":true}` {
			w.Header().Set("Retry-After", "7")
			w.WriteHeader(http.StatusBadRequest)
			fmt.Fprint(w, `{"error":"enabled (boolean) is required"}`)
			return
		}
		on.Store(true)
		fmt.Fprintf(w, `{"maintenanceMode":true,"bufferedMessages":%d,"bufferHealthy":true,"message":"turned","stored":false}`, pending)
	}
}

func TestMaintenance(t *testing.T) {
	t.Parallel()
	const path = "/api/v1/system/maintenance"
	var on atomic.Bool // the mesh
	addresses := []string{service(t, modal(10, &on, "")).URL, service(t, modal(5, &on, "")).URL, service(t, func(w http.ResponseWriter, r *http.Request) {
		if r.Method != http.MethodGet {
			modal(0, &on, "")(w, r)
			return
		}
		fmt.Fprint(w, "<html>")
	}).URL}
	g := start(t, func(s *settings) { s.Ingest = addresses })
	const sums = `"popMaintenanceMode":false,"bufferedMessages":15,"bufferHealthy":true,"bufferStats":{"pendingCount":15,"failedCount":2,"dbHealthy":true,` +
		`"failedFiles":{"count":4,"totalBytes":2097152,"totalMB":2.0000,"failoverCount":4,"qos0Count":0}},"servers":[`
	got := g.do(t, http.MethodGet, path, "")
	if got.status != http.StatusOK || !strings.HasPrefix(got.body, `{"maintenanceMode":false,`+sums) || strings.Count(got.body, `"server":"127.0.0.1:`) != 3 ||
		!strings.Contains(got.body, `"error":"its answer cannot be read"`) {
		t.Errorf("%d %s", got.status, got.body)
	}
	got = g.do(t, http.MethodPost, path, `{"enabled":"?"}`)
	if got.status != http.StatusBadRequest || got.body != `{"error":"enabled (boolean) is required"}` || got.header.Get("Retry-After") != "7" {
		t.Errorf("%d %s", got.status, got.body)
	}
	got = g.do(t, http.MethodPost, path, `{"enabled":true}`)
	if got.status != http.StatusOK || strings.Count(got.body, `"server":"127.0.0.1:`) != 3 || !strings.HasPrefix(got.body, `{"maintenanceMode":true,"bufferedMessages":15,"bufferHealthy":true,`+
		`"message":"Maintenance mode ENABLED. All PUSHes routing to file buffer.","stored":false,"servers":[`) {
		t.Errorf("%d %s", got.status, got.body)
	}
	if got = g.do(t, http.MethodGet, path, ""); !strings.HasPrefix(got.body, `{"maintenanceMode":true,`+sums) {
		t.Errorf("%d %s", got.status, got.body)
	}
}

func TestMaintenanceIsForWhoeverMay(t *testing.T) {
	t.Parallel()
	var on atomic.Bool
	g := start(t, func(s *settings) { s.Ingest = []string{service(t, modal(1, &on, "secret")).URL} })
	for _, method := range []string{http.MethodGet, http.MethodPost} {
		if got := g.do(t, method, "/api/v1/system/maintenance", `{"enabled":true}`); got.status != http.StatusUnauthorized || got.body != `{"error":"Authentication required"}` {
			t.Errorf("%s: %d %s", method, got.status, got.body)
		}
	}
	if on.Load() {
		t.Error("it was turned")
	}
	nobody := start(t, func(s *settings) { s.Ingest = []string{"http://127.0.0.1:1"} })
	for _, method := range []string{http.MethodGet, http.MethodPost} {
		if got := nobody.do(t, method, "/api/v1/system/maintenance", `{"enabled":true}`); got.status != http.StatusServiceUnavailable || !strings.Contains(got.body, "upstream_unavailable") {
			t.Errorf("%s: %d %s", method, got.status, got.body)
		}
	}
}
