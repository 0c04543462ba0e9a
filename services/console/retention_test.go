package main

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"queen.internal/pkg/wire"
)

func TestRetention(t *testing.T) {
	t.Parallel()

	t.Run("is told by time and by queue", func(t *testing.T) {
		t.Parallel()
		b := setup(t, "")
		p := b.partition("orders", "p")
		b.partition("quiet", "p")
		b.exec(`INSERT INTO queen.retention_history (queue_id, minute, aged, completed, evicted, unread, partitions, steps)
			SELECT q.id, timestamptz '2026-01-31 12:00:00Z' + n * interval '2 min', 1, 2, 3, 2, n / 3, 1
			FROM queen.queues q, generate_series(0, 4) n WHERE q.name = 'orders'`)
		b.exec(`INSERT INTO queen.subscriptions (queue_id, group_name, registered_at, newest_partition_id, start_mode)
			SELECT id, 'slow', now(), 0, 'all' FROM queen.queues WHERE name = 'orders'`)
		b.exec(`INSERT INTO queen.retained (partition_id, queue_id, held_by, held_since)
			SELECT $1, s.queue_id, s.id, timestamptz '2026-01-31 11:00:00Z' FROM queen.subscriptions s`, p.ID)
		var got wire.Retention
		if err := json.Unmarshal([]byte(b.must("/api/v1/analytics/retention?from=2026-01-31T12:00:00Z&to=2026-01-31T14:00:00Z")), &got); err != nil {
			t.Fatal(err)
		}
		bucket := wire.RetentionCounts{Aged: 3, Completed: 6, Evicted: 9, Total: 18, Events: 3, Unread: 6}
		rest := wire.RetentionCounts{Aged: 2, Completed: 4, Evicted: 6, Total: 12, Events: 2, Unread: 4}
		if got.BucketMinutes != 5 || len(got.Series) != 2 || got.Series[0].RetentionCounts != bucket || got.Series[1].RetentionCounts != rest {
			t.Errorf("%+v", got.Series)
		}
		bucket.Add(rest)
		if got.Totals != bucket || got.Truncated {
			t.Errorf("%+v", got.Totals)
		}
		want := []wire.RetentionQueue{{
			Queue: "orders", Aged: 5, Completed: 10, Evicted: 15, Unread: 10, Partitions: 2,
			HeldBy: &wire.RetentionHold{Group: "slow", Since: got.TimeRange.From.Add(-60 * 60e9), Partitions: 1},
		}}
		if diff := cmp.Diff(want, got.Queues); diff != "" {
			t.Error(diff)
		}
		for _, path := range []string{"queue=quiet", "queue=nothing"} {
			if body := b.must("/api/v1/analytics/retention?" + path); !strings.Contains(body, `"series":[],`) || !strings.Contains(body, `"queues":[]`) {
				t.Errorf("%s: %s", path, body)
			}
		}
	})

	t.Run("what cannot be read is named", func(t *testing.T) {
		t.Parallel()
		b := setup(t, "")
		for query, field := range map[string]string{"from=yesterday": "from", "to=7": "to", "from=2026-01-02T00:00:00Z&to=2026-01-01T00:00:00Z": "from", "queue=%01": "queue"} {
			if status, body := b.ask("", "/api/v1/analytics/retention?"+query); status != http.StatusBadRequest || !strings.Contains(body, field) {
				t.Errorf("%s is %d %s", query, status, body)
			}
		}
	})
}
