package acceptance

import (
	"fmt"
	"maps"
	"net/http"
	"slices"
	"time"

	"queen.internal/pkg/client"
	"queen.internal/test/internal/cell"
)

var partitionLines = []entry{
	{35, "three partitions under one lease", threePartitionsUnderOneLease},
	{36, "the batch is the budget of all partitions", batchIsTheBudget},
	{37, "one partition unless asked for more", onePartitionByDefault},
	{38, "one ack for a claim of several partitions", oneAckForSeveralPartitions},
	{39, "one renewal for a claim of several partitions", oneRenewalForSeveralPartitions},
	{40, "discovery by namespace and task", discovery},
}

// storeAcross stores as many messages in each of some partitions.
func (l *line) storeAcross(queue string, partitions, each int) {
	l.Helper()
	var items []client.Item
	for p := range partitions {
		items = append(items, numbered(queue, fmt.Sprint("p", p), 100*p, each)...)
	}
	l.store(items...)
}

// perPartition counts the messages of a batch by partition id.
func perPartition(batch client.Batch) map[string]int {
	counts := map[string]int{}
	for _, m := range batch.Messages {
		counts[m.PartitionID]++
	}
	return counts
}

func threePartitionsUnderOneLease(l *line) {
	queue := cell.FreshQueue()
	l.storeAcross(queue, 3, 2)
	batch := l.pop(client.PopRequest{Queue: queue, Batch: 100, Partitions: 3})
	l.same("messages per partition", []int{2, 2, 2}, slices.Collect(maps.Values(perPartition(batch))))
	l.same("claimed", 3, batch.PartitionsClaimed)
	for _, m := range batch.Messages {
		l.same("lease", batch.LeaseID, m.LeaseID)
	}
}

func batchIsTheBudget(l *line) {
	queue := cell.FreshQueue()
	l.storeAcross(queue, 5, 100)
	l.same("messages", 10, len(l.pop(client.PopRequest{Queue: queue, Batch: 10, Partitions: 5}).Messages))
}

func onePartitionByDefault(l *line) {
	queue := cell.FreshQueue()
	l.storeAcross(queue, 4, 5)
	batch := l.pop(client.PopRequest{Queue: queue, Batch: 100})
	l.same("messages per partition", map[string]int{batch.PartitionID: 5}, perPartition(batch))
	l.same("claimed", 1, batch.PartitionsClaimed)
}

func oneAckForSeveralPartitions(l *line) {
	queue := cell.FreshQueue()
	l.storeAcross(queue, 4, 5)
	batch := l.pop(client.PopRequest{Queue: queue, Batch: 100, Partitions: 4})
	l.same("messages", 20, len(batch.Messages))
	for _, r := range l.ack("", client.Completed, batch.Messages...) {
		if !r.Success || !r.LeaseReleased {
			l.Errorf("%s", said(r))
		}
	}
	l.popsNothing(client.PopRequest{Queue: queue, Partitions: 4})
}

func oneRenewalForSeveralPartitions(l *line) {
	queue := cell.FreshQueue()
	l.storeAcross(queue, 3, 2)
	batch := l.pop(client.PopRequest{Queue: queue, Batch: 100, Partitions: 3, Lease: 20 * time.Second})
	began := time.Now()
	var answer map[string]any
	l.post("/api/v1/lease/"+batch.LeaseID+"/extend", `{}`, http.StatusOK, &answer)
	expires := fmt.Sprint(answer["newExpiresAt"])
	l.same("answer", map[string]any{
		"leaseId": batch.LeaseID, "success": true, "renewed": 3.0, "newExpiresAt": expires, "expiresAt": expires, "lease_expires_at": expires,
	}, answer)
	// A minute unless the body names another time. Both clocks are this machine's.
	if at, err := time.Parse(time.RFC3339Nano, expires); err != nil || at.Before(began.Add(59*time.Second)) {
		l.Errorf("new expiry %s: %v", expires, err)
	}
}

func discovery(l *line) {
	configured, pushed := cell.FreshQueue(), cell.FreshQueue()
	label, namespace := "label-"+configured[5:], "space-"+pushed[5:]
	pushed = namespace + ".created.eu"
	l.post("/api/v1/configure", fmt.Sprintf(`{"queue":%q,"namespace":%q,"task":"t"}`, configured, label), http.StatusOK, new(any))
	l.store(append(numbered(configured, "", 0, 1), numbered(pushed, "", 1, 1)...)...)
	l.popsNothing(client.PopRequest{Namespace: label, Task: "u"})
	l.popsNothing(client.PopRequest{Namespace: label[:8], Task: "t"})
	found := l.pop(client.PopRequest{Namespace: label, Task: "t"})
	l.delivers(found, "0")
	l.same("queue", "", found.Queue)
	l.delivers(l.pop(client.PopRequest{Namespace: namespace}), "1")
}
