package main

import (
	"net/http"
	"testing"

	"queen.internal/pkg/appendlog"
	"queen.internal/pkg/pgtest"
	"queen.internal/pkg/store/log"
)

// patient is a bundle whose parked polls look for themselves only once an hour.
func patient(t *testing.T) *bundle {
	t.Helper()
	database := pgtest.New(t)
	return &bundle{
		t: t, database: database,
		appender: appendlog.New(log.New(database.Pool), nil),
		process: start(t, database.Config, func(s *settings) {
			s.WaitInitial, s.WaitMax = 3600_000, 3600_000
		}),
	}
}

func TestSeek_WakesWhoWaits(t *testing.T) {
	t.Parallel()
	const toAll, to = `{"timestamp":"2001-01-01"}`, "/consumer-groups/g/queues/"
	for name, test := range map[string]struct{ pop, seek string }{
		"Queue":                  {"/queue/a.b?batch=2", "a.b/seek"},
		"QueueByPartition":       {"/queue/a.b?batch=2", "a.b/partitions/p/seek"},
		"Partition":              {"/queue/a.b/partition/p?batch=2", "a.b/partitions/p/seek"},
		"PartitionByQueue":       {"/queue/a.b/partition/p?batch=2", "a.b/seek"},
		"Discovery":              {"?namespace=a&batch=2", "a.b/seek"},
		"DiscoveryByPartition":   {"?namespace=a&batch=2", "a.b/partitions/p/seek"},
		"AfterDeletionOfTheRest": {"/queue/a.b?batch=2&subscriptionMode=all", ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := patient(t)
			b.push("a.b", "p", "1", "2")
			pop := test.pop + "&consumerGroup=g&subscriptionMode=all"
			b.mustAck("g", b.mustPop(http.StatusOK, pop).items("completed")...)
			answer := b.later(pop + "&wait=true&timeout=50000")
			b.parked(1)
			switch {
			case test.seek != "":
				status, _, body, err := b.do(t.Context(), http.MethodPost, "/api/v1"+to+test.seek, toAll)
				if status != http.StatusOK || err != nil {
					t.Fatal(status, string(body), err)
				}
			default: // whoever waits is the first to meet the group anew
				b.call(http.MethodDelete, "/consumer-groups/g", "", http.StatusOK,
					`{"success":true,"consumerGroup":"g","deletedPartitions":1,"metadataDeleted":true}`)
			}
			if got := answer(); got.ids() != "1 2" || got.Messages[0].DeliveryAttempt != 1 {
				t.Errorf("got %s", got.Raw)
			}
		})
	}
}

func TestSeek_EndsALeaseForWhoWaitsBehindIt(t *testing.T) {
	t.Parallel()
	b := patient(t)
	b.push("q", "p", "1", "2")
	const pop = "/queue/q?consumerGroup=g&subscriptionMode=all&batch=1&leaseSeconds=3600"
	held := b.mustPop(http.StatusOK, pop)
	answer := b.later(pop + "&wait=true&timeout=50000")
	b.parked(1)
	b.seek("g", `{"timestamp":"2001-01-01"}`, 1)
	if got := answer(); got.ids() != "1" || got.LeaseID == held.LeaseID || got.Messages[0].DeliveryAttempt != 1 {
		t.Errorf("got %s", got.Raw)
	}
	results, err := b.ack("g", held.items("completed")...)
	if err != nil || results[0].Success {
		t.Errorf("an ack under the lease that the seek ended: %+v, %v", results, err)
	}
}
