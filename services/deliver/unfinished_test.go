package main

import (
	"net/http"
	"testing"

	"queen.internal/pkg/testkit"
)

// A search takes longer than a call may. A pop that does not wait is told to come again; one that waits gets what the search
// finds that goes on meanwhile.
func TestPop_OutlivesASearchThatTakesTooLong(t *testing.T) {
	t.Parallel()
	b := setup(t)
	proxy, cfg := testkit.Between(t, b.database.Config)
	slow := &bundle{t: t, database: b.database, process: start(t, cfg, neverLook)}
	b.push("q", "p", "a")
	b.push("q.r", "p", "b")
	const told = `{"error":"the partitions of the queue are still being searched for work"}`
	for _, path := range []string{"/queue/q?autoAck=true", "?namespace=q&task=r&autoAck=true"} {
		search := proxy.Next(testkit.HoldStatement, "queen.find_candidates(")
		status, header, body, err := slow.do(t.Context(), http.MethodGet, "/api/v1/pop"+path, "")
		if err != nil || status != http.StatusServiceUnavailable || string(body) != told || header.Get("Retry-After") != "1" {
			t.Errorf("%s: %d %s, after %q: %v", path, status, body, header.Get("Retry-After"), err)
		}
		search.Release()
		slow.mustPop(http.StatusOK, path)
	}
	b.push("q", "p", "c")
	b.push("q.r", "p", "d")
	for _, path := range []string{"/queue/q?consumerGroup=g", "?namespace=q&task=r&consumerGroup=g"} {
		search := proxy.Next(testkit.HoldStatement, "queen.find_candidates(")
		answer := slow.later(path + "&subscriptionMode=all&wait=true&timeout=60000")
		slow.parked(1)
		search.Release()
		if got := answer(); got.Status != http.StatusOK {
			t.Errorf("%s: %d %s", path, got.Status, got.Raw)
		}
	}
}
