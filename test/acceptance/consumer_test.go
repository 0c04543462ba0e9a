package acceptance

import (
	"context"
	"errors"
	"fmt"
	"time"

	"queen.internal/pkg/client"
	"queen.internal/pkg/route"
	"queen.internal/test/internal/cell"
)

// A consumer is a loop of pops and acks in a client. These lines are about what such a loop relies on.
var consumerLines = []entry{
	{93, "success acks, an exception nacks, auto ack off does neither", ackNackOrNeither},
	{94, "limit, idle time and cancellation end a loop", loopsEnd},
	{95, "after a nack the rest of the batch waits for the poison", restWaitsForThePoison},
	{96, "renewals outlast the work", renewalsOutlastTheWork},
}

func ackNackOrNeither(l *line) {
	queue := cell.FreshQueue()
	l.store(numbered(queue, "", 0, 1)...)
	r := func(group string) client.PopRequest {
		return client.PopRequest{Queue: queue, Group: group, Mode: "all"}
	}
	l.complete("success", l.pop(r("success")))
	nack := client.AckOf(l.pop(r("exception")).Messages[0], client.NotCompleted)
	nack.Error = "the handler's exception"
	l.carriedOut(l.ackAll("exception", nack))
	again := l.await(r("exception")) // at once: the lease would last for a minute
	l.delivers(again, "0")
	l.same("attempt", 2, again.Messages[0].DeliveryAttempt)
	neither := r("neither")
	neither.Lease = time.Second
	l.delivers(l.pop(neither), "0")
	l.delivers(l.await(neither), "0")
	l.staysEmpty(r("success"), time.Second)
}

func loopsEnd(l *line) {
	r := client.PopRequest{Queue: cell.FreshQueue(), Batch: 2}
	l.store(numbered(r.Queue, "", 0, 5)...)
	for i := range 2 { // a limit of four
		batch := l.pop(r)
		l.delivers(batch, numbers(2*i, 2)...)
		l.complete("", batch)
	}
	batch := l.pop(r)
	l.delivers(batch, "4") // what was not asked for is not lost
	l.complete("", batch)
	l.staysEmpty(r, 500*time.Millisecond) // idle, which is no error

	// A cancelled poll leaves nothing behind: what comes next goes to who asks next, at once and for the first time.
	ctx, cancel := context.WithCancel(l.Context())
	ended := make(chan error, 1)
	cl := l.at(route.Deliver)
	waiting := r
	waiting.Wait = patience
	go func() {
		_, err := cl.Pop(ctx, waiting)
		ended <- err
	}()
	l.passes(200 * time.Millisecond) // most likely parked by now; it must hold either way
	cancel()
	if err := <-ended; !errors.Is(err, context.Canceled) {
		l.Errorf("the cancelled poll ended with %v", err)
	}
	l.store(numbered(r.Queue, "", 5, 1)...)
	next := l.await(r)
	l.delivers(next, "5")
	l.same("attempt", 1, next.Messages[0].DeliveryAttempt)
}

func restWaitsForThePoison(l *line) {
	r := client.PopRequest{Queue: cell.FreshQueue(), Batch: 5}
	l.configure(r.Queue, `"retryLimit":1`)
	l.store(numbered(r.Queue, "", 0, 5)...)
	processed, dead := map[string]int{}, 0
	for len(processed) < 4 {
		for _, m := range l.await(r).Messages {
			if m.TransactionID != "2" {
				processed[m.TransactionID]++
				l.carriedOut(l.ackAll("", client.AckOf(m, client.Completed)))
				continue
			}
			if l.carriedOut(l.ack("", client.NotCompleted, m)) {
				dead++
			}
			break // the rest comes again
		}
	}
	l.same("processed", map[string]int{"0": 1, "1": 1, "3": 1, "4": 1}, processed)
	l.same("dead letters", 1, dead)
	l.popsNothing(r)
}

func renewalsOutlastTheWork(l *line) {
	queue := cell.FreshQueue()
	l.store(numbered(queue, "", 0, 1)...)
	without := l.pop(client.PopRequest{Queue: queue, Group: "without", Mode: "all", Lease: time.Second})
	var with client.Batch
	var renewed int
	group := ""
	l.inTime(func(lease time.Duration) {
		group = fmt.Sprint("with ", lease)
		with = l.pop(client.PopRequest{Queue: queue, Group: group, Mode: "all", Lease: lease + 2*time.Second})
		renewed = l.extend(with.LeaseID)
	})
	for second := range 5 { // of work
		l.same(fmt.Sprint("renewed after ", second, " s"), 1, renewed)
		l.staysEmpty(client.PopRequest{Queue: queue, Group: group}, time.Second)
		renewed = l.extend(with.LeaseID)
	}
	l.complete(group, with)
	l.refused(l.ackOne("without", client.AckOf(without.Messages[0], client.Completed)), "lease")
}
