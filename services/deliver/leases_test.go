package main

import (
	"encoding/json"
	"net/http"
	"testing"
	"time"
)

type leaseList struct {
	Leases []struct {
		LeaseID, Queue, Partition, PartitionID, ConsumerGroup string
		FirstOffset, LastOffset                               int64
		Attempt                                               int
		ExpiresAt                                             time.Time
	}
	Truncated bool
}

func (p *process) leaseList(t *testing.T, query string) (l leaseList) {
	t.Helper()
	status, _, body, err := p.do(t.Context(), http.MethodGet, "/api/v1/leases"+query, "")
	if err != nil || status != http.StatusOK {
		t.Fatalf("%d %s (%v)", status, body, err)
	}
	if err := json.Unmarshal(body, &l); err != nil {
		t.Fatalf("%s: %v", body, err)
	}
	return l
}

func TestLeases_AreListed(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.manage(t, http.MethodGet, "/api/v1/leases", http.StatusOK, `{"leases":[],"truncated":false}`)
	b.push("q", "p", "a", "b", "c")
	b.push("other", "p", "a")
	got := b.mustPop(http.StatusOK, "/queue/q?consumerGroup=g&subscriptionMode=all&batch=2")
	b.mustPop(http.StatusOK, "/queue/q")
	b.mustPop(http.StatusOK, "/queue/other")
	for query, want := range map[string]int{"": 3, "?queue=q": 2, "?group=__QUEUE_MODE__": 2, "?queue=other&group=__QUEUE_MODE__": 1, "?group=h": 0} {
		if l := b.leaseList(t, query); len(l.Leases) != want || l.Truncated {
			t.Errorf("%s: %+v", query, l)
		}
	}
	l := b.leaseList(t, "?queue=q&group=g").Leases[0]
	if l.LeaseID != got.LeaseID || l.Queue != "q" || l.Partition != "p" || l.PartitionID != got.Messages[0].PartitionID || l.ConsumerGroup != "g" ||
		l.FirstOffset != 0 || l.LastOffset != 1 || l.Attempt != 1 || !l.ExpiresAt.After(time.Now()) {
		t.Errorf("%+v", l)
	}
	for query, want := range map[string]int{"?limit=2": 2, "?limit=0": 0} {
		if l := b.leaseList(t, query); len(l.Leases) != want || !l.Truncated {
			t.Errorf("%s: %+v", query, l)
		}
	}
	if l := b.leaseList(t, "?limit=3"); len(l.Leases) != 3 || l.Truncated {
		t.Errorf("%+v", l)
	}
	if status, _, body, err := b.do(t.Context(), http.MethodGet, "/api/v1/leases?limit=many", ""); err != nil || status != http.StatusBadRequest {
		t.Errorf("%d %s (%v)", status, body, err)
	}
}

// Whoever waits gets the partition at once, on the deliver that ends the lease; that another one has given it does not matter.
func TestLeases_EndedOnesFreeTheirPartitions(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.process = start(t, b.database.Config, func(s *settings) { s.WaitInitial, s.WaitMax = 3_600_000, 3_600_000 })
	giver := start(t, b.database.Config, func(*settings) {})
	for _, path := range []string{"/queue/q?", "/queue/q/partition/p?", "?namespace=q&"} {
		b.push("q", "p", path)
		got, err := giver.pop("/queue/q?consumerGroup=g&subscriptionMode=all&leaseSeconds=3600&batch=9")
		if err != nil || got.Status != http.StatusOK {
			t.Fatalf("%d %s (%v)", got.Status, got.Raw, err)
		}
		answer := b.later(path + "consumerGroup=g&wait=true&timeout=600000&batch=9")
		b.parked(1)
		b.manage(t, http.MethodDelete, "/api/v1/leases/"+got.LeaseID, http.StatusOK, `{"leaseId":"`+got.LeaseID+`","success":true,"released":1}`)
		again := answer()
		if again.ids() != got.ids() || again.Messages[0].DeliveryAttempt != 2 {
			t.Errorf("%s: %d %s", path, again.Status, again.Raw)
		}
		results, err := giver.ack("g", got.items("ok")...)
		if err != nil || results[0].Success || *results[0].Error != "invalid or expired lease" {
			t.Errorf("the ack of before: %+v (%v)", results, err)
		}
		b.manage(t, http.MethodDelete, "/api/v1/leases/"+got.LeaseID, http.StatusOK, `{"leaseId":"`+got.LeaseID+`","success":false,"released":0}`)
		b.mustAck("g", again.items("ok")...)
	}
	b.manage(t, http.MethodDelete, "/api/v1/leases/nonsense", http.StatusOK, `{"leaseId":"nonsense","success":false,"released":0}`)
}
