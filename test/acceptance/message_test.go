package acceptance

import (
	"fmt"

	"queen.internal/pkg/client"
	"queen.internal/test/internal/cell"
)

var messageLines = []entry{
	{103, "the detail of a claimed message", detailOfAClaimedMessage},
}

func detailOfAClaimedMessage(l *line) {
	queue := cell.FreshQueue()
	l.configure(queue, `"leaseTime":77,"namespace":"bills","task":"send"`)
	l.store(client.Item{Queue: queue, Partition: "p", TransactionID: "inv 55/a", Payload: []byte(`{"inv":55}`)})
	m := l.pop(client.PopRequest{Queue: queue, Group: "billing", Mode: "all"}).Messages[0]
	var answer map[string]any
	l.get("/api/v1/messages/"+m.PartitionID+"/inv%2055%2Fa", &answer)
	got := map[string]any{}
	want := map[string]any{
		"id": m.ID, "transactionId": "inv 55/a", "partitionId": m.PartitionID, "partition": "p", "queue": queue, "queuePath": queue + "/p",
		"namespace": "bills", "task": "send", "status": "processing", "data": map[string]any{"inv": 55.0},
		"payload": map[string]any{"inv": 55.0}, "retryCount": 0.0,
	}
	for key := range want {
		got[key] = answer[key]
	}
	l.same("detail", want, got)
	// The one route tells microseconds, the other milliseconds.
	if created := fmt.Sprint(answer["createdAt"]); len(created) < 24 || created[:23] != m.CreatedAt[:23] {
		l.Errorf("created at %s, popped as %s", created, m.CreatedAt)
	}
	config, _ := answer["queueConfig"].(map[string]any)
	l.same("leaseTime", 77.0, config["leaseTime"])
	groups, _ := answer["consumerGroups"].([]any)
	if len(groups) != 1 {
		l.Fatalf("groups %v", groups)
	}
	group, _ := groups[0].(map[string]any)
	l.same("group", "billing", group["name"])
}
