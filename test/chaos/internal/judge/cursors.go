package judge

import (
	"context"
	"fmt"
	"sync"
	"time"

	"queen.internal/test/chaos/internal/journal"
	"queen.internal/test/chaos/internal/stand"
)

// pace of the samples.
const pace = 100 * time.Millisecond

// Watch samples cursors and sessions during a run: no cursor falls, none is beyond its partition's end, and what is leased
// lies in between.
type Watch struct {
	stand   *stand.Stand
	journal *journal.Journal
	stop    context.CancelFunc
	done    sync.WaitGroup

	last    map[[2]int64]int64 // by subscription and partition, the cursor
	samples int
	wrong   []string
}

// NewWatch begins.
func NewWatch(ctx context.Context, s *stand.Stand, j *journal.Journal) *Watch {
	ctx, stop := context.WithCancel(ctx)
	w := &Watch{stand: s, journal: j, stop: stop, last: make(map[[2]int64]int64)}
	w.done.Go(func() {
		next := time.NewTicker(pace)
		defer next.Stop()
		for {
			select {
			case <-ctx.Done():
				return
			case <-next.C:
				w.sample(ctx)
			}
		}
	})
	return w
}

// Stop ends it and says how many samples there were and what was wrong.
func (w *Watch) Stop() (samples int, wrong []string) {
	w.stop()
	w.done.Wait()
	return w.samples, w.wrong
}

// sampleQuery is one look at everything. A session's query does not tell more than its state.
const sampleQuery = `SELECT c.subscription_id, c.partition_id, c.committed, coalesce(c.batch_end, c.committed), p.last_offset
	FROM queen.cursors c JOIN queen.partitions p ON p.id = c.partition_id`

func (w *Watch) sample(ctx context.Context) {
	// A database that is gone or hangs is what runs are about: no sample then.
	ctx, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	rows, err := w.stand.DB().Query(ctx, sampleQuery)
	if err != nil {
		return
	}
	defer rows.Close()
	cursors, behind, under := 0, int64(0), 0
	for rows.Next() {
		var key [2]int64
		var committed, end, last int64
		if err := rows.Scan(&key[0], &key[1], &committed, &end, &last); err != nil {
			return
		}
		if before, known := w.last[key]; known && committed < before {
			w.report("the cursor of subscription %d in partition %d fell from %d to %d", key[0], key[1], before, committed)
		}
		if committed < -1 || committed > end || end > last {
			w.report("subscription %d in partition %d: cursor %d, leased to %d, last offset %d", key[0], key[1], committed, end, last)
		}
		w.last[key] = committed
		cursors++
		behind += last - committed
		if end > committed {
			under++
		}
	}
	if rows.Err() == nil {
		w.samples++
		w.journal.Write(journal.Line{Event: "sample", Data: map[string]any{"cursors": cursors, "pending": behind, "leased": under, "open": w.journal.Open()}})
	}
}

func (w *Watch) report(format string, args ...any) {
	w.wrong = append(w.wrong, "cursor: "+fmt.Sprintf(format, args...))
}
