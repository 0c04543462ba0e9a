package retention_test

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"pgregory.net/rapid"

	"queen.internal/pkg/queue"
	"queen.internal/pkg/store/group"
	"queen.internal/pkg/store/log"
)

// longAgo is before everything.
var longAgo = time.Unix(0, 0)

func asSeeding(err error, target **group.Seeding) bool { return errors.As(err, target) }

// standing is where a group stands in a partition, as the rules see it.
type standing struct {
	committed int64
	leased    bool
}

// piece is a segment with its age in hours.
type piece struct {
	base, end int64
	age       float64
}

// expected is where the log of each partition begins after a cycle, by the rules as they are written in docs/retention.md:
// segment by segment, as long as one of them lets the next go. It also counts what goes.
func (h *history) expected() []int64 {
	starts := h.starts()
	for i, p := range h.parts {
		groups := h.standings(p.ID)
		for _, s := range h.pieces(p.ID, starts[i]) {
			free, consumed := true, len(groups) > 0
			floor := int64(0)
			for j, g := range groups {
				free = free && (!g.leased || g.committed >= s.end)
				consumed = consumed && g.committed >= s.end
				if j == 0 || g.committed+1 < floor {
					floor = g.committed + 1
				}
			}
			unread := s.end + 1 - max(s.base, min(floor, s.end+1))
			past := func(hours int) bool { return hours > 0 && s.age > float64(hours)-0.5 }
			n := s.end + 1 - s.base
			if past(h.rules.completed) && consumed {
				h.want.Completed += n
			} else if past(h.rules.aged) && free {
				h.want.Aged += n
			} else if past(h.rules.waited) && free {
				h.want.Evicted += n
			} else {
				break
			}
			h.want.Unread += unread
			starts[i] = s.end + 1
		}
	}
	return starts
}

// standings are the groups that have part in a partition: all that are registered, where a missing cursor means that nothing
// was consumed, and others with a cursor.
func (h *history) standings(partition int64) []standing {
	rows, err := h.b.db.Pool.Query(h.b.Context(), `SELECT coalesce(c.committed, -1), c.lease_expires_at > clock_timestamp() IS TRUE
		FROM queen.subscriptions s LEFT JOIN queen.cursors c ON c.subscription_id = s.id AND c.partition_id = $2
		WHERE s.queue_id = $1 AND (s.registered_at IS NOT NULL OR c.committed IS NOT NULL)`, h.id, partition)
	h.must(err)
	found, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (s standing, err error) {
		return s, row.Scan(&s.committed, &s.leased)
	})
	h.must(err)
	return found
}

func (h *history) pieces(partition, start int64) []piece {
	rows, err := h.b.db.Pool.Query(h.b.Context(), `SELECT base_offset, end_offset, (extract(epoch FROM clock_timestamp() - created_at) / 3600)::float8
		FROM queen.segments WHERE partition_id = $1 AND base_offset >= $2 ORDER BY base_offset`, partition, start)
	h.must(err)
	found, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (p piece, err error) {
		return p, row.Scan(&p.base, &p.end, &p.age)
	})
	h.must(err)
	return found
}

func TestWhatIsRemovedIsWhatTheRulesSay(t *testing.T) {
	t.Parallel()
	b := setup(t)
	cases := 0
	rapid.Check(t, func(rt *rapid.T) {
		cases++
		h := &history{
			T: rt, b: b, queue: fmt.Sprint("q", cases), log: log.New(b.db.Pool), group: group.New(b.db.Pool).SeedBy(1),
			subs: map[string]group.Ref{},
		}
		var keys []log.Key
		for i := range 3 {
			keys = append(keys, log.Key{Tenant: queue.DefaultTenant, Queue: h.queue, Partition: fmt.Sprint("p", i)})
		}
		var err error
		h.parts, err = h.log.Ensure(b.Context(), keys)
		h.must(err)
		h.id = b.value(`SELECT id FROM queen.queues WHERE name = $1`, h.queue)
		h.configure()
		for _, name := range modelGroups[:rapid.IntRange(0, len(modelGroups)).Draw(rt, "groups")] {
			h.register(name, "all")
		}
		for _, step := range rapid.SliceOfN(rapid.SampledFrom([]string{
			"append", "append", "append", "pass", "pass", "register", "slow", "slow", "slow", "late", "dead", "lease",
			"lease", "lease", "pin", "forget", "seek", "configure", "retain", "retain", "retain",
		}), 5, 40).Draw(rt, "steps") {
			switch step {
			case "append":
				to := rapid.SampledFrom(h.parts).Draw(rt, "partition")
				for range rapid.IntRange(1, 3).Draw(rt, "segments") {
					h.append(to)
				}
			case "pass":
				h.pass(rapid.IntRange(1, 3).Draw(rt, "hours"))
			case "register":
				h.register(rapid.SampledFrom(modelGroups).Draw(rt, "group"), rapid.SampledFrom([]string{"all", "new"}).Draw(rt, "mode"))
			case "slow", "late", "dead":
				h.consume(step, true)
			case "lease":
				h.consume(rapid.SampledFrom(modelGroups).Draw(rt, "group"), false)
			case "pin":
				h.pin()
			case "forget":
				h.forget()
			case "seek":
				h.seekBack()
			case "configure":
				h.configure()
			case "retain":
				h.retain()
			}
		}
		h.retain()
	})
}
