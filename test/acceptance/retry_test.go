package acceptance

import (
	"fmt"
	"net/http"
	"time"

	"queen.internal/pkg/client"
	"queen.internal/pkg/route"
	"queen.internal/test/internal/cell"
)

var retryLines = []entry{
	{68, "retries never dead-letter and failures do once", retriesNeverDeadLetter},
	{69, "dlq dead-letters on first delivery", deadLetterOnFirstDelivery},
	{70, "expiries charge nothing", expiriesChargeNothing},
	{71, "acks after the expiry", acksAfterTheExpiry},
	{72, "two renewals keep possession", twoRenewalsKeepPossession},
	{73, "nack of a whole batch", nackOfAWholeBatch},
	{74, "the third delivery of a batch completes", thirdDeliveryCompletes},
	{75, "failing in one group does not affect another", failingInOneGroup},
	{76, "empty polls do not hide a leased backlog", emptyPollsDoNotHide},
}

// failUntilDead pops and fails the head until it is a dead letter, and tells how many failures that took.
func (l *line) failUntilDead(r client.PopRequest, atMost int) int {
	l.Helper()
	for failures := 1; failures <= atMost; failures++ {
		batch := l.await(r)
		if l.carriedOut(l.ack(r.Group, client.NotCompleted, batch.Messages[0])) {
			return failures
		}
	}
	l.Fatalf("no dead letter after %d failures", atMost)
	return 0
}

func retriesNeverDeadLetter(l *line) {
	r := client.PopRequest{Queue: cell.FreshQueue(), Batch: 1}
	l.store(numbered(r.Queue, "", 0, 1)...)
	for range 6 {
		batch := l.await(r)
		l.delivers(batch, "0")
		l.same("dead letter", false, l.carriedOut(l.ack("", client.Retry, batch.Messages...)))
	}
	l.wantDead(r.Queue)
	l.same("failures", 4, l.failUntilDead(r, 5)) // three redeliveries by default
	l.popsNothing(r)
	l.wantDead(r.Queue, "0")
}

func deadLetterOnFirstDelivery(l *line) {
	r := client.PopRequest{Queue: cell.FreshQueue()}
	l.store(numbered(r.Queue, "", 0, 2)...)
	batch := l.pop(r)
	result := l.ackOne("", client.AckOf(batch.Messages[0], client.DeadLetter))
	if !result.Success || !result.DeadLettered || !result.LeaseReleased || result.Noop {
		l.Errorf("%s", said(result))
	}
	l.wantDead(r.Queue, "0")
	l.delivers(l.await(r), "1")
}

func expiriesChargeNothing(l *line) {
	r := client.PopRequest{Queue: cell.FreshQueue()}
	l.configure(r.Queue, `"retryLimit":2`)
	l.store(numbered(r.Queue, "", 0, 1)...)
	short := r
	short.Lease = time.Second
	for attempt := 1; attempt <= 4; attempt++ {
		batch := l.await(short)
		l.same("attempt", attempt, batch.Messages[0].DeliveryAttempt)
	}
	l.wantDead(r.Queue)
	l.same("failures", 3, l.failUntilDead(r, 4))
	l.popsNothing(r)
	l.wantDead(r.Queue, "0")
}

func acksAfterTheExpiry(l *line) {
	r := client.PopRequest{Queue: cell.FreshQueue(), Batch: 2, Lease: time.Second}
	l.store(numbered(r.Queue, "", 0, 4)...)
	batch := l.pop(r)
	l.passes(r.Lease + 300*time.Millisecond)
	for _, status := range []string{client.Completed, client.NotCompleted} {
		l.refused(l.ackOne("", client.AckOf(batch.Messages[1], status)), "lease")
	}
	leaseless := client.AckOf(batch.Messages[1], client.Completed)
	leaseless.LeaseID = ""
	if result := l.ackOne("", leaseless); !result.Success || result.Noop {
		l.Errorf("%s", said(result))
	}
	l.delivers(l.pop(r), "2", "3")
}

// extend renews a lease the way clients do, for a minute, and tells how many partitions it holds.
func (l *line) extend(lease string) int {
	l.Helper()
	var answer struct{ Renewed int }
	l.post("/api/v1/lease/"+lease+"/extend", `{}`, http.StatusOK, &answer)
	return answer.Renewed
}

func twoRenewalsKeepPossession(l *line) {
	var r client.PopRequest
	var batch client.Batch
	var renewed int
	lease := l.inTime(func(lease time.Duration) {
		r = client.PopRequest{Queue: cell.FreshQueue()}
		l.store(numbered(r.Queue, "", 0, 2)...)
		short := r
		short.Lease = lease
		batch = l.pop(short)
		renewed = l.extend(batch.LeaseID)
	})
	l.same("renewed", 1, renewed)
	l.staysEmpty(r, lease+time.Second) // past the lease of the pop
	l.same("renewed", 1, l.extend(batch.LeaseID))
	l.popsNothing(r)
	l.complete("", batch)
	l.popsNothing(r)
}

func nackOfAWholeBatch(l *line) {
	r := client.PopRequest{Queue: cell.FreshQueue(), Batch: 10}
	l.configure(r.Queue, `"retryLimit":100`)
	l.store(numbered(r.Queue, "", 0, 10)...)
	for range 3 {
		batch := l.await(r)
		l.delivers(batch, numbers(0, 10)...)
		results := l.ack("", client.NotCompleted, batch.Messages...)
		l.same("dead letter", false, l.carriedOut(results))
		for i, result := range results {
			l.same("result", []any{i, fmt.Sprint(i)}, []any{result.Index, result.TransactionID})
		}
	}
}

func thirdDeliveryCompletes(l *line) {
	r := client.PopRequest{Queue: cell.FreshQueue(), Batch: 100}
	l.configure(r.Queue, `"retryLimit":3`)
	l.store(numbered(r.Queue, "", 0, 100)...)
	for delivery := 1; delivery <= 3; delivery++ {
		batch := l.await(r)
		l.delivers(batch, numbers(0, 100)...)
		l.same("attempt", delivery, batch.Messages[99].DeliveryAttempt)
		status := client.NotCompleted
		if delivery == 3 {
			status = client.Completed
		}
		l.same("dead letter", false, l.carriedOut(l.ack("", status, batch.Messages...)))
	}
	l.popsNothing(r)
}

func failingInOneGroup(l *line) {
	queue := cell.FreshQueue()
	l.configure(queue, `"retryLimit":1`)
	l.store(numbered(queue, "", 0, 2)...)
	sound := client.PopRequest{Queue: queue, Group: "sound", Mode: "all"}
	held := l.pop(sound)
	l.failUntilDead(client.PopRequest{Queue: queue, Group: "failing", Mode: "all"}, 2)
	l.popsNothing(sound) // its lease is its own
	l.delivers(held, "0", "1")
	l.complete("sound", held)
	l.delivers(l.await(client.PopRequest{Queue: queue, Group: "failing"}), "1")
	l.delivers(l.pop(client.PopRequest{Queue: queue, Group: "later", Mode: "all"}), "0", "1")
}

func emptyPollsDoNotHide(l *line) {
	var r client.PopRequest
	var held client.Batch
	var meanwhile []string
	l.inTime(func(lease time.Duration) {
		r, meanwhile = client.PopRequest{Queue: cell.FreshQueue(), Lease: lease}, nil
		l.store(numbered(r.Queue, "", 0, 3)...)
		l.writtenLongAgo(r.Queue)
		held = l.pop(r)
		for range 3 * len(l.addresses(route.Deliver)) {
			meanwhile = append(meanwhile, cell.Transactions(l.pop(r))...)
		}
	})
	l.delivers(held, "0", "1", "2")
	l.same("delivered under the lease", 0, len(meanwhile))
	l.delivers(l.await(r), "0", "1", "2")
}

// writtenLongAgo makes all that is in a queue a month older.
func (l *line) writtenLongAgo(queue string) {
	l.Helper()
	l.exec(`UPDATE queen.partitions p SET last_created_at = last_created_at - interval '30 days', created_at = p.created_at - interval '30 days'
		FROM queen.queues q WHERE q.id = p.queue_id AND q.name = $1`, queue)
	l.exec(`UPDATE queen.segments g SET created_at = g.created_at - interval '30 days'
		FROM queen.partitions p JOIN queen.queues q ON q.id = p.queue_id WHERE p.id = g.partition_id AND q.name = $1`, queue)
}
