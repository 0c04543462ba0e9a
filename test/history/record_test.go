package history_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"queen.internal/pkg/client"
	"queen.internal/test/history"
)

func TestAnItemThatMayBeStoredIsNotedAsLost(t *testing.T) {
	t.Parallel()
	r := history.NewRecorder()
	done := r.Call()
	items := make([]client.Item, 3)
	for i, key := range []string{"a", "b", "c"} {
		items[i] = client.Item{Queue: "q", Partition: "p", TransactionID: key}
	}
	r.Push(done(nil), "one", items, []client.PushResult{
		{MessageID: "1", Status: client.Queued},
		{MessageID: "2", Status: client.Failed, Error: "PostgreSQL did not confirm the commit; the messages may be stored"},
		{MessageID: "3", Status: client.Failed, Error: "the spool is full"},
	})
	var got []string
	for _, push := range r.History().Pushes {
		text := push.Server
		for _, item := range push.Items {
			text += " " + item.Key + item.ID + item.Status
		}
		if push.Lost {
			text += " lost"
		}
		got = append(got, text)
	}
	if diff := cmp.Diff([]string{"one a1queued c3failed", " b lost"}, got); diff != "" {
		t.Error(diff)
	}
}
