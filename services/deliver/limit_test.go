package main

import (
	"fmt"
	"net/http"
	"testing"
)

func (b *bundle) expireLeases() {
	b.t.Helper()
	b.exec(`UPDATE queen.cursors SET lease_expires_at = clock_timestamp() - interval '1 ms' WHERE lease_id IS NOT NULL`)
}

func (b *bundle) deadLetters() (found []string) {
	b.t.Helper()
	rows, err := b.database.Pool.Query(b.t.Context(), `SELECT transaction_id || ': ' || error FROM queen.dlq ORDER BY failed_at, partition_id`)
	if err != nil {
		b.t.Fatal(err)
	}
	defer rows.Close()
	for rows.Next() {
		var text string
		if err := rows.Scan(&text); err != nil {
			b.t.Fatal(err)
		}
		found = append(found, text)
	}
	return found
}

func TestDeliveryLimit_OnEachRoute(t *testing.T) {
	t.Parallel()
	b := setup(t)
	for queueName, path := range map[string]string{
		"q.1": "/queue/q.1?batch=10&partitions=0", "q.2": "/queue/q.2/partition/p?batch=10", "q.3": "?namespace=q&task=3&batch=10&partitions=0",
	} {
		b.push(queueName, "p", "a", "b")
		b.exec(`UPDATE queen.queues SET delivery_limit = 2`)
		for i, want := range []string{"a b", "a", "b"} {
			got := b.mustPop(http.StatusOK, path)
			if got.ids() != want || got.Messages[0].DeliveryAttempt != min(i+1, 2) {
				t.Fatalf("%s: pop %d is %s", path, i+1, got.Raw)
			}
			b.expireLeases()
		}
		b.mustPop(http.StatusNoContent, path)
		want := []string{"a: delivered 2 times and not completed (deliveryLimit 2)", "b: delivered 2 times and not completed (deliveryLimit 2)"}
		if got := b.deadLetters(); fmt.Sprint(got) != fmt.Sprint(want) {
			t.Errorf("%s: dead letters %v", path, got)
		}
		b.exec(`DELETE FROM queen.dlq`)
	}
}

// Whoever comes back for its own failing message must not be joined by others, and must not be kept waiting by them.
func TestDeliveryLimit_TheHeadIsAloneInThePopAndIsNotStarved(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.push("q", "p1", "1")
	b.push("q", "p2", "bad", "behind")
	b.exec(`UPDATE queen.queues SET delivery_limit = 3`)
	first := b.mustPop(http.StatusOK, "/queue/q?batch=10&partitions=0")
	if first.ids() != "1 bad behind" {
		t.Fatal(first.Raw)
	}
	b.mustAck("", first.Messages[0].item("completed"), first.Messages[1].item("failed"))
	alone := 0
	for round := 0; alone < 2; round++ {
		if round > 4 {
			t.Fatalf("the failing message came alone %d times", alone)
		}
		b.push("q", "p1", fmt.Sprint("more", round)) // there is always other work, with a lower number
		got := b.mustPop(http.StatusOK, "/queue/q?batch=10&partitions=0")
		for _, m := range got.Messages {
			if m.TransactionID != "bad" {
				continue
			}
			if len(got.Messages) > 1 || m.DeliveryAttempt != alone+2 {
				t.Errorf("round %d: %s", round, got.Raw)
			}
			alone++
		}
		status := "completed"
		if got.ids() == "bad" {
			status = "failed"
		}
		b.mustAck("", got.items(status)...)
	}
	if dead := b.deadLetters(); dead != nil {
		t.Errorf("%v", dead)
	}
	for got := ""; got != "behind"; { // the next pop that looks there files it
		got = b.mustPop(http.StatusOK, "/queue/q?batch=10&partitions=0").ids()
	}
	if dead := b.deadLetters(); len(dead) != 1 {
		t.Errorf("%v", dead)
	}
}

func TestDeliveryLimit_WakesAParkedPollForWhatIsBehind(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.push("q", "p", "a", "b")
	b.exec(`UPDATE queen.queues SET delivery_limit = 2, retry_limit = 10`)
	got := b.mustPop(http.StatusOK, "/queue/q?batch=1")
	b.mustAck("", got.items("retry")...)
	got = b.mustPop(http.StatusOK, "/queue/q?batch=1")
	answer := b.later("/queue/q?batch=1&wait=true&timeout=60000")
	b.parked(1)
	b.mustAck("", got.items("retry")...)
	if got := answer(); got.ids() != "b" || got.Messages[0].DeliveryAttempt != 1 {
		t.Errorf("%s", got.Raw)
	}
	if dead := b.deadLetters(); len(dead) != 1 {
		t.Errorf("%v", dead)
	}
}
