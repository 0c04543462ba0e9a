package deadlock_test

import (
	"context"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"queen.internal/pkg/pg"
	"queen.internal/pkg/pgtest"
	"queen.internal/pkg/store/admin"
	"queen.internal/pkg/store/deadletter"
	"queen.internal/pkg/store/group"
	"queen.internal/pkg/store/log"
	"queen.internal/pkg/store/retention"
	"queen.internal/pkg/store/state"
	"queen.internal/pkg/store/task"
)

const (
	workers = 9
	holders = 2
)

func TestProceduresOnOverlappingSetsDoNotDeadlock(t *testing.T) {
	t.Parallel()
	db := pgtest.New(t)
	// The server counts the calls of sessions that begin after this.
	if _, err := db.Pool.Exec(t.Context(), `ALTER DATABASE `+pgx.Identifier{db.Config.Database}.Sanitize()+` SET track_functions = 'all'`); err != nil {
		t.Fatal(err)
	}
	pool, err := pg.Open(t.Context(), db.Config, pg.Options{Name: "deadlock", Size: workers + holders + 1})
	if err != nil {
		t.Fatal(err)
	}
	h := &hammer{
		T: t, pool: pool, log: log.New(pool), group: group.New(pool).SeedBy(2), admin: admin.New(pool), dead: deadletter.New(pool),
		state: state.New(pool), tasks: task.New(pool), trim: retention.New(pool),
		calls: make(map[string]int),
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var running sync.WaitGroup
	for i := range workers {
		w := worker{h, rand.New(rand.NewPCG(uint64(i), 7))}
		running.Go(func() {
			for ctx.Err() == nil && !t.Failed() {
				step := steps[w.any()]
				w.count(step.name, step.do(w))
			}
		})
	}
	for i := range holders {
		w := worker{h, rand.New(rand.NewPCG(uint64(i), 8))}
		running.Go(func() {
			for ctx.Err() == nil && !t.Failed() {
				w.count("hold", w.hold())
			}
		})
	}
	missing := h.await(db.Pool)
	cancel()
	running.Wait()
	pool.Close()
	t.Log(h.calls)
	for _, name := range missing {
		t.Errorf("no step calls queen.%s: add one, or say in elsewhere why not", name)
	}
	h.pool = db.Pool
	h.deadlocks()
	h.sound()
}

// await returns when the time is over and every procedure was called, whichever comes later, or something has failed. What
// nobody has called within a minute more is missing: on a busy machine the rarer steps take their time.
func (h *hammer) await(db *pgxpool.Pool) (missing []string) {
	pace := time.NewTicker(250 * time.Millisecond) // the server tells at most once a second
	defer pace.Stop()
	began := time.Now()
	for range pace.C {
		if h.Failed() {
			return nil
		}
		passed := time.Since(began)
		if passed < *span {
			continue
		}
		if missing = h.uncalled(db); len(missing) == 0 || passed > *span+time.Minute {
			return missing
		}
	}
	return missing
}

// deadlocks asks the server.
func (h *hammer) deadlocks() {
	var deadlocks int
	if err := h.pool.QueryRow(h.Context(), `SELECT deadlocks FROM pg_stat_database WHERE datname = current_database()`).Scan(&deadlocks); err != nil {
		h.Fatal(err)
	}
	if deadlocks != 0 {
		h.Errorf("%d deadlocks", deadlocks)
	}
}

// elsewhere is procedures that write and are called by none of the steps, with the reason.
var elsewhere = []string{}

// uncalled is the procedures that may lock anything and that no step has called.
func (h *hammer) uncalled(db *pgxpool.Pool) []string {
	rows, err := db.Query(h.Context(), `SELECT DISTINCT p.proname FROM pg_proc p
		WHERE p.pronamespace = 'queen'::regnamespace AND p.provolatile = 'v' AND p.prorettype <> 'trigger'::regtype
		  AND NOT EXISTS (SELECT FROM pg_stat_user_functions f WHERE f.funcid = p.oid AND f.calls > 0) ORDER BY 1`)
	if err != nil {
		h.Error(err)
		return nil
	}
	names, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil {
		h.Error(err)
	}
	return slices.DeleteFunc(names, func(name string) bool { return slices.Contains(elsewhere, name) })
}

// sound looks at what is stored.
func (h *hammer) sound() {
	var gaps, beyond, spans int
	if err := h.pool.QueryRow(h.Context(), `SELECT
		(SELECT count(*) FROM (SELECT base_offset, lag(end_offset, 1, -1::bigint) OVER (PARTITION BY partition_id ORDER BY base_offset) AS before
			FROM queen.segments) s WHERE s.base_offset <> s.before + 1 AND s.before >= 0),
		(SELECT count(*) FROM queen.cursors c JOIN queen.partitions p ON p.id = c.partition_id WHERE greatest(c.committed, c.batch_end) > p.last_offset),
		(SELECT count(*) FROM queen.cursors c WHERE (c.lease_id IS NULL) <> (c.batch_end IS NULL))`).Scan(&gaps, &beyond, &spans); err != nil {
		h.Fatal(err)
	}
	if gaps != 0 || beyond != 0 || spans != 0 {
		h.Errorf("%d gaps, %d cursors beyond the end, %d leases without a span", gaps, beyond, spans)
	}
}
