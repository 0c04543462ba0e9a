package main

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
)

// buffers answers as an ingest does, to whoever has the token.
func buffers(pending, failed int, healthy bool, token string) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		if token != "" && r.Header.Get("Authorization") != "Bearer "+token {
			w.WriteHeader(http.StatusUnauthorized)
			fmt.Fprint(w, `{"error":"Authentication required"}`)
			return
		}
		fmt.Fprintf(w, `{"pending":%d,"failed":%d,"dbHealthy":%t,"worker":0}`, pending, failed, healthy)
	}
}

func TestBuffers(t *testing.T) {
	t.Parallel()
	const path = "/api/v1/status/buffers"
	odd := func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "<html>") }
	failing := func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusInternalServerError) }
	for name, tc := range map[string]struct {
		handlers []http.HandlerFunc
		status   int
		want     string // addresses are %[1]s, %[2]s, … in the order of the list
	}{
		"sums over all": {
			[]http.HandlerFunc{buffers(1, 2, true, ""), buffers(10, 20, true, "")},
			200,
			`{"pending":11,"failed":22,"dbHealthy":true,"worker":0,"servers":[`,
		},
		"one that sees no database": {
			[]http.HandlerFunc{buffers(1, 0, true, ""), buffers(0, 0, false, "")},
			200,
			`{"pending":1,"failed":0,"dbHealthy":false,"worker":0,"servers":[`,
		},
		"one that cannot tell": {
			[]http.HandlerFunc{buffers(5, 0, true, ""), odd}, 200, `"error":"its answer cannot be read"`,
		},
		"one that fails": {
			[]http.HandlerFunc{buffers(5, 0, true, ""), failing}, 200, `"error":"it answers with status 500"`,
		},
		"none that can tell": {[]http.HandlerFunc{odd}, 503, `"upstream_unavailable"`},
		"without a credential": {
			[]http.HandlerFunc{buffers(1, 0, true, "secret")}, 401, `{"error":"Authentication required"}`,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			g := start(t, func(s *settings) {
				s.Ingest = nil
				for _, h := range tc.handlers {
					s.Ingest = append(s.Ingest, service(t, h).URL)
				}
			})
			got := g.do(t, http.MethodGet, path, "")
			if got.status != tc.status || !strings.Contains(got.body, tc.want) {
				t.Errorf("%d %s", got.status, got.body)
			}
			if tc.status == http.StatusOK && strings.Count(got.body, `"server":"127.0.0.1:`) != len(tc.handlers) {
				t.Errorf("not every server is listed: %s", got.body)
			}
		})
	}
}
