package appendlog_test

import (
	"fmt"
	"testing"

	"github.com/google/uuid"

	"queen.internal/pkg/appendlog"
	"queen.internal/pkg/pgtest"
	"queen.internal/pkg/queue"
	"queen.internal/pkg/segment"
	"queen.internal/pkg/store/log"
)

// One call of Append that spreads `messages` evenly over `partitions`; the yardstick is one raw row insert a call.
func BenchmarkAppend(b *testing.B) {
	pool := pgtest.DB(b)
	for _, bc := range []struct{ partitions, messages int }{{1, 1}, {1, 100}, {8, 800}, {64, 64}, {64, 6400}} {
		b.Run(fmt.Sprintf("partitions=%d/messages=%d", bc.partitions, bc.messages), func(b *testing.B) {
			l := appendlog.New(log.New(pool), nil)
			name := uuid.NewString()
			for b.Loop() {
				groups := make([]appendlog.Group, bc.partitions)
				for i := range groups {
					groups[i].Key = appendlog.Key{Tenant: queue.DefaultTenant, Queue: name, Partition: fmt.Sprint(i)}
					for range bc.messages / bc.partitions {
						id := queue.NewID()
						groups[i].Messages = append(groups[i].Messages, segment.Message{ID: id, TransactionID: id.String(), Payload: []byte(`{"order":17,"text":"some words of a message that compress a little"}`)})
					}
				}
				for _, r := range l.Append(b.Context(), groups) {
					if r.Err != nil {
						b.Fatal(r.Err)
					}
				}
			}
			b.ReportMetric(float64(b.Elapsed().Microseconds())/float64(b.N*bc.messages), "µs/message")
		})
	}
	b.Run("yardstick=insert", func(b *testing.B) {
		if _, err := pool.Exec(b.Context(), `CREATE TABLE yardstick (id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, payload bytea)`); err != nil {
			b.Fatal(err)
		}
		payload := make([]byte, 100)
		for b.Loop() {
			if _, err := pool.Exec(b.Context(), `INSERT INTO yardstick (payload) VALUES ($1)`, payload); err != nil {
				b.Fatal(err)
			}
		}
	})
}
