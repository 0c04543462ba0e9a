package acceptance

import (
	"net/http"
	"net/url"
	"time"

	"queen.internal/pkg/client"
	"queen.internal/test/internal/cell"
)

var subscriptionLines = []entry{
	{50, "new skips history and then misses nothing", newSkipsHistory},
	{51, "all keeps receiving", allKeepsReceiving},
	{52, "from now equals new", fromNowEqualsNew},
	{53, "from a time", fromATime},
	{54, "a later partition is delivered completely", laterPartitionCompletely},
	{55, "queue mode never skips", queueModeNeverSkips},
	{56, "a deleted group reads everything again", deletedGroupReadsAgain},
	{57, "a group that seeks back reads again", seekBackReadsAgain},
	{58, "new is the default", newIsTheDefault},
}

func newSkipsHistory(l *line) { l.skipsHistory(client.PopRequest{Mode: "new"}) }

func fromNowEqualsNew(l *line) { l.skipsHistory(client.PopRequest{From: "now"}) }

// skipsHistory wants a group that begins with this pop to get nothing of the past and everything of the future, also when
// its later pops do not say again how it began.
func (l *line) skipsHistory(first client.PopRequest) {
	l.Helper()
	first.Queue, first.Group = cell.FreshQueue(), "g"
	l.store(numbered(first.Queue, "", 0, 5)...)
	l.popsNothing(first)
	l.store(numbered(first.Queue, "", 5, 2)...)
	l.store(numbered(first.Queue, "", 7, 1)...)
	later := client.PopRequest{Queue: first.Queue, Group: "g"}
	batch := l.pop(later)
	l.delivers(batch, "5", "6", "7")
	l.complete("g", batch)
	l.store(numbered(first.Queue, "", 8, 1)...)
	l.delivers(l.pop(later), "8")
}

func allKeepsReceiving(l *line) {
	queue := cell.FreshQueue()
	l.store(numbered(queue, "", 0, 2)...)
	r := client.PopRequest{Queue: queue, Group: "g", Mode: "all"}
	for i := range 3 {
		batch := l.pop(r)
		l.delivers(batch, numbers(2*i, 2)...)
		l.complete("g", batch)
		l.popsNothing(r)
		l.store(numbered(queue, "", 2*i+2, 2)...)
	}
}

func fromATime(l *line) {
	queue := cell.FreshQueue()
	l.store(numbered(queue, "", 0, 1)...)
	l.store(numbered(queue, "", 1, 1)...)
	l.store(numbered(queue, "", 2, 1)...)
	all := l.pop(client.PopRequest{Queue: queue, Group: "all", Mode: "all"})
	l.delivers(all, "0", "1", "2")
	// Each push was answered before the next began, so each is a segment of its own and has a time of its own.
	from := all.Messages[1].CreatedAt
	l.delivers(l.pop(client.PopRequest{Queue: queue, Group: "iso", From: from}), "1", "2")
	at, err := time.Parse(time.RFC3339Nano, from)
	if err != nil {
		l.Fatal(err)
	}
	// Another way to write a time; it outweighs the mode.
	east := at.In(time.FixedZone("", 2*60*60)).Format(time.RFC3339Nano)
	l.delivers(l.pop(client.PopRequest{Queue: queue, Group: "zone", From: east, Mode: "new"}), "1", "2")
	l.popsNothing(client.PopRequest{Queue: queue, Group: "future", From: at.Add(time.Hour).Format(time.RFC3339Nano)})
}

func laterPartitionCompletely(l *line) {
	queue := cell.FreshQueue()
	l.store(numbered(queue, "before", 0, 3)...)
	r := client.PopRequest{Queue: queue, Group: "g", Partitions: 5}
	l.popsNothing(r)
	l.store(numbered(queue, "after", 10, 3)...)
	batch := l.pop(r)
	l.delivers(batch, "10", "11", "12")
	l.complete("g", batch)
	l.store(numbered(queue, "before", 3, 1)...)
	l.delivers(l.pop(r), "3")
}

func queueModeNeverSkips(l *line) {
	queue := cell.FreshQueue()
	l.store(numbered(queue, "", 0, 3)...)
	l.delivers(l.pop(client.PopRequest{Queue: queue, Mode: "new"}), "0", "1", "2")
}

func deletedGroupReadsAgain(l *line) {
	r := client.PopRequest{Queue: cell.FreshQueue(), Mode: "all"}
	r.Group = "group of " + r.Queue // which no other line has: it is deleted on all queues
	group := "/api/v1/consumer-groups/" + url.PathEscape(r.Group)
	l.store(numbered(r.Queue, "", 0, 5)...)
	for _, path := range []string{group + "?deleteMetadata=true", group + "/queues/" + r.Queue} {
		batch := l.pop(r)
		l.delivers(batch, numbers(0, 5)...)
		l.complete(r.Group, batch)
		l.popsNothing(r)
		l.writtenLongAgo(r.Queue)
		l.popsNothing(r)
		var answer struct {
			Success           bool
			DeletedPartitions int
			MetadataDeleted   bool
		}
		status, text := l.send(http.MethodDelete, path, "")
		l.read(status, text, http.StatusOK, &answer)
		if !answer.Success || answer.DeletedPartitions < 1 || !answer.MetadataDeleted {
			l.Errorf("%s: %s", path, text)
		}
	}
	l.delivers(l.pop(r), numbers(0, 5)...)
}

func seekBackReadsAgain(l *line) {
	r := client.PopRequest{Queue: cell.FreshQueue(), Group: "g", Mode: "all", Partitions: 10}
	l.storeAcross(r.Queue, 10, 1)
	first := l.pop(r)
	l.same("messages", 10, len(first.Messages))
	l.complete("g", first)
	l.popsNothing(r)
	at, err := time.Parse(time.RFC3339Nano, first.Messages[0].CreatedAt)
	if err != nil {
		l.Fatal(err)
	}
	// All were committed at once; the poll that waits while the group is moved gets some of them.
	waiting := r
	waiting.Partitions, waiting.Wait = 1, patience
	got := l.polling(waiting)
	var answer map[string]any
	l.post("/api/v1/consumer-groups/g/queues/"+r.Queue+"/seek", `{"timestamp":"`+at.Add(-time.Minute).Format(time.RFC3339Nano)+`"}`, http.StatusOK, &answer)
	l.same("answer", []any{true, "g", r.Queue, false, 10.0},
		[]any{answer["success"], answer["consumerGroup"], answer["queueName"], answer["seekToEnd"], answer["partitionsUpdated"]})
	again := (<-got).Messages
	again = append(again, l.pop(r).Messages...)
	ids := map[string]int{}
	for _, m := range again {
		ids[m.TransactionID]++
	}
	l.same("consumable again", []int{10, 10}, []int{len(again), len(ids)})
}

func newIsTheDefault(l *line) {
	queue := cell.FreshQueue()
	l.store(numbered(queue, "", 0, 3)...)
	l.popsNothing(client.PopRequest{Queue: queue, Group: "g"})
	l.delivers(l.pop(client.PopRequest{Queue: queue}), "0", "1", "2")
	l.store(numbered(queue, "", 3, 1)...)
	l.delivers(l.pop(client.PopRequest{Queue: queue, Group: "g"}), "3")
}
