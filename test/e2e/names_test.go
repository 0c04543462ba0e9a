package e2e

import (
	"fmt"
	"net/url"
	"testing"

	"queen.internal/pkg/client"
	"queen.internal/test/internal/cell"
)

func TestNames(t *testing.T) {
	t.Parallel()
	for _, odd := range []string{"a/b", "50%", "a+b", "a b", "a%2Fb", "früh 早い 🐝", "..", "a?b#c", `q"uote`, "semi;colon", "a\\b", ":queue", "*"} {
		t.Run(fmt.Sprintf("Survive/%q", odd), func(t *testing.T) {
			t.Parallel()
			c := shared(t)
			queue, partition, group := odd+" "+cell.FreshQueue(), "partition "+odd, "group "+odd
			results := c.Push(t, client.Item{Queue: queue, Partition: partition, TransactionID: odd, Payload: []byte(`1`)})
			if results[0].Queue != queue || results[0].TransactionID != odd {
				t.Errorf("%+v", results[0])
			}
			for _, request := range []client.PopRequest{
				{Queue: queue, Group: group, Mode: "all"},
				{Queue: queue, Partition: &partition, Group: "other " + group, Mode: "all"},
			} {
				batch := c.Pop(t, request)
				if len(batch.Messages) != 1 {
					t.Fatalf("%q: %+v", request.Queue, batch)
				}
				m := batch.Messages[0]
				if batch.Queue != queue || m.Partition != partition || m.Group != request.Group || m.TransactionID != odd {
					t.Errorf("%+v", batch)
				}
				c.AckAll(t, request.Group, batch)
			}
		})
	}
}

func TestNamesInPathsArePercentDecodedOnce(t *testing.T) {
	t.Parallel()
	c := shared(t)
	queue := cell.FreshQueue()
	c.Push(t, client.Item{Queue: queue + "+%2F", Payload: []byte(`1`)})
	// A literal plus stays a plus, and an encoded per cent sign is not decoded again.
	status, body := c.Get(t, "/api/v1/pop/queue/"+url.PathEscape(queue)+"+%252F")
	if status != 200 {
		t.Errorf("%d %s", status, body)
	}
}
