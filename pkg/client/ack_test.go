package client_test

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"queen.internal/pkg/client"
)

const acked = `[{"index":0,"transactionId":"t","success":true,"error":null,"leaseReleased":true,"dlq":false,"noop":false}]`

func TestAck(t *testing.T) {
	t.Parallel()
	message := client.Message{TransactionID: "t", PartitionID: "P", LeaseID: "L"}

	t.Run("OneMessage", func(t *testing.T) {
		t.Parallel()
		cl, cell := setup(t, answer(200, acked))
		result, err := cl.Ack(t.Context(), "g", client.AckOf(message, client.Completed))
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(client.AckResult{TransactionID: "t", Success: true, LeaseReleased: true}, result); diff != "" {
			t.Error(diff)
		}
		want := seen{
			"POST", "/cells/one/api/v1/ack",
			`{"transactionId":"t","partitionId":"P","leaseId":"L","status":"completed","consumerGroup":"g"}`,
			"Bearer secret", "application/json",
		}
		if got := cell.asked()[0]; got != want {
			t.Errorf("asked %+v, want %+v", got, want)
		}
	})

	t.Run("BatchNamesTheGroupOnce", func(t *testing.T) {
		t.Parallel()
		cl, cell := setup(t, answer(200, acked))
		failed := client.AckOf(message, client.NotCompleted)
		failed.Error = "smtp 550"
		if _, err := cl.AckBatch(t.Context(), "g", []client.Acknowledgment{failed}); err != nil {
			t.Fatal(err)
		}
		want := `{"consumerGroup":"g","acknowledgments":[{"transactionId":"t","partitionId":"P","leaseId":"L",` +
			`"status":"failed","error":"smtp 550"}]}`
		if got := cell.asked()[0]; got.body != want || got.uri != "/cells/one/api/v1/ack/batch" {
			t.Errorf("asked %s with %s, want %s", got.uri, got.body, want)
		}
	})

	t.Run("OnlyCompletionsAreRepeated", func(t *testing.T) {
		t.Parallel()
		for status, requests := range map[string]int{
			client.Completed: 2, "": 2, client.NotCompleted: 1, client.Retry: 1, client.DeadLetter: 1,
		} {
			cl, cell := setup(t, hangUp, answer(200, acked))
			_, err := cl.AckBatch(t.Context(), "g", []client.Acknowledgment{client.AckOf(message, status)})
			if (err == nil) != (requests == 2) || len(cell.asked()) != requests {
				t.Errorf("status %q: error %v after %d requests, want %d", status, err, len(cell.asked()), requests)
			}
		}
	})

	t.Run("AnswerOfAnotherLengthIsAnError", func(t *testing.T) {
		t.Parallel()
		cl, _ := setup(t, answer(200, `[]`))
		if _, err := cl.Ack(t.Context(), "g", client.AckOf(message, client.Completed)); err == nil {
			t.Error("no error")
		}
	})
}

func TestExtend(t *testing.T) {
	t.Parallel()

	t.Run("ReportsTheNewExpiry", func(t *testing.T) {
		t.Parallel()
		cl, cell := setup(t, answer(200, `{"leaseId":"L","success":true,"renewed":2,"newExpiresAt":"2026-08-01T10:02:00.000000Z"}`))
		got, err := cl.Extend(t.Context(), "L/1", 90*time.Second)
		if err != nil {
			t.Fatal(err)
		}
		want := client.Extension{LeaseID: "L", Renewed: 2, ExpiresAt: time.Date(2026, 8, 1, 10, 2, 0, 0, time.UTC)}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Error(diff)
		}
		if r := cell.asked()[0]; r.uri != "/cells/one/api/v1/lease/L%2F1/extend" || r.body != `{"seconds":90}` {
			t.Errorf("asked %s with %s", r.uri, r.body)
		}
	})

	t.Run("LeaseThatIsGone", func(t *testing.T) {
		t.Parallel()
		cl, _ := setup(t, answer(200, `{"leaseId":"L","success":false,"renewed":0,"newExpiresAt":null}`))
		got, err := cl.Extend(t.Context(), "L", 0)
		if err != nil || got.Renewed != 0 || !got.ExpiresAt.IsZero() {
			t.Errorf("extension %+v, error %v; want nothing renewed", got, err)
		}
	})
}
