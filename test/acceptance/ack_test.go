package acceptance

import (
	"time"

	"github.com/google/uuid"

	"queen.internal/pkg/client"
	"queen.internal/test/internal/cell"
)

var ackLines = []entry{
	{59, "acking the last of five completes all five", ackTheLastOfFive},
	{60, "acking the middle of three", ackTheMiddleOfThree},
	{61, "an ack below the cursor is a noop", ackBelowTheCursor},
	{62, "a nack below the cursor fails", nackBelowTheCursor},
	{63, "failed in the middle of a call", failedInTheMiddle},
	{64, "retry in the middle of a call", retryInTheMiddle},
	{65, "nack of the first, then acks of the others", nackThenAcks},
	{66, "an id that was never pushed", neverPushedID},
	{67, "an ack whose hash is gone", ackWhoseHashIsGone},
	{78, "a claim of several partitions acked one by one", severalPartitionsOneByOne},
}

// sequence acknowledges messages with these statuses, in one call.
func (l *line) sequence(group string, batch client.Batch, statuses ...string) []client.AckResult {
	l.Helper()
	acks := make([]client.Acknowledgment, len(statuses))
	for i, status := range statuses {
		acks[i] = client.AckOf(batch.Messages[i], status)
	}
	return l.ackAll(group, acks...)
}

func ackTheLastOfFive(l *line) {
	var r client.PopRequest
	var result client.AckResult
	lease := l.inTime(func(lease time.Duration) {
		r = client.PopRequest{Queue: cell.FreshQueue(), Lease: lease}
		l.store(numbered(r.Queue, "", 0, 5)...)
		result = l.ackOne("", client.AckOf(l.pop(r).Messages[4], client.Completed))
	})
	if !result.Success || !result.LeaseReleased || result.Noop {
		l.Errorf("%s", said(result))
	}
	l.staysEmpty(r, lease+time.Second)
}

func ackTheMiddleOfThree(l *line) {
	var r client.PopRequest
	var result client.AckResult
	var meanwhile client.Batch
	l.inTime(func(lease time.Duration) {
		r = client.PopRequest{Queue: cell.FreshQueue(), Lease: lease}
		l.store(numbered(r.Queue, "", 0, 3)...)
		result = l.ackOne("", client.AckOf(l.pop(r).Messages[1], client.Completed))
		meanwhile = l.pop(r)
	})
	// The lease goes on, and the answer says so, where the contract's first broker always said that it had ended.
	if !result.Success || result.LeaseReleased {
		l.Errorf("%s", said(result))
	}
	l.delivers(meanwhile)
	l.delivers(l.await(r), "2")
}

func ackBelowTheCursor(l *line) {
	queue := cell.FreshQueue()
	l.store(numbered(queue, "", 0, 3)...)
	batch := l.pop(client.PopRequest{Queue: queue})
	l.same("in range", false, l.ackOne("", client.AckOf(batch.Messages[1], client.Completed)).Noop)
	leaseless := client.AckOf(batch.Messages[0], client.Completed)
	leaseless.LeaseID = ""
	again := func(a client.Acknowledgment) {
		l.Helper()
		if result := l.ackOne("", a); !result.Success || !result.Noop || result.LeaseReleased || result.Error != nil {
			l.Errorf("%s", said(result))
		}
	}
	again(client.AckOf(batch.Messages[0], client.Completed)) // with the live lease
	again(leaseless)
	l.same("the last", false, l.ackOne("", client.AckOf(batch.Messages[2], client.Completed)).Noop)
	again(client.AckOf(batch.Messages[2], client.Completed)) // with the last completed one
	again(leaseless)
	// With any other lease it is an error: whoever sends it works on something that it does not hold.
	stranger := client.AckOf(batch.Messages[0], client.Completed)
	stranger.LeaseID = uuid.NewString()
	l.refused(l.ackOne("", stranger), "lease")
}

func nackBelowTheCursor(l *line) {
	queue := cell.FreshQueue()
	l.store(numbered(queue, "", 0, 3)...)
	batch := l.pop(client.PopRequest{Queue: queue})
	l.carriedOut(l.ack("", client.Completed, batch.Messages[1]))
	for _, status := range []string{client.NotCompleted, client.Retry, client.DeadLetter, "nack"} {
		l.refused(l.ackOne("", client.AckOf(batch.Messages[0], status)), "committed")
		leaseless := client.AckOf(batch.Messages[0], status)
		leaseless.LeaseID = ""
		l.refused(l.ackOne("", leaseless), "committed")
	}
	l.carriedOut(l.ack("", client.Completed, batch.Messages[2])) // the lease has lived on
	l.popsNothing(client.PopRequest{Queue: queue})
}

func failedInTheMiddle(l *line) {
	queue := cell.FreshQueue()
	l.store(numbered(queue, "", 1, 5)...)
	batch := l.pop(client.PopRequest{Queue: queue})
	const done = client.Completed
	l.same("dead letter", false, l.carriedOut(l.sequence("", batch, done, client.NotCompleted, done, done, done)))
	l.delivers(l.await(client.PopRequest{Queue: queue}), "2", "3", "4", "5")
}

func retryInTheMiddle(l *line) {
	queue := cell.FreshQueue()
	l.store(numbered(queue, "", 1, 3)...)
	batch := l.pop(client.PopRequest{Queue: queue})
	l.same("dead letter", false, l.carriedOut(l.sequence("", batch, client.Completed, client.Retry, client.Completed)))
	l.delivers(l.await(client.PopRequest{Queue: queue}), "2", "3")
	l.wantDead(queue)
}

func nackThenAcks(l *line) {
	queue := cell.FreshQueue()
	l.store(numbered(queue, "", 1, 3)...)
	batch := l.pop(client.PopRequest{Queue: queue})
	if result := l.ackOne("", client.AckOf(batch.Messages[0], client.NotCompleted)); !result.Success || !result.LeaseReleased {
		l.Errorf("%s", said(result))
	}
	for _, m := range batch.Messages[1:] {
		l.refused(l.ackOne("", client.AckOf(m, client.Completed)), "lease")
	}
	l.delivers(l.await(client.PopRequest{Queue: queue}), "1", "2", "3")
}

func neverPushedID(l *line) {
	queue := cell.FreshQueue()
	l.store(numbered(queue, "", 0, 2)...)
	batch := l.pop(client.PopRequest{Queue: queue})
	for _, status := range []string{client.Completed, client.NotCompleted, client.Retry, client.DeadLetter} {
		invented := client.AckOf(batch.Messages[0], status)
		invented.TransactionID = "never pushed"
		l.refused(l.ackOne("", invented), "unresolv")
	}
	l.popsNothing(client.PopRequest{Queue: queue}) // the lease lives
	for _, r := range l.ack("", client.Completed, batch.Messages...) {
		if !r.Success || !r.LeaseReleased {
			l.Errorf("%s", said(r))
		}
	}
	l.popsNothing(client.PopRequest{Queue: queue})
}

// ackWhoseHashIsGone has a second half, which the contract leaves to us: what is leased can be acked however long ago it
// was pushed, because ids are then resolved from the leased messages themselves.
func ackWhoseHashIsGone(l *line) {
	queue := cell.FreshQueue()
	l.store(numbered(queue, "", 0, 1)...)
	first := l.pop(client.PopRequest{Queue: queue})
	l.complete("", first)
	l.store(numbered(queue, "", 1, 2)...)
	l.exec(`DELETE FROM queen.dedup d USING queen.partitions p, queen.queues q
		WHERE p.id = d.partition_id AND q.id = p.queue_id AND q.name = $1`, queue)
	for _, status := range []string{client.Completed, client.NotCompleted} {
		l.refused(l.ackOne("", client.Acknowledgment{TransactionID: "1", PartitionID: first.PartitionID, Status: status}), "unresolv")
	}
	batch := l.pop(client.PopRequest{Queue: queue})
	l.delivers(batch, "1", "2")
	l.complete("", batch)
	l.popsNothing(client.PopRequest{Queue: queue})
}

func severalPartitionsOneByOne(l *line) {
	queue := cell.FreshQueue()
	l.storeAcross(queue, 3, 3)
	batch := l.pop(client.PopRequest{Queue: queue, Batch: 100, Partitions: 3, Lease: 30 * time.Second})
	l.same("messages", 9, len(batch.Messages))
	left := perPartition(batch)
	for _, m := range batch.Messages {
		left[m.PartitionID]--
		result := l.ackOne("", client.AckOf(m, client.Completed))
		// A partition's part of the lease ends with its own last message.
		if !result.Success || result.Noop || result.LeaseReleased != (left[m.PartitionID] == 0) {
			l.Errorf("%s", said(result))
		}
	}
	l.popsNothing(client.PopRequest{Queue: queue, Partitions: 3})
	l.staysEmpty(client.PopRequest{Queue: queue, Partitions: 3}, time.Second)
}
