package main

import (
	"net/http"
	"testing"

	"queen.internal/pkg/pgtest"
	"queen.internal/pkg/queue"
)

// delete sends the deletion of a queue, whose name is escaped already, and checks the answer to the byte.
func (s *service) delete(t *testing.T, name, want string) {
	t.Helper()
	status, header, answer, err := do(http.MethodDelete, s.url+"/api/v1/resources/queues/"+name, "")
	if err != nil || status != http.StatusOK || answer != want || header.Get("Content-Type") != "application/json" {
		t.Errorf("%d %v %s (%v), want %s", status, header, answer, err, want)
	}
}

func TestDelete_AnswersToTheByte(t *testing.T) {
	t.Parallel()
	s := ready(t, pgtest.New(t).Config, nil)
	s.delete(t, "q", `{"deleted":false,"queue":"q","existed":false,"message":"Queue not found, nothing was deleted"}`)
	s.mustPush(t, `{"items":[{"queue":"a/b \"ü\"","payload":1}]}`)
	s.delete(t, "a%2Fb%20%22%C3%BC%22", `{"deleted":true,"queue":"a/b \"ü\"","existed":true}`)
	s.delete(t, "a%2Fb%20%22%C3%BC%22", `{"deleted":false,"queue":"a/b \"ü\"","existed":false,"message":"Queue not found, nothing was deleted"}`)
	if status, _, answer, err := do(http.MethodDelete, s.url+"/api/v1/resources/queues/%00", ""); err != nil || status != http.StatusBadRequest {
		t.Errorf("%d %s (%v)", status, answer, err)
	}
}

// Two ingests remember the partition. After one has deleted the queue, pushes at both go to one successor, in which even
// what was pushed before is new.
func TestDelete_PushesGoToTheNextQueueWhateverIsRemembered(t *testing.T) {
	t.Parallel()
	db := pgtest.New(t)
	one, two := ready(t, db.Config, nil), ready(t, db.Config, nil)
	const body = `{"items":[{"queue":"q","transactionId":"1","payload":1},{"queue":"q","transactionId":"2","payload":2}]}`
	first := one.mustPush(t, body)
	two.mustPush(t, `{"items":[{"queue":"q","transactionId":"3","payload":3}]}`)
	one.delete(t, "q", `{"deleted":true,"queue":"q","existed":true}`)
	for i, again := range two.mustPush(t, body) {
		if again.Status != "queued" || again.MessageID == first[i].MessageID {
			t.Errorf("%+v, before it %+v", again, first[i])
		}
	}
	for _, again := range one.mustPush(t, body) {
		if again.Status != "duplicate" {
			t.Errorf("%+v", again)
		}
	}
	if got := stored(t, db, "q", queue.DefaultPartition); len(got) != 2 {
		t.Errorf("%d messages in the new queue", len(got))
	}
}

// Options end with the queue, also the one that ingest remembers.
func TestDelete_EncryptionEndsWithTheQueue(t *testing.T) {
	t.Parallel()
	db := pgtest.New(t)
	s := ready(t, db.Config, withKey)
	s.configure(t, `{"queue":"q","options":{"encryptionEnabled":true}}`)
	s.mustPush(t, `{"items":[{"queue":"q","payload":{"n":1}}]}`)
	s.delete(t, "q", `{"deleted":true,"queue":"q","existed":true}`)
	s.mustPush(t, `{"items":[{"queue":"q","payload":{"n":2}}]}`)
	if got := stored(t, db, "q", queue.DefaultPartition); len(got) != 1 || string(got[0].Payload) != `{"n":2}` {
		t.Errorf("stored %q", got)
	}
}
