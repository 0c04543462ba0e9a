package acceptance

import (
	"fmt"
	"net/http"
	"strings"

	"queen.internal/pkg/client"
)

// The tenancy cases of routes that do more than push, pop or ack.

func crossTransaction(x *crossing) {
	m := x.leased()
	// The same key and the same queue are theirs as well.
	var answer transacted
	x.theirs.post("/api/v1/transaction", fmt.Sprintf(
		`{"operations":[{"type":"push","queue":%q,"partition":"p","transactionId":"k","payload":1}]}`, x.queue), http.StatusOK, &answer)
	x.mine.same("their own push", true, answer.Success)
	x.theirs.delivers(x.pop(x.theirs), "k")
	for _, leases := range []string{"", m.LeaseID} {
		for _, status := range []string{client.Completed, client.NotCompleted, client.Retry, client.DeadLetter} {
			x.likeUnknown(m.PartitionID, func(l *line, partition string) (int, string) {
				code, text := l.send(http.MethodPost, "/api/v1/transaction", fmt.Sprintf(`{"operations":[
					{"type":"push","queue":%q,"partition":"p","payload":2},
					{"type":"ack","transactionId":"k","partitionId":%q,"consumerGroup":%q,"status":%q,"leaseId":%q}]}`,
					x.queue, partition, x.group, status, leases))
				if code != http.StatusOK || !strings.Contains(text, `"success":false`) {
					x.Errorf("%d %s", code, text)
				}
				return code, text
			})
		}
	}
	x.stillMine(m)
	x.theirs.delivers(x.theirs.popFor("/api/v1/pop/queue/"+x.queue), "k") // none of their bundles was committed
}

func crossQueueDelete(x *crossing) {
	path := "/api/v1/resources/queues/" + x.queue
	m := x.leased()
	status, answer := x.theirs.send(http.MethodDelete, path, "")
	x.mine.same("what they are told", fmt.Sprintf(`200 {"deleted":false,"queue":%q,"existed":false,"message":"Queue not found, nothing was deleted"}`, x.queue),
		fmt.Sprint(status, " ", answer))
	x.theirs.pushFor(x.queue, "k")
	var deleted struct{ Deleted bool }
	status, answer = x.theirs.send(http.MethodDelete, path, "")
	x.theirs.read(status, answer, http.StatusOK, &deleted)
	x.mine.same("their own is deleted", true, deleted.Deleted)
	x.theirs.delivers(x.pop(x.theirs))
	x.stillMine(m)
	x.mine.duplicates(m.ID, x.mine.pushFor(x.queue, "k"))
}

// dead makes a dead letter of a message that a tenant pushes to the queue, and gives the message.
func (x *crossing) dead(l *line, transaction string) client.Message {
	x.Helper()
	l.pushFor(x.queue, transaction)
	batch := x.pop(l)
	l.delivers(batch, transaction)
	var results []client.AckResult
	l.post("/api/v1/ack", x.ack(client.AckOf(batch.Messages[0], client.DeadLetter)), http.StatusOK, &results)
	if len(results) != 1 || !results[0].DeadLettered {
		x.Fatalf("%+v", results)
	}
	return batch.Messages[0]
}

func crossDeadLetterList(x *crossing) {
	x.dead(x.mine, "mine")
	x.theirs.wantDead(x.queue)
	x.dead(x.theirs, "theirs")
	x.mine.wantDead(x.queue, "mine")
	x.theirs.wantDead(x.queue, "theirs")
}

func crossDeadLetterPurge(x *crossing) {
	purge := func() (answer struct{ Deleted int }) {
		status, body := x.theirs.send(http.MethodDelete, "/api/v1/dlq?queue="+x.queue, "")
		x.theirs.read(status, body, http.StatusOK, &answer)
		return answer
	}
	x.dead(x.mine, "k")
	x.mine.same("purged of nothing", 0, purge().Deleted)
	x.dead(x.theirs, "k")
	x.mine.same("purged of their own", 1, purge().Deleted)
	x.theirs.wantDead(x.queue)
	x.mine.wantDead(x.queue, "k")
}

func crossMessageDelete(x *crossing) {
	mine := x.dead(x.mine, "k")
	x.dead(x.theirs, "k")
	x.likeUnknown(mine.PartitionID, func(l *line, partition string) (int, string) {
		return l.send(http.MethodDelete, "/api/v1/messages/"+partition+"/k", "")
	})
	x.mine.wantDead(x.queue, "k")
	x.theirs.wantDead(x.queue, "k")
	if status, answer := x.mine.send(http.MethodDelete, "/api/v1/messages/"+mine.PartitionID+"/k", ""); status != http.StatusOK {
		x.Errorf("my own: %d %s", status, answer)
	}
	x.mine.wantDead(x.queue)
	x.theirs.wantDead(x.queue, "k")
}

func crossDepth(x *crossing) {
	pending := func(l *line) (answer struct{ Pending int }) {
		l.get("/api/v1/resources/queues/"+x.queue+"/depth", &answer)
		return answer
	}
	x.mine.pushFor(x.queue, "1")
	x.mine.pushFor(x.queue, "2")
	x.likeUnknown(x.queue, func(l *line, queue string) (int, string) {
		return l.send(http.MethodGet, "/api/v1/resources/queues/"+queue+"/depth", "")
	})
	x.theirs.pushFor(x.queue, "1")
	x.mine.same("theirs and mine", []int{1, 2}, []int{pending(x.theirs).Pending, pending(x.mine).Pending})
}

// groupDeletes crosses the deletion of a group, which ends its leases.
func (x *crossing) groupDeletes(path string) {
	x.Helper()
	m := x.leased()
	remove := func() (answer struct{ DeletedPartitions int }) {
		x.Helper()
		status, body := x.theirs.send(http.MethodDelete, path, "")
		x.theirs.read(status, body, http.StatusOK, &answer)
		return answer
	}
	x.mine.same("of mine they delete", 0, remove().DeletedPartitions)
	x.theirs.pushFor(x.queue, "k")
	x.pop(x.theirs)
	x.mine.same("of their own they delete", 1, remove().DeletedPartitions)
	x.theirs.delivers(x.pop(x.theirs), "k")
	x.stillMine(m)
}

func crossSubscription(x *crossing) {
	m := x.leased()
	change := func(l *line) (answer struct{ RowsUpdated int }) {
		l.post("/api/v1/consumer-groups/"+x.group+"/subscription", `{"subscriptionTimestamp":"2026-08-01T00:00:00Z"}`, http.StatusOK, &answer)
		return answer
	}
	x.mine.same("of mine they change", 0, change(x.theirs).RowsUpdated)
	x.theirs.pushFor(x.queue, "k")
	x.pop(x.theirs)
	x.mine.same("of their own they change", 1, change(x.theirs).RowsUpdated)
	x.mine.same("of mine I change", 1, change(x.mine).RowsUpdated)
	x.stillMine(m)
}

// seeks crosses a seek, which ends the leases of the group. The queue's name stands in the path.
func (x *crossing) seeks(path string) {
	x.Helper()
	path = "/api/v1/consumer-groups/" + x.group + path
	m := x.leased()
	for _, body := range []string{`{"toEnd":true}`, `{"timestamp":"2020-01-01T00:00:00Z"}`} {
		x.likeUnknown(x.queue, func(l *line, queue string) (int, string) {
			status, answer := l.send(http.MethodPost, fmt.Sprintf(path, queue), body)
			if status != http.StatusNotFound {
				x.Errorf("%d %s", status, answer)
			}
			return status, answer
		})
	}
	x.theirs.pushFor(x.queue, "k")
	x.theirs.delivers(x.pop(x.theirs), "k")
	x.theirs.post(fmt.Sprintf(path, x.queue), `{"toEnd":true}`, http.StatusOK, new(any))
	x.theirs.delivers(x.pop(x.theirs))
	x.stillMine(m)
}

func crossMessageList(x *crossing) {
	listed := func(l *line) []string {
		l.Helper()
		var answer struct {
			Messages []struct{ TransactionID string }
		}
		l.get("/api/v1/messages?queue="+x.queue, &answer)
		ids := []string{}
		for _, m := range answer.Messages {
			ids = append(ids, m.TransactionID)
		}
		return ids
	}
	x.mine.pushFor(x.queue, "mine")
	x.mine.same("of mine they see", []string{}, listed(x.theirs))
	x.theirs.pushFor(x.queue, "theirs")
	x.mine.same("theirs and mine", [][]string{{"theirs"}, {"mine"}}, [][]string{listed(x.theirs), listed(x.mine)})
}

func crossMessageGet(x *crossing) {
	m := x.leased()
	x.theirs.pushFor(x.queue, "k")
	x.pop(x.theirs)
	x.likeUnknown(m.PartitionID, func(l *line, partition string) (int, string) {
		status, answer := l.send(http.MethodGet, "/api/v1/messages/"+partition+"/k", "")
		if status != http.StatusNotFound {
			x.Errorf("%d %s", status, answer)
		}
		return status, answer
	})
	var answer struct{ ID string }
	x.mine.get("/api/v1/messages/"+m.PartitionID+"/k", &answer)
	x.mine.same("mine", m.ID, answer.ID)
}

// partitionOf and letterOf are what a dead letter of a tenant is found by.
func (x *crossing) partitionOf(l *line) string { return l.deadLetters(x.queue, "")[0].PartitionID }

func (x *crossing) letterOf(l *line) string { return l.deadLetters(x.queue, "")[0].ID }

// revives crosses a route that moves a dead letter back, which the path finds by something of it.
func (x *crossing) revives(path string, by func(*line) string) {
	x.Helper()
	x.dead(x.mine, "k")
	x.dead(x.theirs, "k")
	x.likeUnknown(by(x.mine), func(l *line, id string) (int, string) {
		status, answer := l.send(http.MethodPost, fmt.Sprintf(path, id), "")
		if status != http.StatusNotFound {
			x.Errorf("%d %s", status, answer)
		}
		return status, answer
	})
	x.mine.wantDead(x.queue, "k")
	x.mine.delivers(x.pop(x.mine))
	x.theirs.post(fmt.Sprintf(path, by(x.theirs)), "", http.StatusOK, new(any))
	x.theirs.wantDead(x.queue)
	x.mine.wantDead(x.queue, "k")
	x.mine.delivers(x.pop(x.mine))
	x.mine.same("what came back to them", 1, len(x.pop(x.theirs).Messages))
}

func crossLeaseList(x *crossing) {
	listed := func(l *line) []string {
		l.Helper()
		var answer struct{ Leases []struct{ LeaseID string } }
		l.get("/api/v1/leases?queue="+x.queue, &answer)
		ids := []string{}
		for _, lease := range answer.Leases {
			ids = append(ids, lease.LeaseID)
		}
		return ids
	}
	m := x.leased()
	x.mine.same("of mine they see", []string{}, listed(x.theirs))
	x.theirs.pushFor(x.queue, "k")
	theirs := x.pop(x.theirs).LeaseID
	x.mine.same("theirs and mine", [][]string{{theirs}, {m.LeaseID}}, [][]string{listed(x.theirs), listed(x.mine)})
}

// pauses crosses pause and resume of one path, in which the queue's name stands.
func (x *crossing) pauses(path string) {
	x.Helper()
	set := func(l *line, verb string) { l.post(fmt.Sprintf(path, x.queue)+"/"+verb, "", http.StatusOK, new(any)) }
	mine := x.leased()
	for _, verb := range []string{"pause", "resume"} {
		x.likeUnknown(x.queue, func(l *line, queue string) (int, string) {
			status, answer := l.send(http.MethodPost, fmt.Sprintf(path, queue)+"/"+verb, "")
			if status != http.StatusNotFound {
				x.Errorf("%d %s", status, answer)
			}
			return status, answer
		})
	}
	x.theirs.pushFor(x.queue, "k")
	x.completes(x.theirs, x.pop(x.theirs).Messages[0])

	set(x.theirs, "pause")
	x.theirs.pushFor(x.queue, "2")
	x.theirs.delivers(x.pop(x.theirs))
	x.stillMine(mine)
	x.mine.pushFor(x.queue, "2")
	batch := x.pop(x.mine)
	x.mine.delivers(batch, "2")
	x.completes(x.mine, batch.Messages[0])

	set(x.mine, "pause")
	set(x.theirs, "resume")
	x.theirs.delivers(x.pop(x.theirs), "2")
	x.mine.pushFor(x.queue, "3")
	x.mine.delivers(x.pop(x.mine))
	set(x.mine, "resume")
	x.mine.delivers(x.pop(x.mine), "3")
}

// crossNotify: who waits for mine may at most look once more, for what is not theirs to get.
func crossNotify(x *crossing) {
	m := x.leased()
	x.likeUnknown(x.queue, func(l *line, queue string) (int, string) {
		status, answer := l.send(http.MethodPost, "/internal/api/notify", fmt.Sprintf(`{"queue":%q}`, queue))
		if status != http.StatusOK {
			x.Errorf("%d %s", status, answer)
		}
		return status, answer
	})
	x.theirs.delivers(x.pop(x.theirs))
	x.stillMine(m)
}
