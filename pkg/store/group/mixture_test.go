package group_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/google/uuid"
	"pgregory.net/rapid"

	"queen.internal/pkg/queue"
	"queen.internal/pkg/segment"
	"queen.internal/pkg/store/group"
	"queen.internal/pkg/store/log"
)

// mixture is a history in which everything that moves, holds or frees a cursor meets everything else, with options that
// change under way. What each call answers is told elsewhere; here no call may fail, no cursor may stand where nothing was
// written, and whatever has happened, all that is in the log can be delivered in the end.
type mixture struct {
	*bench
	*rapid.T

	partitions map[int64]uuid.UUID
	ids        []int64
	subs       map[string]group.Ref
	leases     []uuid.UUID
	pushed     int
}

var mixtureGroups = []string{"g", "h"}

var mixtureSteps = map[string]func(m *mixture, name string){
	"append":   (*mixture).append,
	"claim":    (*mixture).claim,
	"ack":      (*mixture).ack,
	"transact": (*mixture).transact,
	"extend":   (*mixture).extend,
	"giveBack": (*mixture).giveBack,
	"end":      (*mixture).end,
	"seek":     (*mixture).seek,
	"pause":    (*mixture).pause,
	"delete":   (*mixture).delete,
	"retain":   (*mixture).retain,
	"forget":   (*mixture).forget,
	"wait":     func(m *mixture, _ string) { m.wait() },
	"options":  func(m *mixture, _ string) { m.options() },
}

func (m *mixture) partition() int64 { return m.ids[rapid.IntRange(0, 1).Draw(m.T, "partition")] }

func (m *mixture) one(n int) bool { return rapid.IntRange(1, n).Draw(m.T, "one of") == 1 }

func (m *mixture) must(err error) {
	m.bench.Helper()
	if err != nil {
		m.T.Fatal(err)
	}
}

func (m *mixture) sub(name string) group.Ref {
	sub, err := m.group.Subscribe(m.bench.Context(), queue.DefaultTenant, "q", name, all)
	m.must(err)
	m.subs[name] = sub.Ref
	return sub.Ref
}

func (m *mixture) run(partition int64) log.Run {
	m.tag++
	r := log.Run{Partition: log.Partition{ID: partition, UID: m.partitions[partition]}, Tag: m.tag}
	var msgs []segment.Message
	for range rapid.IntRange(1, 4).Draw(m.T, "messages") {
		m.pushed++
		id := fmt.Sprint(m.pushed)
		msgs = append(msgs, segment.Message{ID: queue.NewID(), TransactionID: id, Payload: []byte(id)})
		r.Hashes = append(r.Hashes, queue.TransactionHash(id))
	}
	r.Segment = segment.Encode(msgs)
	return r
}

func (m *mixture) append(string) {
	_, err := m.log.Append(m.bench.Context(), []log.Run{m.run(m.partition())}, log.AppendOptions{Wait: true})
	m.must(err)
}

func (m *mixture) claim(name string) {
	req := request(m.sub(name), m.ids...)
	req.Batch = rapid.IntRange(1, 5).Draw(m.T, "batch")
	req.AutoAck, req.AtLeastOne = m.one(6), !m.one(6)
	result, err := m.group.Claim(m.bench.Context(), req)
	m.must(err)
	m.must(result.Err)
	m.leases = append(m.leases, req.Lease)
}

// lease is one of the last leases, or none.
func (m *mixture) lease() *uuid.UUID {
	if len(m.leases) == 0 || m.one(5) {
		return nil
	}
	return &m.leases[len(m.leases)-rapid.IntRange(1, min(3, len(m.leases))).Draw(m.T, "lease")]
}

func (m *mixture) acks() group.AckGroup {
	a := group.AckGroup{Partition: m.partitions[m.partition()], Lease: m.lease()}
	for range rapid.IntRange(1, 4).Draw(m.T, "items") {
		hash := queue.TransactionHash(fmt.Sprint(rapid.IntRange(max(1, m.pushed-8), m.pushed+1).Draw(m.T, "message")))
		a.Items = append(a.Items, group.AckItem{Hash: &hash, Signal: signals.Draw(m.T, "signal"), Reason: "because"})
	}
	return a
}

func (m *mixture) ack(name string) {
	_, err := m.group.Ack(m.bench.Context(), queue.DefaultTenant, name, group.Bounds{}, []group.AckGroup{m.acks()})
	m.must(err)
}

func (m *mixture) transact(string) {
	b := &group.Bundle{ID: queue.NewID(), Tenant: queue.DefaultTenant, Fingerprint: []byte{}, MessageIDs: []uuid.UUID{}}
	for i, name := range mixtureGroups {
		a := group.BundleAck{AckGroup: m.acks(), Group: name}
		if a.Lease == nil && m.one(2) {
			a.Lease = &group.LeaseOnRecord
		}
		for range a.Items {
			a.Places = append(a.Places, int32(i))
		}
		if m.one(2) {
			b.Acks = append(b.Acks, a)
		}
	}
	b.Runs = []log.Run{m.run(m.partition())}
	for range 12 {
		result, err := m.group.Transact(m.bench.Context(), b)
		m.must(err)
		if result.State != group.Undone {
			return
		}
		supplied, err := m.group.Supply(m.bench.Context(), b, &result)
		m.must(err)
		if !supplied {
			return
		}
	}
	m.T.Fatal("asks for more and more")
}

func (m *mixture) extend(string) {
	if lease := m.lease(); lease != nil {
		_, err := m.group.Extend(m.bench.Context(), queue.DefaultTenant, *lease, 700, group.Bounds{}, nil)
		m.must(err)
	}
}

func (m *mixture) giveBack(string) {
	if lease := m.lease(); lease != nil {
		_, err := m.group.Release(m.bench.Context(), queue.DefaultTenant, *lease, group.Bounds{}, nil)
		m.must(err)
	}
}

func (m *mixture) end(string) {
	if lease := m.lease(); lease != nil {
		_, err := m.group.Expire(m.bench.Context(), queue.DefaultTenant, *lease, group.Bounds{}, nil)
		m.must(err)
	}
}

func (m *mixture) seek(name string) {
	var to *time.Time
	if m.one(2) {
		at := time.Unix(0, 0)
		if m.one(2) { // the commit of one of the segments
			m.must(m.pool.QueryRow(m.bench.Context(), `SELECT coalesce(max(created_at) FILTER (WHERE place = 1), now()) FROM (
				SELECT created_at, row_number() OVER (ORDER BY abs(base_offset - $1)) AS place FROM queen.segments WHERE partition_id = $2) s`,
				rapid.IntRange(0, 10).Draw(m.T, "base"), m.partition()).Scan(&at))
		}
		to = &at
	}
	if m.one(2) {
		_, _, err := m.group.SeekPartition(m.bench.Context(), queue.DefaultTenant, "q", fmt.Sprint("p", rapid.IntRange(0, 1).Draw(m.T, "partition")), name, to)
		m.must(err)
		return
	}
	seek, _, err := m.group.BeginSeek(m.bench.Context(), queue.DefaultTenant, "q", name, to)
	m.must(err)
	_, _, _, err = m.group.SeekPage(m.bench.Context(), seek, 0, 10)
	m.must(err)
}

func (m *mixture) pause(name string) {
	m.sub(name)
	_, err := m.group.SetPause(m.bench.Context(), queue.DefaultTenant, "q", &name, m.one(2))
	m.must(err)
}

func (m *mixture) delete(name string) {
	_, err := m.group.Delete(m.bench.Context(), queue.DefaultTenant, name, nil, m.one(2))
	m.must(err)
}

// retain removes the oldest segments, whoever has not consumed them.
func (m *mixture) retain(string) {
	p := m.partition()
	var start int64
	m.must(m.pool.QueryRow(m.bench.Context(), `WITH doomed AS (
			SELECT base_offset, end_offset FROM queen.segments WHERE partition_id = $1 ORDER BY base_offset LIMIT $2
		), removed AS (DELETE FROM queen.segments s USING doomed d WHERE s.partition_id = $1 AND s.base_offset = d.base_offset)
		UPDATE queen.partitions p SET log_start = greatest(p.log_start, (SELECT coalesce(max(end_offset) + 1, 0) FROM doomed)) WHERE p.id = $1
		RETURNING p.log_start`, p, rapid.IntRange(1, 4).Draw(m.T, "segments")).Scan(&start))
}

// forget removes hash rows, which have a clock of their own.
func (m *mixture) forget(string) {
	_, err := m.pool.Exec(m.bench.Context(), `DELETE FROM queen.dedup WHERE partition_id = $1`, m.partition())
	m.must(err)
}

// wait lets the time of all leases and delays pass.
func (m *mixture) wait() {
	_, err := m.pool.Exec(m.bench.Context(), `UPDATE queen.cursors SET not_before = not_before - interval '1 day',
		lease_expires_at = lease_expires_at - interval '1 day' WHERE partition_id = ANY ($1)`, m.ids)
	m.must(err)
}

func (m *mixture) options() {
	_, err := m.pool.Exec(m.bench.Context(), `UPDATE queen.queues SET retry_limit = $1, delivery_limit = $2, redelivery_delay_seconds = $3,
		dead_letter_queue = $4, dead_letter_after_retries = $4 WHERE deleted_at IS NULL`,
		rapid.IntRange(0, 2).Draw(m.T, "retryLimit"), rapid.SampledFrom([]int{0, 2, 3}).Draw(m.T, "deliveryLimit"),
		rapid.SampledFrom([]int{0, 60}).Draw(m.T, "redeliveryDelay"), m.one(2))
	m.must(err)
}

// sound looks at every cursor of a group that exists.
func (m *mixture) sound() {
	var wrong *string
	m.must(m.pool.QueryRow(m.bench.Context(), `SELECT string_agg(c::text || ' of ' || p.log_start || '..' || p.last_offset, '; ')
		FROM queen.cursors c JOIN queen.partitions p ON p.id = c.partition_id
		WHERE p.id = ANY ($1) AND (c.committed > p.last_offset OR c.batch_end > p.last_offset OR c.delivered_end > p.last_offset OR c.head_offset > p.last_offset
		   OR c.attempt < 0 OR c.alone < 0 OR c.not_before IS NOT NULL AND c.lease_id IS NOT NULL)`, m.ids).Scan(&wrong))
	if wrong != nil {
		m.T.Fatal(*wrong)
	}
}

// drain consumes all that is left, and checks that nothing is passed over.
func (m *mixture) drain(name string) {
	_, err := m.group.SetPause(m.bench.Context(), queue.DefaultTenant, "q", &name, false)
	if queue.KindOf(err) != queue.KindNotFound {
		m.must(err)
	}
	_, err = m.pool.Exec(m.bench.Context(), `UPDATE queen.queues SET dead_letter_queue = true WHERE deleted_at IS NULL`)
	m.must(err)
	sub := m.sub(name)
	for range 200 {
		m.wait()
		var next [2]int64
		for i, p := range m.ids {
			m.must(m.pool.QueryRow(m.bench.Context(), `SELECT greatest(coalesce((SELECT c.committed FROM queen.cursors c
				WHERE c.subscription_id = $1 AND c.partition_id = p.id), -1) + 1, p.log_start) FROM queen.partitions p WHERE p.id = $2`, sub.ID, p).Scan(&next[i]))
		}
		req := request(sub, m.ids...)
		result, err := m.group.Claim(m.bench.Context(), req)
		m.must(err)
		empty := true
		for i := range result.Claims {
			c := &result.Claims[i]
			empty = empty && c.Verdict == group.Empty
			if c.Verdict != group.Took {
				continue
			}
			at := next[slices.Index(m.ids, c.PartitionID)]
			if dead := m.dead(name, c.PartitionID, at, c.First); c.First != at+dead {
				m.T.Fatalf("%+v begins elsewhere than at %d, %d dead letters", c, at, dead)
			}
			m.finish(name, c, req.Lease)
		}
		if empty && len(result.Claims) == len(m.ids) {
			return
		}
	}
	m.T.Fatalf("%q finds no end", name)
}

// dead is how many messages from..to-1 are dead letters.
func (m *mixture) dead(name string, partition, from, to int64) (n int64) {
	m.must(m.pool.QueryRow(m.bench.Context(), `SELECT count(DISTINCT message_offset) FROM queen.dlq
		WHERE group_name = $1 AND partition_id = $2 AND message_offset >= $3 AND message_offset < $4`, name, partition, from, to).Scan(&n))
	return n
}

// finish acks the last message of a span.
func (m *mixture) finish(name string, c *group.Claim, lease uuid.UUID) {
	found, err := m.log.Read(m.bench.Context(), []log.Span{{Partition: c.PartitionID, First: c.Last, Last: c.Last}})
	m.must(err)
	seg := &found[0][0]
	msgs, err := seg.Messages()
	m.must(err)
	hash := queue.TransactionHash(msgs[c.Last-seg.Base].TransactionID)
	results, err := m.group.Ack(m.bench.Context(), queue.DefaultTenant, name, group.Bounds{}, []group.AckGroup{{
		Partition: c.PartitionUUID, Lease: &lease, Items: []group.AckItem{{Hash: &hash}},
	}})
	m.must(err)
	if r := results[0]; r.Outcome != group.Decided || !r.LeaseReleased || r.Committed != c.Last {
		m.T.Fatalf("the ack of %+v: %+v", c, r)
	}
}

func TestWhateverHappenedTheLogCanBeConsumed(t *testing.T) {
	t.Parallel()
	b := setup(t)
	var names []string
	for name := range mixtureSteps {
		names = append(names, name)
	}
	slices.Sort(names)
	names = append(names, "claim", "claim", "claim", "ack", "ack", "ack", "ack", "append", "transact", "wait")
	rapid.Check(t, func(rt *rapid.T) {
		b.exec(`UPDATE queen.queues SET deleted_at = now() WHERE deleted_at IS NULL`)
		m := &mixture{bench: b, T: rt, partitions: make(map[int64]uuid.UUID), subs: make(map[string]group.Ref)}
		placed, err := b.log.Ensure(b.Context(), []log.Key{{Tenant: queue.DefaultTenant, Queue: "q", Partition: "p0"}, {Tenant: queue.DefaultTenant, Queue: "q", Partition: "p1"}})
		m.must(err)
		for _, p := range placed {
			m.partitions[p.ID], m.ids = p.UID, append(m.ids, p.ID)
		}
		m.options()
		for _, step := range rapid.SliceOfN(rapid.SampledFrom(names), 15, 40).Draw(rt, "steps") {
			mixtureSteps[step](m, rapid.SampledFrom(mixtureGroups).Draw(rt, "group"))
			m.sound()
		}
		for _, name := range mixtureGroups {
			m.drain(name)
		}
	})
}
