package acceptance

import (
	"fmt"
	"net/http"

	"queen.internal/pkg/client"
)

// The tenancy cases of routes that manage.

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
	x.theirs.delivers(x.theirs.popFor("/api/v1/pop/queue/" + x.queue))
	x.stillMine(m)
	x.mine.duplicates(m.ID, x.mine.pushFor(x.queue, "k"))
}

// dead makes a dead letter of a message that a tenant pushes to the queue, and gives the message.
func (x *crossing) dead(l *line, transaction string) client.Message {
	x.Helper()
	l.pushFor(x.queue, transaction)
	batch := l.popFor("/api/v1/pop/queue/" + x.queue)
	l.delivers(batch, transaction)
	var results []client.AckResult
	l.post("/api/v1/ack", encode(x.T, client.AckOf(batch.Messages[0], client.DeadLetter)), http.StatusOK, &results)
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
