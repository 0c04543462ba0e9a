package group_test

import (
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"

	"queen.internal/pkg/pg"
	"queen.internal/pkg/pgtest"
	"queen.internal/pkg/queue"
	"queen.internal/pkg/segment"
	"queen.internal/pkg/store/group"
	"queen.internal/pkg/store/log"
)

// hammer is what concurrent workers believe: who holds which cursor, and how far each was given out.
type hammer struct {
	*bench
	mu   sync.Mutex
	held map[group.LeaseKey]uuid.UUID
	next map[group.LeaseKey]int64 // offset at which the next claim of the cursor must start
}

const hammerPartitions = 5

func (h *hammer) append(r *rand.Rand) {
	var keys []log.Key
	for _, i := range r.Perm(hammerPartitions)[:1+r.IntN(hammerPartitions)] {
		keys = append(keys, log.Key{Tenant: queue.DefaultTenant, Queue: fmt.Sprint("q", i%2), Partition: fmt.Sprint("p", i)})
	}
	ids, err := h.log.Ensure(h.Context(), keys)
	if err != nil {
		h.Error(err)
		return
	}
	var runs []log.Run
	for _, id := range ids {
		var msgs []segment.Message
		run := log.Run{Partition: id, Tag: r.Int64()}
		for range 1 + r.IntN(3) {
			m := segment.Message{ID: queue.NewID(), Payload: []byte("1")}
			m.TransactionID = m.ID.String()
			msgs, run.Hashes = append(msgs, m), append(run.Hashes, queue.TransactionHash(m.TransactionID))
		}
		run.Segment = segment.Encode(msgs)
		runs = append(runs, run)
	}
	if _, err := h.log.Append(h.Context(), runs, log.AppendOptions{Wait: r.IntN(2) == 0, CheckTags: r.IntN(4) == 0}); err != nil {
		h.Error(err)
	}
}

// consume makes one pop of a group over both queues, and acks, gives back or renews what it got.
func (h *hammer) consume(r *rand.Rand, name string) {
	lease := queue.NewID()
	var groups []group.AckGroup
	var keys []group.LeaseKey
	var spans []log.Span
	for _, queueName := range []string{"q0", "q1"} {
		sub, err := h.group.Subscribe(h.Context(), queue.DefaultTenant, queueName, name, all)
		if err != nil {
			h.Error(err)
			return
		}
		ids, err := h.group.Candidates(h.Context(), sub.Ref, 0, 10, time.Time{})
		if err != nil {
			h.Error(err)
			return
		}
		result, err := h.group.Claim(h.Context(), group.ClaimRequest{
			Subscription: sub.Ref, Partitions: ids, Lease: lease, LeaseSeconds: 600, Batch: 1 + r.IntN(8), MaxBytes: 1 << 20, AtLeastOne: true,
		})
		if err != nil {
			h.Error(err)
			return
		}
		for i := range result.Claims {
			if c := &result.Claims[i]; c.Verdict == group.Took {
				key := group.LeaseKey{Partition: c.PartitionID, Subscription: sub.ID}
				h.took(key, lease, c)
				keys = append(keys, key)
				spans = append(spans, log.Span{Partition: c.PartitionID, First: c.First, Last: c.Last})
				groups = append(groups, group.AckGroup{Partition: c.PartitionUUID, Lease: &lease})
			}
		}
	}
	if len(keys) == 0 {
		return
	}
	if r.IntN(3) == 0 {
		if got, err := h.group.Extend(h.Context(), queue.DefaultTenant, lease, 900, time.Time{}, keys); err != nil || got.Renewed != len(keys) {
			h.Errorf("renewed %d of %d: %v", got.Renewed, len(keys), err)
		}
	}
	read, err := h.log.Read(h.Context(), spans)
	if err != nil {
		h.Error(err)
		return
	}
	for i := range groups {
		stop, last := spans[i].Last, &read[i][len(read[i])-1]
		msgs, err := last.Messages()
		if err != nil {
			h.Error(err)
			return
		}
		hash := queue.TransactionHash(msgs[stop-last.Base].TransactionID)
		groups[i].Items = []group.AckItem{{Hash: &hash}}
		h.left(keys[i], lease, stop)
		if r.IntN(4) == 0 {
			groups[i].Items[0].Signal = group.Retry // a nack of the last message gives back that one alone
			groups[i].Items = append(groups[i].Items, group.AckItem{})
			h.left(keys[i], uuid.Nil, spans[i].First-1)
		}
	}
	results, err := h.group.Ack(h.Context(), queue.DefaultTenant, name, time.Time{}, groups)
	if err != nil {
		h.Error(err)
		return
	}
	for i := range results {
		if !results[i].LeaseReleased {
			h.Errorf("%+v", results[i])
		}
	}
}

func (h *hammer) took(key group.LeaseKey, lease uuid.UUID, c *group.Claim) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if other, held := h.held[key]; held {
		h.Errorf("%v leased to %s while %s holds it", key, lease, other)
	}
	if want := h.next[key]; c.First != want {
		h.Errorf("%v: a span starts at %d, not %d", key, c.First, want)
	}
	h.held[key] = lease
}

// left notes, before the ack is sent, where the cursor will stand.
func (h *hammer) left(key group.LeaseKey, lease uuid.UUID, committed int64) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if lease != uuid.Nil && h.held[key] != lease {
		h.Errorf("%v is held by %s, not %s", key, h.held[key], lease)
	}
	delete(h.held, key)
	h.next[key] = committed + 1
}

// Every procedure on overlapping sets, in whichever order the workers happen to come: one live lease, spans without a
// gap, and no deadlock.
func TestProceduresOnOverlappingSetsDoNotDisturbEachOther(t *testing.T) {
	t.Parallel()
	db := pgtest.New(t)
	pool, err := pg.Open(t.Context(), db.Config, pg.Options{Name: "hammer", Size: 10})
	if err != nil {
		t.Fatal(err)
	}
	defer pool.Close()
	h := &hammer{
		bench: &bench{T: t, pool: pool, group: group.New(pool), log: log.New(pool)},
		held:  make(map[group.LeaseKey]uuid.UUID), next: make(map[group.LeaseKey]int64),
	}
	var workers sync.WaitGroup
	for w := range 9 {
		workers.Go(func() {
			r := rand.New(rand.NewPCG(uint64(w), 7))
			for range 30 {
				switch w % 3 {
				case 0:
					h.append(r)
				case 1:
					h.consume(r, "g")
				default:
					h.consume(r, "h")
				}
				if r.IntN(5) == 0 {
					i := r.IntN(hammerPartitions)
					if _, _, err := h.group.Pin(t.Context(), queue.DefaultTenant, fmt.Sprint("q", i%2), fmt.Sprint("p", i), []string{"g", "h"}[r.IntN(2)], all); err != nil {
						t.Error(err)
					}
				}
			}
		})
	}
	workers.Wait()
	var gaps, beyond, deadlocks int
	if err := pool.QueryRow(t.Context(), `SELECT
		(SELECT count(*) FROM (SELECT base_offset, lag(end_offset, 1, -1::bigint) OVER (PARTITION BY partition_id ORDER BY base_offset) AS before
			FROM queen.segments) s WHERE s.base_offset <> s.before + 1),
		(SELECT count(*) FROM queen.cursors c JOIN queen.partitions p ON p.id = c.partition_id WHERE greatest(c.committed, c.batch_end) > p.last_offset),
		(SELECT deadlocks FROM pg_stat_database WHERE datname = current_database())`).Scan(&gaps, &beyond, &deadlocks); err != nil {
		t.Fatal(err)
	}
	if gaps != 0 || beyond != 0 || deadlocks != 0 {
		t.Errorf("%d gaps, %d cursors beyond the end, %d deadlocks", gaps, beyond, deadlocks)
	}
}
