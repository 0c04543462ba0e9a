package acceptance

import (
	"fmt"
	"testing"
	"time"

	"queen.internal/pkg/client"
	"queen.internal/test/internal/cell"
)

var retentionLines = []entry{
	{77, "an emptied partition has nothing until the next push", emptiedPartition},
	{98, "retention by age takes what nobody has read", agedMessagesGo},
	{99, "the longest waiting time takes unread and leased messages", waitedMessagesGo},
}

// removed is what the analytics tell of a queue.
type removed struct {
	Totals struct {
		Aged      int `json:"retentionMsgs"`
		Completed int `json:"completedRetentionMsgs"`
		Evicted   int `json:"evictionMsgs"`
		Total     int `json:"totalMsgs"`
		Unread    int `json:"unreadMsgs"`
	} `json:"totals"`
	Series []struct {
		Total int `json:"totalMsgs"`
	} `json:"series"`
	Queues []struct {
		Queue  string `json:"queue"`
		HeldBy *struct {
			Group string    `json:"consumerGroup"`
			Since time.Time `json:"since"`
		} `json:"heldBy"`
	} `json:"queues"`
}

// removedOf asks for it.
func (l *line) removedOf(queue string) (r removed) {
	l.Helper()
	l.get("/api/v1/analytics/retention?queue="+queue, &r)
	return r
}

// pendingFor is how many messages a queue has for a group.
func (l *line) pendingFor(queue, group string) int {
	l.Helper()
	var depth struct {
		Pending int `json:"pending"`
	}
	l.get("/api/v1/resources/queues/"+queue+"/depth?group="+group, &depth)
	return depth.Pending
}

func crossRetention(x *crossing) {
	x.mine.configure(x.queue, `"retentionEnabled":true,"retentionSeconds":1`)
	x.mine.pushFor(x.queue, "k")
	cell.Eventually(x.T, func() bool { return x.mine.removedOf(x.queue).Totals.Total == 1 })
	if r := x.theirs.removedOf(x.queue); r.Totals.Total != 0 || len(r.Series) != 0 || len(r.Queues) != 0 {
		x.Errorf("they are told %+v", r)
	}
}

// consumes takes what there is for a group and completes it.
func (l *line) consumes(queue, group string, batch int) client.Batch {
	l.Helper()
	return l.popFor(fmt.Sprintf("/api/v1/pop/queue/%s?consumerGroup=%s&subscriptionMode=all&autoAck=true&batch=%d", queue, group, batch))
}

func agedMessagesGo(l *line) {
	name := cell.FreshQueue()
	l.configure(name, `"retentionEnabled":true,"retentionSeconds":5`)
	for i := range 10 {
		l.pushFor(name, fmt.Sprint(i))
	}
	cell.Eventually(l.T, func() bool { return l.removedOf(name).Totals.Aged == 10 })
	r := l.removedOf(name)
	l.same("of them unread", 10, r.Totals.Unread)
	l.same("in all", 10, r.Totals.Total)
	l.configure(name, `"retentionEnabled":false`) // a slow machine must not lose what follows
	l.delivers(l.consumes(name, "g", 100))
	l.pushFor(name, "after")
	l.delivers(l.consumes(name, "g", 100), "after")
}

func waitedMessagesGo(l *line) {
	name := cell.FreshQueue()
	l.configure(name, `"leaseTime":5`)
	l.pushFor(name, "leased")
	l.pushFor(name, "unread")
	l.delivers(l.popFor("/api/v1/pop/queue/"+name+"?consumerGroup=g&subscriptionMode=all&batch=1"), "leased")
	l.configure(name, `"maxWaitTimeSeconds":1`)
	cell.Eventually(l.T, func() bool { return l.removedOf(name).Totals.Evicted == 2 }) // the lease ends first
	var letters struct{ Messages []struct{} }
	l.get("/api/v1/dlq?queue="+name, &letters)
	l.same("dead letters", 0, len(letters.Messages))
	l.configure(name, `"maxWaitTimeSeconds":0`)
	l.pushFor(name, "after")
	l.delivers(l.consumes(name, "g", 100), "after")
}

func emptiedPartition(l *line) {
	name := cell.FreshQueue()
	l.configure(name, `"retentionEnabled":true,"retentionSeconds":1`)
	l.pushFor(name, "gone")
	cell.Eventually(l.T, func() bool { return l.removedOf(name).Totals.Aged == 1 })
	l.configure(name, `"retentionEnabled":false,"delayedProcessing":2`)
	l.delivers(l.consumes(name, "g", 100))
	l.same("left for the group", 0, l.pendingFor(name, "g"))
	// What is not visible yet is not passed over by pops that find nothing.
	l.pushFor(name, "deferred")
	var batch client.Batch
	cell.Eventually(l.T, func() bool {
		batch = l.consumes(name, "g", 100)
		return len(batch.Messages) > 0
	})
	l.delivers(batch, "deferred")
}

func TestRetention(t *testing.T) {
	t.Parallel()
	s := double(t)

	t.Run("takes nothing while it is not enabled", func(t *testing.T) {
		t.Parallel()
		l := &line{T: t, suite: s}
		name, other := cell.FreshQueue(), cell.FreshQueue()
		l.configure(name, `"retentionSeconds":1`)
		l.pushFor(name, "k")
		// Cycles have passed by when one that came later has taken something.
		l.configure(other, `"retentionEnabled":true,"retentionSeconds":3`)
		l.pushFor(other, "k")
		cell.Eventually(t, func() bool { return l.removedOf(other).Totals.Aged == 1 })
		l.delivers(l.consumes(name, "g", 100), "k")
	})

	t.Run("of what is completed waits for the group that stalls and names it", func(t *testing.T) {
		t.Parallel()
		l := &line{T: t, suite: s}
		name := cell.FreshQueue()
		for i := range 4 {
			l.pushFor(name, fmt.Sprint(i))
		}
		l.delivers(l.consumes(name, "stalled", 2), "0", "1")
		l.delivers(l.consumes(name, "quick", 100), "0", "1", "2", "3")
		l.configure(name, `"retentionEnabled":true,"completedRetentionSeconds":1`)
		cell.Eventually(t, func() bool { return l.removedOf(name).Totals.Completed == 2 })
		cell.Eventually(t, func() bool {
			q := l.removedOf(name).Queues
			return len(q) == 1 && q[0].HeldBy != nil && q[0].HeldBy.Group == "stalled"
		})
		if n := l.pendingFor(name, "stalled"); n != 2 {
			t.Errorf("%d are left for the group that stalls", n)
		}
		l.delivers(l.consumes(name, "stalled", 100), "2", "3")
		cell.Eventually(t, func() bool { return l.removedOf(name).Totals.Completed == 4 })
		if r := l.removedOf(name); r.Totals.Unread != 0 || r.Totals.Total != 4 {
			t.Errorf("%+v", r)
		}
	})
}
