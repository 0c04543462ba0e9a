package main

import (
	"fmt"
	"net/http"
	"testing"
)

// forgetful has everything looked up.
func forgetful(s *settings) { s.Hotlist, s.Registry, s.DedupCache = false, false, false }

// A ring believes that it knows: what no write leads to stays hidden from it. Who doubts finds it at once.
func TestDoubt_APopSearchesEverythingBeforeItTakes(t *testing.T) {
	t.Parallel()
	for _, doubt := range []bool{false, true} {
		t.Run(fmt.Sprint(doubt), func(t *testing.T) {
			t.Parallel()
			b := setupWith(t, func(s *settings) {
				neverLook(s)
				s.Sweep = 0
				if doubt {
					forgetful(s)
				}
			})
			b.push("q", "p", "0")
			b.mustAck("", b.mustPop(http.StatusOK, "/queue/q").items("completed")...)
			b.mustPop(http.StatusNoContent, "/queue/q")
			b.exec(`UPDATE queen.partitions SET last_created_at = '2001-01-01'`)
			b.exec(`UPDATE queen.cursors SET committed = -1`)
			want := http.StatusNoContent
			if doubt {
				want = http.StatusOK
			}
			b.mustPop(want, "/queue/q")
		})
	}
}

// A renewal and a give-back find the cursors of a lease that nobody remembers.
func TestDoubt_LeasesAreSearchedFor(t *testing.T) {
	t.Parallel()
	b := setupWith(t, forgetful)
	b.push("q", "p", "0")
	b.push("q", "other", "0")
	first := b.mustPop(http.StatusOK, "/queue/q?partitions=2&batch=2")
	if n := b.metric("queen_lease_registry_leases"); n != 0 {
		t.Errorf("%v leases are registered", n)
	}
	if status, text := b.ask(http.MethodPost, "/api/v1/lease/"+first.LeaseID+"/extend"); status != http.StatusOK {
		t.Errorf("%d %s", status, text)
	}
	b.release(first.LeaseID, true, 2)
	if again := b.mustPop(http.StatusOK, "/queue/q?partitions=2&batch=2"); len(again.Messages) != 2 {
		t.Errorf("%s", again.Raw)
	}
}
