package acceptance

import (
	"context"
	"fmt"
	"sync"
	"time"

	"queen.internal/pkg/client"
	"queen.internal/pkg/route"
	"queen.internal/test/internal/cell"
)

var groupLines = []entry{
	{44, "a hundred pushes stay in order however they are consumed", hundredPushesInOrder},
	{45, "one push of a hundred under ten workers", onePushUnderTenWorkers},
	{46, "two groups each receive everything", twoGroupsReceiveEverything},
	{47, "an ack moves its own group only", ackMovesItsOwnGroup},
	{48, "two groups and queue mode are independent", groupsAndQueueModeAreIndependent},
	{49, "other modes read from the beginning", otherModesReadFromTheBeginning},
}

// work lets workers pop and complete until they have had total messages, and gives the transaction ids in the order in
// which they came. One partition is leased to one worker at a time, so that is the group's order.
func (l *line) work(r client.PopRequest, workers, total int) []string {
	l.Helper()
	ctx, done := context.WithTimeout(l.Context(), 5*time.Minute)
	defer done()
	var mu sync.Mutex
	var got []string
	take := func(batch client.Batch) {
		mu.Lock()
		defer mu.Unlock()
		got = append(got, cell.Transactions(batch)...)
	}
	completed := func() bool {
		mu.Lock()
		defer mu.Unlock()
		return len(got) >= total
	}
	r.Wait = patience
	var working sync.WaitGroup
	for range workers {
		working.Go(func() {
			for ctx.Err() == nil {
				batch, err := l.at(route.Deliver).Pop(ctx, r)
				if ctx.Err() == nil && err != nil && !client.Transient(err) {
					l.Error(err)
				}
				if len(batch.Messages) == 0 {
					continue
				}
				take(batch)
				l.carriedOut(l.ack(r.Group, client.Completed, batch.Messages...))
				if completed() {
					done() // also for those who wait
				}
			}
		})
	}
	working.Wait()
	return got
}

func hundredPushesInOrder(l *line) {
	queue := cell.FreshQueue()
	for i := range 100 {
		l.store(numbered(queue, "", i, 1)...)
	}
	want := numbers(0, 100)
	var consuming sync.WaitGroup
	for group, way := range map[string]struct{ batch, workers int }{"one by one": {1, 1}, "one batch": {100, 1}, "ten workers": {1, 10}} {
		consuming.Go(func() {
			l.same(group, want, l.work(client.PopRequest{Queue: queue, Group: group, Mode: "all", Batch: way.batch}, way.workers, 100))
		})
	}
	consuming.Wait()
}

func onePushUnderTenWorkers(l *line) {
	queue := cell.FreshQueue()
	l.store(numbered(queue, "", 0, 100)...)
	l.same("order", numbers(0, 100), l.work(client.PopRequest{Queue: queue, Batch: 10}, 10, 100))
}

func twoGroupsReceiveEverything(l *line) {
	queue, partition := cell.FreshQueue(), "p"
	l.store(numbered(queue, partition, 0, 100)...)
	for _, pinned := range []*string{nil, &partition} {
		for _, group := range []string{"billing", "audit"} {
			if pinned != nil {
				group = "pinned " + group
			}
			r := client.PopRequest{Queue: queue, Partition: pinned, Group: group, Mode: "all", Batch: 1000}
			batch := l.pop(r)
			l.delivers(batch, numbers(0, 100)...)
			l.complete(group, batch)
			l.popsNothing(r)
		}
	}
}

func ackMovesItsOwnGroup(l *line) {
	queue := cell.FreshQueue()
	l.store(numbered(queue, "", 0, 4)...)
	a := l.pop(client.PopRequest{Queue: queue, Group: "a", Mode: "all", Batch: 2})
	b := l.pop(client.PopRequest{Queue: queue, Group: "b", Mode: "all", Batch: 2})
	l.delivers(b, "0", "1")
	l.complete("a", a)
	l.delivers(l.pop(client.PopRequest{Queue: queue, Group: "a"}), "2", "3")
	l.popsNothing(client.PopRequest{Queue: queue, Group: "b"}) // still leased
	// An ack for the other group with this group's lease is not that group's.
	l.refused(l.ackOne("b", client.AckOf(a.Messages[1], client.Completed)), "lease")
	l.carriedOut(l.ack("b", client.Retry, b.Messages...))
	b = l.await(client.PopRequest{Queue: queue, Group: "b"})
	l.delivers(b, "0", "1", "2", "3")
	// The same through a transaction.
	c := l.pop(client.PopRequest{Queue: queue, Group: "c", Mode: "all"})
	l.commit(new(bundle).ack("b", client.Completed, b.Messages...), 4)
	l.popsNothing(client.PopRequest{Queue: queue, Group: "b"})
	l.popsNothing(client.PopRequest{Queue: queue, Group: "c"})
	l.carriedOut(l.ack("c", client.Retry, c.Messages...))
	l.delivers(l.await(client.PopRequest{Queue: queue, Group: "c"}), "0", "1", "2", "3")
}

func groupsAndQueueModeAreIndependent(l *line) {
	queue := cell.FreshQueue()
	l.store(numbered(queue, "", 0, 3)...)
	for _, group := range []string{"a", "b", ""} {
		batch := l.pop(client.PopRequest{Queue: queue, Group: group, Mode: "all"})
		l.delivers(batch, "0", "1", "2")
		want := group
		if group == "" {
			want = "__QUEUE_MODE__"
		}
		l.same("group", want, batch.Group)
		l.complete(group, batch)
		l.popsNothing(client.PopRequest{Queue: queue, Group: group})
	}
}

func otherModesReadFromTheBeginning(l *line) {
	queue := cell.FreshQueue()
	l.store(numbered(queue, "", 0, 3)...)
	for i, mode := range []string{"from_beginning", "earliest", "NEW", "all"} {
		l.delivers(l.pop(client.PopRequest{Queue: queue, Group: fmt.Sprint("g", i), Mode: mode}), "0", "1", "2")
	}
	for i, mode := range []string{"new", "new-only"} {
		l.popsNothing(client.PopRequest{Queue: queue, Group: fmt.Sprint("late", i), Mode: mode})
	}
}
