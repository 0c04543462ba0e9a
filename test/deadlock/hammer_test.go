package deadlock_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5/pgconn"

	"queen.internal/pkg/pg"
	"queen.internal/pkg/queue"
	"queen.internal/pkg/store/admin"
	"queen.internal/pkg/store/deadletter"
	"queen.internal/pkg/store/group"
	"queen.internal/pkg/store/log"
	"queen.internal/pkg/store/retention"
	"queen.internal/pkg/store/state"
	"queen.internal/pkg/store/task"
)

const (
	queues     = 2
	partitions = 3 // of each queue
)

var (
	tenant = queue.DefaultTenant
	groups = []string{"g", "h"}
)

// hammer is the stores, and what the workers know of each other: what they may collide on.
type hammer struct {
	*testing.T
	pool  *pg.Pool
	log   *log.Store
	group *group.Store
	admin *admin.Store
	dead  *deadletter.Store
	state *state.Store
	tasks *task.Store
	trim  *retention.Store

	mu    sync.Mutex
	held  []held // newest last
	calls map[string]int
}

// held is a span that somebody leased, or has.
type held struct {
	key       group.LeaseKey
	group     string
	partition uuid.UUID
	lease     uuid.UUID
	first     int64
	last      int64
	keys      []string // transaction ids
}

// worker is one of the callers, with its own choices.
type worker struct {
	*hammer
	*rand.Rand
}

func (w worker) queueName() string     { return fmt.Sprint("q", w.IntN(queues)) }
func (w worker) partitionName() string { return fmt.Sprint("p", w.IntN(partitions)) }
func (w worker) groupName() string     { return groups[w.IntN(len(groups))] }
func (w worker) oneIn(n int) bool      { return w.IntN(n) == 0 }

// some is up to n of what was leased lately.
func (w worker) some(n int) []held {
	w.mu.Lock()
	defer w.mu.Unlock()
	var found []held
	for range n {
		if len(w.held) > 0 {
			found = append(found, w.held[w.IntN(len(w.held))])
		}
	}
	return found
}

// keep remembers what was leased, and forgets what was leased long ago.
func (w worker) keep(h held) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.held = append(w.held, h); len(w.held) > 10 {
		w.held = w.held[1:]
	}
}

// count notes that a step was made. It is what a procedure answers that counts, so an error is one of the test.
func (w worker) count(step string, err error) {
	w.mu.Lock()
	w.calls[step]++
	w.mu.Unlock()
	var failed *pgconn.PgError
	switch {
	case errors.As(err, new(*group.Seeding)): // left to whoever comes next
	case errors.As(err, &failed):
		w.Errorf("%s: %v (%s) %s", step, err, failed.Detail, failed.Where)
	case err != nil:
		w.Errorf("%s: %v", step, err)
	}
}

// steps is what workers do, the usual things more often.
var steps = []struct {
	name   string
	weight int
	do     func(worker) error
}{
	{"append", 8, worker.append},
	{"replay a spool", 3, worker.replaySpool},
	{"forget a spool", 1, worker.forgetSpool},
	{"turn a switch", 1, worker.turnSwitch},
	{"claim", 10, worker.claim},
	{"ack", 10, worker.ack},
	{"consume", 10, worker.consume},
	{"transact", 6, worker.transact},
	{"extend", 5, worker.extend},
	{"release", 4, worker.release},
	{"end a lease", 4, worker.endLease},
	{"list leases", 1, worker.listLeases},
	{"pin", 2, worker.pin},
	{"subscribe", 2, worker.subscribe},
	{"seek", 2, worker.seek},
	{"seek a partition", 2, worker.seekPartition},
	{"delete a group", 1, worker.deleteGroup},
	{"change a subscription", 1, worker.changeSubscription},
	{"configure", 2, worker.configure},
	{"delete a queue", 1, worker.deleteQueue},
	{"purge", 1, worker.purge},
	{"remove", 2, worker.remove},
	{"depth", 1, worker.depth},
	{"pause", 1, worker.pause},
	{"replay", 3, worker.replay},
	{"maintain", 8, worker.maintain},
	{"age", 3, worker.age},
}

// any is one of the steps, by weight.
func (w worker) any() int {
	total := 0
	for _, s := range steps {
		total += s.weight
	}
	at := w.IntN(total)
	for i, s := range steps {
		if at -= s.weight; at < 0 {
			return i
		}
	}
	return 0
}
