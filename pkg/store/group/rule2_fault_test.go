package group_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5/pgconn"

	"queen.internal/pkg/pg"
	"queen.internal/pkg/pgtest"
	"queen.internal/pkg/queue"
	"queen.internal/pkg/segment"
	"queen.internal/pkg/store/group"
	"queen.internal/pkg/store/log"
	"queen.internal/pkg/testkit"
)

// Rule 2: rows are locked in one order everywhere.

// crowd is workers that ask for the same few rows, in whichever order comes.
type crowd struct {
	t         *testing.T
	group     *group.Store
	log       *log.Store
	deadlocks atomic.Int64

	mu         sync.Mutex
	partitions []group.Claim // whose wire ids stray acks name
}

const crowdQueues, crowdPartitions, crowdGroups = 2, 6, 2

// check takes an error that ends a worker's step.
func (c *crowd) check(err error) {
	var state *pgconn.PgError
	switch {
	case err == nil:
	case errors.As(err, &state) && state.Code == "40P01":
		c.deadlocks.Add(1)
	default:
		c.t.Error(err)
	}
}

// keys are some partitions in a random order, and sometimes one that nobody has seen.
func (c *crowd) keys(r *rand.Rand) (keys []log.Key) {
	for _, i := range r.Perm(crowdPartitions)[:2+r.IntN(crowdPartitions-1)] {
		keys = append(keys, log.Key{Tenant: queue.DefaultTenant, Queue: fmt.Sprint("q", i%crowdQueues), Partition: fmt.Sprint("p", i)})
	}
	if r.IntN(4) == 0 {
		keys[0].Partition = fmt.Sprint("fresh", r.IntN(50))
	}
	return keys
}

func (c *crowd) append(r *rand.Rand) {
	found, err := c.log.Ensure(c.t.Context(), c.keys(r))
	if err != nil {
		c.check(err)
		return
	}
	var runs []log.Run
	for _, p := range found {
		m := segment.Message{ID: queue.NewID(), Payload: []byte("1")}
		m.TransactionID = m.ID.String()
		runs = append(runs, log.Run{
			Partition: p, Tag: r.Int64(), Segment: segment.Encode([]segment.Message{m}), Hashes: []uuid.UUID{queue.TransactionHash(m.TransactionID)},
		})
	}
	_, err = c.log.Append(c.t.Context(), runs, log.AppendOptions{Wait: r.IntN(4) > 0, CheckTags: r.IntN(4) == 0})
	c.check(err)
}

// consume pops over both queues and acks and renews the lease at the same time, which both lock its cursors.
func (c *crowd) consume(r *rand.Rand) {
	name := fmt.Sprint("g", r.IntN(crowdGroups))
	if r.IntN(8) == 0 {
		name = fmt.Sprint("fresh", r.IntN(20))
	}
	lease := queue.NewID()
	var keys []group.LeaseKey
	var took []group.Claim
	for i := range crowdQueues {
		sub, err := c.group.Subscribe(c.t.Context(), queue.DefaultTenant, fmt.Sprint("q", i), name, []group.Start{all, fresh}[r.IntN(2)])
		if err != nil {
			c.check(err)
			return
		}
		ids, err := takeable(c.t.Context(), c.group, sub.Ref)
		if err != nil {
			c.check(err)
			return
		}
		r.Shuffle(len(ids), func(i, j int) { ids[i], ids[j] = ids[j], ids[i] })
		result, err := c.group.Claim(c.t.Context(), group.ClaimRequest{
			Subscription: sub.Ref, Partitions: ids, Lease: lease, LeaseSeconds: 1 + r.IntN(2), Batch: 20, MaxBytes: 1 << 20, AtLeastOne: true,
		})
		if err != nil {
			c.check(err)
			return
		}
		for _, claim := range result.Claims {
			if claim.Verdict == group.Took {
				took = append(took, claim)
				keys = append(keys, group.LeaseKey{Partition: claim.PartitionID, Subscription: sub.ID})
			}
		}
	}
	c.mu.Lock()
	c.partitions = append(c.partitions, took...)
	known := c.partitions[max(0, len(c.partitions)-20):]
	c.mu.Unlock()
	var renewing sync.WaitGroup
	if r.IntN(2) == 0 {
		renewing.Go(func() {
			_, err := c.group.Extend(c.t.Context(), queue.DefaultTenant, lease, 2, group.Bounds{}, keys)
			c.check(err)
		})
	}
	c.ack(r, name, lease, took, known)
	renewing.Wait()
}

// ack acknowledges what was taken, and names other partitions in between with a lease that nobody has: their cursors are
// locked all the same.
func (c *crowd) ack(r *rand.Rand, name string, lease uuid.UUID, took, known []group.Claim) {
	groups := make(map[uuid.UUID]group.AckGroup)
	stray := queue.NewID()
	for _, claim := range known {
		groups[claim.PartitionUUID] = group.AckGroup{Partition: claim.PartitionUUID, Lease: &stray, Items: []group.AckItem{{}}}
	}
	for _, claim := range took {
		groups[claim.PartitionUUID] = group.AckGroup{Partition: claim.PartitionUUID, Lease: &lease, Items: []group.AckItem{{Signal: group.Retry}}}
	}
	var all []group.AckGroup
	for _, g := range groups { // in an order of its own each time
		all = append(all, g)
	}
	if len(all) > 0 {
		_, err := c.group.Ack(c.t.Context(), queue.DefaultTenant, name, group.Bounds{}, all)
		c.check(err)
	}
}

// run lets the workers work until over says so, and closes their sessions, so that the server's figures are complete.
func (c *crowd) run(db pgtest.Database, over func() bool) (counted int) {
	cfg := db.Config
	cfg.LockTimeout = 20 * time.Second // a queue of waiters is no fault
	pool := testkit.Pool(c.t, cfg, "crowd", 8)
	c.group, c.log = group.New(pool), log.New(pool)
	var workers sync.WaitGroup
	for w := range 8 {
		workers.Go(func() {
			r := rand.New(rand.NewPCG(uint64(w), 11))
			for !over() {
				if w%2 == 0 {
					c.append(r)
				} else {
					c.consume(r)
				}
			}
		})
	}
	workers.Wait()
	pool.Close()
	testkit.AwaitGone(c.t, db.Pool, "crowd")
	return testkit.Deadlocks(c.t, db.Pool)
}

// impatient makes the server look for deadlocks at once, before the waiting is over by itself.
func impatient(t *testing.T, pool *pg.Pool, database string) {
	t.Helper()
	if _, err := pool.Exec(t.Context(), fmt.Sprintf(`ALTER DATABASE %s SET deadlock_timeout = '20ms'`, database)); err != nil {
		t.Fatal(err)
	}
}

// until is true from d on.
func until(d time.Duration) func() bool {
	end := time.Now().Add(d)
	return func() bool { return time.Now().After(end) }
}

func TestRule2CallsOnOverlappingRowsNeverDeadlock(t *testing.T) {
	t.Parallel()
	db := pgtest.New(t)
	impatient(t, db.Pool, db.Config.Database)
	c := &crowd{t: t}
	if counted := c.run(db, until(4*time.Second)); counted != 0 || c.deadlocks.Load() != 0 {
		t.Errorf("%d deadlocks counted by the server, %d seen", counted, c.deadlocks.Load())
	}
	if len(c.partitions) == 0 {
		t.Error("nothing was claimed")
	}
}

// The same crowd finds each procedure that locks in the order in which it is asked, so the test above can fail.
func TestRule2ACallThatLocksInItsOwnOrderIsFound(t *testing.T) {
	t.Parallel()
	for procedure, order := range map[string]struct{ right, wrong string }{
		"append":       {"ORDER BY p.id FOR NO KEY UPDATE)", "ORDER BY array_position(p_partitions, p.id) FOR NO KEY UPDATE)"},
		"ack":          {"ORDER BY p.id, s.id, w.place", "ORDER BY w.place"},
		"extend_lease": {"ORDER BY c.partition_id, c.subscription_id", "ORDER BY c.partition_id DESC"},
	} {
		t.Run(procedure, func(t *testing.T) {
			t.Parallel()
			db := pgtest.New(t)
			impatient(t, db.Pool, db.Config.Database)
			var text string
			if err := db.Pool.QueryRow(t.Context(), `SELECT pg_get_functiondef(oid) FROM pg_proc
				WHERE pronamespace = 'queen'::regnamespace AND proname = $1`, procedure).Scan(&text); err != nil {
				t.Fatal(err)
			}
			if !strings.Contains(text, order.right) {
				t.Fatalf("queen.%s does not say %q", procedure, order.right)
			}
			if _, err := db.Pool.Exec(t.Context(), strings.ReplaceAll(text, order.right, order.wrong)); err != nil {
				t.Fatal(err)
			}
			c := &crowd{t: t}
			limit := until(time.Minute)
			counted := c.run(db, func() bool { return c.deadlocks.Load() > 0 || limit() })
			if counted == 0 || c.deadlocks.Load() == 0 {
				t.Errorf("%d deadlocks counted by the server, %d seen", counted, c.deadlocks.Load())
			}
		})
	}
}
