package main

import (
	"net/http"
	"strings"
	"testing"
)

// delete marks the queue as ingest does.
func (b *bundle) delete() {
	b.t.Helper()
	b.exec(`SELECT queen.delete_queue(tenant, name) FROM queen.queues WHERE name = 'q' AND deleted_at IS NULL`)
}

// Leases of a deleted queue can be neither acked nor prolonged nor given back, and look like those of nobody.
func TestDelete_LeasesEndWithTheQueue(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.push("q", "p", "a", "b")
	got := b.mustPop(http.StatusOK, "/queue/q?consumerGroup=g&subscriptionMode=all&batch=2")
	b.delete()
	b.push("q", "p", "c")
	for _, status := range []string{"completed", "failed", "dlq"} {
		results, err := b.ack("g", got.items(status)...)
		if err != nil || len(results) != 2 {
			t.Fatalf("%+v (%v)", results, err)
		}
		for _, r := range results {
			if r.Success || r.Error == nil || *r.Error != "consumer not found" {
				t.Errorf("%s: %+v", status, r)
			}
		}
	}
	for path, want := range map[string]string{
		"/api/v1/lease/" + got.LeaseID + "/extend":        `"renewed":0`,
		"/internal/api/lease/" + got.LeaseID + "/release": `"released":0`,
	} {
		status, _, body, err := b.do(t.Context(), http.MethodPost, path, "")
		if err != nil || status != http.StatusOK || !strings.Contains(string(body), want) {
			t.Errorf("%s: %d %s (%v)", path, status, body, err)
		}
	}
	if got := b.mustPop(http.StatusOK, "/queue/q?consumerGroup=g&subscriptionMode=all&batch=2"); got.ids() != "c" || got.Messages[0].DeliveryAttempt != 1 {
		t.Errorf("%s", got.Raw)
	}
	var letters int
	if err := b.database.Pool.QueryRow(t.Context(), `SELECT count(*) FROM queen.dlq`).Scan(&letters); err != nil || letters != 0 {
		t.Errorf("%d dead letters (%v)", letters, err)
	}
}

// A poll waits since before the new queue was there, so nothing in it is backlog, whatever the group's mode.
func TestDelete_AParkedPollGetsAllOfTheNextQueue(t *testing.T) {
	t.Parallel()
	for name, path := range map[string]string{
		"OfAPartition": "/queue/q/partition/p?consumerGroup=g&wait=true&timeout=600000",
		"OfAQueue":     "/queue/q?consumerGroup=g&wait=true&timeout=600000",
		"OfANamespace": "?namespace=q&consumerGroup=g&wait=true&timeout=600000",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := setup(t)
			b.push("q", "p", "old")
			answer := b.later(path)
			b.parked(1)
			b.delete()
			b.parked(1)
			if n := b.live("q"); n != 0 {
				t.Errorf("the poll has made %d queues", n)
			}
			b.push("q", "p", "new")
			if got := answer(); got.ids() != "new" {
				t.Errorf("%d %s", got.Status, got.Raw)
			}
		})
	}
}

// live is how many queues of that name exist.
func (b *bundle) live(name string) (n int) {
	b.t.Helper()
	if err := b.database.Pool.QueryRow(b.t.Context(), `SELECT count(*) FROM queen.queues WHERE name = $1 AND deleted_at IS NULL`, name).Scan(&n); err != nil {
		b.t.Fatal(err)
	}
	return n
}

// A poll of many queues has a ring for the deleted one, too.
func TestDelete_APollOfANamespaceMakesNoQueue(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.push("q", "p", "old")
	b.push("q.other", "p", "more")
	const path = "?namespace=q&consumerGroup=g&batch=2&partitions=2&subscriptionMode=all"
	got := b.mustPop(http.StatusOK, path)
	parked := b.later(path + "&wait=true&timeout=600000")
	b.parked(1) // keeps the rings
	b.delete()
	b.mustPop(http.StatusNoContent, path)
	b.mustPop(http.StatusNoContent, path)
	if n := b.live("q"); n != 0 {
		t.Errorf("the polls have made %d queues", n)
	}
	b.release(got.LeaseID, true, 1)
	if got := parked(); got.ids() != "more" {
		t.Errorf("%d %s", got.Status, got.Raw)
	}
}
