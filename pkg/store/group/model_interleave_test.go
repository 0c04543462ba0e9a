package group_test

import (
	"fmt"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"github.com/google/uuid"
	"pgregory.net/rapid"

	"queen.internal/pkg/queue"
	"queen.internal/pkg/segment"
	"queen.internal/pkg/store/group"
	"queen.internal/pkg/store/log"
)

// The model says in plain Go what contract sections 2.5, 2.6 and 3.4 and the delivery limit say in words. Histories of up to two partitions and
// three groups are run against it and against the procedures; after each step answers and cursors must agree.

// modelPartition is one partition. Transaction ids are letters and repeat, because the queue has no window.
type modelPartition struct {
	id       int64
	uid      uuid.UUID
	messages []string
	ends     []int // offsets at which segments end
	logStart int
	cursors  map[string]*modelCursor
}

type modelCursor struct {
	Committed, BatchEnd int // BatchEnd -1: no span on record
	Lease, Completed    uuid.UUID
	Live                bool
	Head, Attempt       int // Head -1: none
	Retries             int
	DeliveredEnd, Alone int // DeliveredEnd -1: nothing
}

func newModelCursor(committed int) *modelCursor {
	return &modelCursor{Committed: committed, BatchEnd: -1, Head: -1, DeliveredEnd: -1}
}

type modelQueue struct {
	name       string
	retryLimit int
	limit      int // of deliveries
	partitions []*modelPartition
	groups     map[string]group.Ref // subscriptions
	leases     []uuid.UUID
	dead       []string
	deliveries map[string]int // by group, partition and offset, less those given back
}

func (c *modelCursor) release(committed int) {
	if committed >= c.BatchEnd {
		c.Attempt = 0
	}
	c.Committed, c.Completed = committed, c.Lease
	c.end()
}

// end ends what is on record of a delivery.
func (c *modelCursor) end() {
	c.DeliveredEnd = max(c.DeliveredEnd, c.BatchEnd)
	c.Lease, c.Live, c.BatchEnd = uuid.Nil, false, -1
}

// claim is the model's claim: the claims of all partitions that are tried. Heads that have used up the limit become dead
// letters; what is behind them is claimed if nothing else was.
func (q *modelQueue) claim(name string, lease uuid.UUID, batch, partitions int, autoAck bool) []group.Claim {
	claims, due := q.claimOnce(q.partitions, name, lease, batch, partitions, autoAck)
	for len(due) > 0 {
		for _, p := range due {
			c := p.cursors[name]
			first := max(c.Committed+1, p.logStart)
			q.dead = append(q.dead, fmt.Sprintf("%d %d %q %d", p.id, first, p.messages[first], c.Retries))
			c.end()
			c.Committed, c.Retries, c.Attempt, c.Alone = first, 0, 0, 0
		}
		if slices.ContainsFunc(claims, func(c group.Claim) bool { return c.Verdict == group.Took }) {
			break
		}
		var more []group.Claim
		more, due = q.claimOnce(due, name, lease, batch, partitions, autoAck)
		claims = append(claims, more...)
		slices.SortFunc(claims, func(a, b group.Claim) int { return int(a.PartitionID - b.PartitionID) })
	}
	return claims
}

func (q *modelQueue) claimOnce(
	candidates []*modelPartition, name string, lease uuid.UUID, batch, partitions int, autoAck bool,
) (claims []group.Claim, due []*modelPartition) {
	took := 0
	for _, p := range candidates {
		if batch <= 0 || partitions > 0 && took >= partitions {
			break
		}
		claim := group.Claim{PartitionID: p.id, Verdict: group.Empty}
		c, last := p.cursors[name], len(p.messages)-1
		switch {
		case c == nil && last < 0:
			claims = append(claims, claim)
			continue
		case c == nil:
			c = newModelCursor(-1)
			p.cursors[name] = c
		}
		first := max(c.Committed+1, p.logStart)
		attempt := 1
		if c.Head == first {
			attempt = c.Attempt + 1
		} else if q.limit > 0 && first <= max(c.DeliveredEnd, c.BatchEnd) {
			attempt = 2
		}
		again := q.limit > 0 && attempt > 1
		switch {
		case c.Live:
			claim.Verdict = group.Leased
		case first > last:
		case again && c.Head == first && c.Attempt >= q.limit && c.Alone > 0:
			due = append(due, p)
			continue
		case again && took > 0:
			claim.Verdict = group.Alone
		default:
			end := min(first+batch-1, last)
			if again {
				end = first
			}
			claim.Verdict, claim.Attempt, claim.First, claim.Last, claim.Alone = group.Took, attempt, int64(first), int64(end), again
			batch -= end - first + 1
			took++
			q.count(name, p, first, end, 1)
			c.take(first, end, lease, &claim, autoAck)
		}
		claims = append(claims, claim)
		if claim.Alone {
			break
		}
	}
	return claims, due
}

// take moves the cursor as a claim of first..end does.
func (c *modelCursor) take(first, end int, lease uuid.UUID, claim *group.Claim, autoAck bool) {
	alone := 0
	if claim.Alone && c.Head == first {
		alone = c.Alone
	}
	c.end()
	if autoAck {
		claim.Attempt = 1
		*c = modelCursor{Committed: end, BatchEnd: -1, Head: -1, Completed: c.Completed, DeliveredEnd: c.DeliveredEnd}
		return
	}
	if claim.Alone {
		alone++
	}
	c.BatchEnd, c.Lease, c.Live, c.Head, c.Attempt, c.Alone = end, lease, true, first, claim.Attempt, alone
}

func (q *modelQueue) count(name string, p *modelPartition, first, end, by int) {
	for offset := first; offset <= end; offset++ {
		q.deliveries[fmt.Sprint(name, " ", p.id, " ", offset)] += by
	}
}

// release is the model's give-back of a lease: the partitions that it held still, with nothing acked.
func (q *modelQueue) release(name string, lease uuid.UUID) (released []int64) {
	for _, p := range q.partitions {
		c := p.cursors[name]
		if c == nil || !c.Live || c.Lease != lease || c.Committed >= c.Head {
			continue
		}
		q.count(name, p, c.Head, c.BatchEnd, -1)
		c.Lease, c.Live, c.BatchEnd = uuid.Nil, false, -1
		c.Attempt, c.Alone = c.Attempt-1, max(c.Alone-1, 0)
		released = append(released, p.id)
	}
	return released
}

// find is the lowest offset of a transaction within first..last, or -1.
func (p *modelPartition) find(transaction string, first, last int) int {
	for i := max(first, 0); i <= min(last, len(p.messages)-1); i++ {
		if p.messages[i] == transaction {
			return i
		}
	}
	return -1
}

// ack is the model's ack of one group of items.
func (q *modelQueue) ack(name string, p *modelPartition, lease *uuid.UUID, items []modelItem) group.AckResult {
	c := p.cursors[name]
	if c == nil {
		return group.AckResult{Outcome: group.NoConsumer}
	}
	result := group.AckResult{Outcome: group.Decided}
	live := lease == nil || c.Live && c.Lease == *lease
	last := c.BatchEnd
	switch {
	case last >= 0:
	case live:
		last = len(p.messages) - 1
	default: // a lease that was completed says nothing of what comes after
		last = c.Committed
	}
	stop, signal, completed := -1, group.Completed, c.Committed
	var above []int
	for _, it := range items {
		offset, outcome := p.find(it.transaction, c.Committed+1, last), group.StaleLease
		switch {
		case !live && c.Completed != *lease:
		case offset >= 0 && live:
			outcome = group.Applied
		case offset >= 0:
		case p.find(it.transaction, 0, c.Committed) < 0:
			if live {
				outcome = group.Unresolvable
			}
		case it.signal == group.Completed:
			outcome = group.Noop
		default:
			outcome = group.AlreadyCommitted
		}
		result.Items, above = append(result.Items, outcome), append(above, offset)
		if outcome == group.Applied && it.signal != group.Completed &&
			(stop < 0 || offset < stop || offset == stop && it.signal > signal) {
			stop, signal = offset, it.signal
		}
	}
	for i, it := range items {
		if result.Items[i] == group.Applied && it.signal == group.Completed && (stop < 0 || above[i] < stop) {
			completed = max(completed, above[i])
		}
	}
	q.decide(p, c, &result, stop, signal, completed)
	return result
}

// decide moves the cursor: completions end at completed, the lowest other signal stands at stop.
func (q *modelQueue) decide(p *modelPartition, c *modelCursor, result *group.AckResult, stop int, signal group.Signal, completed int) {
	switch {
	case c.BatchEnd < 0 || stop < 0:
		if c.BatchEnd >= 0 && completed >= c.BatchEnd {
			result.LeaseReleased, c.Retries = true, 0
			c.release(completed)
		}
		c.Committed = completed
	case signal == group.DeadLetter || signal == group.Failed && c.Retries >= q.retryLimit:
		if stop < p.logStart {
			*result = group.AckResult{Outcome: group.DeadLetterLost}
			return
		}
		q.dead = append(q.dead, fmt.Sprintf("%d %d %q %d", p.id, stop, p.messages[stop], c.Retries))
		result.DeadLettered, result.LeaseReleased, c.Retries = true, true, 0
		c.release(stop)
	default:
		if signal == group.Failed {
			c.Retries++
		}
		result.LeaseReleased = true
		c.release(completed)
	}
	result.Committed = int64(c.Committed)
}

type modelItem struct {
	transaction string
	signal      group.Signal
}

// history is one run of the model beside the store.
type history struct {
	*bench
	*rapid.T
	q *modelQueue
}

var (
	modelGroups  = []string{"from the start", "from the start", "new", "pinned"}
	transactions = rapid.SampledFrom([]string{"a", "b", "c", "d", "e", "f"})
	signals      = rapid.SampledFrom([]group.Signal{
		group.Failed, group.Failed, group.Completed, group.Completed, group.Retry, group.DeadLetter,
	})
)

func (h *history) partition() *modelPartition {
	return rapid.SampledFrom(h.q.partitions).Draw(h.T, "partition")
}

func (h *history) provision(name string) *modelPartition {
	ids, err := h.log.Ensure(h.Context(), []log.Key{{Tenant: queue.DefaultTenant, Queue: h.q.name, Partition: name}})
	if err != nil {
		h.Fatal(err)
	}
	p := &modelPartition{id: ids[0].ID, cursors: make(map[string]*modelCursor)}
	if err := h.pool.QueryRow(h.Context(), `SELECT uid FROM queen.partitions WHERE id = $1`, p.id).Scan(&p.uid); err != nil {
		h.Fatal(err)
	}
	if _, err := h.pool.Exec(h.Context(), `UPDATE queen.queues SET dedup_window_seconds = 0, retry_limit = $2, delivery_limit = $3 WHERE name = $1`,
		h.q.name, h.q.retryLimit, h.q.limit); err != nil {
		h.Fatal(err)
	}
	h.q.partitions = append(h.q.partitions, p)
	return p
}

func (h *history) append(p *modelPartition, batch []string) {
	seen := make(map[string]bool)
	batch = slices.DeleteFunc(slices.Clone(batch), func(id string) bool { defer func() { seen[id] = true }(); return seen[id] })
	run := log.Run{Partition: log.Partition{ID: p.id, UID: p.uid}, Tag: int64(len(p.messages)) + 1}
	var msgs []segment.Message
	for _, id := range batch {
		msgs = append(msgs, segment.Message{ID: queue.NewID(), TransactionID: id, Payload: []byte(`"` + id + `"`)})
		run.Hashes = append(run.Hashes, queue.TransactionHash(id))
	}
	run.Segment = segment.Encode(msgs)
	placed, err := h.log.Append(h.Context(), []log.Run{run}, log.AppendOptions{Wait: true})
	if err != nil || len(placed) != 1 || placed[0].Verdict != log.Appended || placed[0].Base != int64(len(p.messages)) {
		h.Fatal(placed, err)
	}
	p.messages = append(p.messages, batch...)
	p.ends = append(p.ends, len(p.messages)-1)
}

// register is the first contact of a group, or a later one that must change nothing.
func (h *history) register(name string) {
	start := all
	if name == "new" {
		start = fresh
	}
	_, known := h.q.groups[name]
	if name == "pinned" {
		for _, p := range h.q.partitions {
			if p.cursors[name] == nil {
				p.cursors[name] = newModelCursor(-1)
			}
			var pinned string
			if err := h.pool.QueryRow(h.Context(), `SELECT name FROM queen.partitions WHERE id = $1`, p.id).Scan(&pinned); err != nil {
				h.Fatal(err)
			}
			found, ok, err := h.group.Pin(h.Context(), queue.DefaultTenant, h.q.name, pinned, name, start)
			if err != nil || !ok {
				h.Fatal(ok, err)
			}
			h.q.groups[name] = found.Ref
		}
		return
	}
	if known {
		start = []group.Start{all, fresh}[len(h.q.leases)%2]
	}
	sub, err := h.group.Subscribe(h.Context(), queue.DefaultTenant, h.q.name, name, start)
	if err != nil || known && sub.Ref != h.q.groups[name] {
		h.Fatal(sub, err)
	}
	h.q.groups[name] = sub.Ref
	if name == "new" && !known {
		for _, p := range h.q.partitions {
			p.cursors[name] = newModelCursor(len(p.messages) - 1)
		}
	}
}

func (h *history) claim(name string) {
	batch, partitions := rapid.IntRange(1, 5).Draw(h.T, "batch"), rapid.IntRange(0, 2).Draw(h.T, "partitions")
	autoAck := rapid.IntRange(0, 5).Draw(h.T, "autoAck") == 0
	req := group.ClaimRequest{
		Subscription: h.q.groups[name], Lease: queue.NewID(), LeaseSeconds: 600, Batch: batch, MaxPartitions: partitions,
		MaxBytes: 16 << 20, AtLeastOne: true, AutoAck: autoAck,
	}
	for _, p := range slices.Backward(h.q.partitions) {
		req.Partitions = append(req.Partitions, p.id)
	}
	want := h.q.claim(name, req.Lease, batch, partitions, autoAck)
	h.q.leases = append(h.q.leases, req.Lease)
	got, err := h.group.Claim(h.Context(), req)
	if err != nil {
		h.Fatal(err)
	}
	for i := range got.Claims {
		c := &got.Claims[i]
		got.Claims[i] = group.Claim{PartitionID: c.PartitionID, Verdict: c.Verdict, First: c.First, Last: c.Last, Attempt: c.Attempt, Alone: c.Alone}
	}
	if got.Err != nil {
		h.Fatal(got.Err)
	}
	if diff := cmp.Diff(want, got.Claims, cmpopts.EquateEmpty()); diff != "" {
		h.Fatalf("claim of %q: %s", name, diff)
	}
}

// release gives back a lease, mostly the last one.
func (h *history) release(name string) {
	if len(h.q.leases) == 0 {
		return
	}
	lease := h.q.leases[max(len(h.q.leases)-rapid.IntRange(1, 3).Draw(h.T, "lease"), 0)]
	var keys []group.LeaseKey
	for _, p := range h.q.partitions {
		keys = append(keys, group.LeaseKey{Partition: p.id, Subscription: h.q.groups[name].ID})
	}
	released, err := h.group.Release(h.Context(), queue.DefaultTenant, lease, group.Bounds{}, keys)
	if err != nil {
		h.Fatal(err)
	}
	var got []int64
	for _, key := range released {
		got = append(got, key.Partition)
	}
	slices.Sort(got)
	if diff := cmp.Diff(h.q.release(name, lease), got); diff != "" {
		h.Fatalf("release of %q: %s", name, diff)
	}
}

func (h *history) ack(name string) {
	p := h.partition()
	for _, leased := range h.q.partitions {
		if c := leased.cursors[name]; c != nil && c.Live && rapid.IntRange(0, 3).Draw(h.T, "leased") > 0 {
			p = leased
		}
	}
	c := p.cursors[name]
	lease := h.leaseFor(c)
	items := make([]modelItem, rapid.IntRange(1, 4).Draw(h.T, "items"))
	g := group.AckGroup{Partition: p.uid, Lease: lease}
	for i := range items {
		items[i] = modelItem{transactions.Draw(h.T, "transaction"), signals.Draw(h.T, "signal")}
		if c != nil && rapid.IntRange(0, 3).Draw(h.T, "within") > 0 && c.Committed+1+i < len(p.messages) {
			items[i].transaction = p.messages[c.Committed+1+i]
		}
		hash := queue.TransactionHash(items[i].transaction)
		g.Items = append(g.Items, group.AckItem{Hash: &hash, Signal: items[i].signal, Reason: "because"})
	}
	want := h.q.ack(name, p, lease, items)
	got, err := h.group.Ack(h.Context(), queue.DefaultTenant, name, group.Bounds{}, []group.AckGroup{g})
	if err != nil {
		h.Fatal(err)
	}
	got[0].SubscriptionID, got[0].PartitionID = 0, 0
	want.Last = int64(len(p.messages)) - 1
	if diff := cmp.Diff(want, got[0]); diff != "" {
		h.Fatalf("ack of %v by %q: %s", items, name, diff)
	}
}

// leaseFor is a lease to ack with, mostly the one on record.
func (h *history) leaseFor(c *modelCursor) *uuid.UUID {
	lease := uuid.Nil
	switch choice := rapid.SampledFrom([]string{"held", "held", "held", "held", "completed", "last", "none"}).Draw(h.T, "lease"); {
	case choice == "none":
		return nil
	case choice == "completed" && c != nil:
		lease = c.Completed
	case choice == "last" && len(h.q.leases) > 0:
		lease = h.q.leases[len(h.q.leases)-1]
	case c != nil:
		lease = c.Lease
	}
	if lease == uuid.Nil {
		return nil
	}
	return &lease
}

func (h *history) expire(name string) {
	p := h.partition()
	if c := p.cursors[name]; c != nil {
		c.Live = false
	}
	if _, err := h.pool.Exec(h.Context(), `UPDATE queen.cursors SET lease_expires_at = clock_timestamp() - interval '1 ms'
		WHERE subscription_id = $1 AND partition_id = $2 AND lease_id IS NOT NULL`, h.q.groups[name].ID, p.id); err != nil {
		h.Fatal(err)
	}
}

// extend renews the last lease: as many cursors as it still holds alive.
func (h *history) extend(name string) {
	if len(h.q.leases) == 0 {
		return
	}
	lease, want := h.q.leases[len(h.q.leases)-1], 0
	var keys []group.LeaseKey
	for _, p := range h.q.partitions {
		keys = append(keys, group.LeaseKey{Partition: p.id, Subscription: h.q.groups[name].ID})
		if c := p.cursors[name]; c != nil && c.Live && c.Lease == lease {
			want++
		}
	}
	got, err := h.group.Extend(h.Context(), queue.DefaultTenant, lease, 700, group.Bounds{}, keys)
	if err != nil || got.Renewed != want {
		h.Fatalf("extended %d cursors, not %d: %v", got.Renewed, want, err)
	}
}

// retain removes the oldest segments, as retention does.
func (h *history) retain() {
	p := h.partition()
	if len(p.ends) == 0 {
		return
	}
	p.logStart = p.ends[rapid.IntRange(0, len(p.ends)-1).Draw(h.T, "removed")] + 1
	if _, err := h.pool.Exec(h.Context(), `WITH removed AS (DELETE FROM queen.segments WHERE partition_id = $1 AND end_offset < $2)
		UPDATE queen.partitions SET log_start = $2 WHERE id = $1`, p.id, p.logStart); err != nil {
		h.Fatal(err)
	}
	p.ends = slices.DeleteFunc(p.ends, func(end int) bool { return end < p.logStart })
}

// agree compares every cursor and, for the groups that have no missing row, the candidates.
func (h *history) agree() {
	for message, n := range h.q.deliveries {
		if h.q.limit > 0 && n > h.q.limit {
			h.Fatalf("%s was delivered %d times, the limit is %d", message, n, h.q.limit)
		}
	}
	for name, sub := range h.q.groups {
		rows, err := h.pool.Query(h.Context(), `SELECT partition_id, committed, coalesce(batch_end, -1), coalesce(head_offset, -1), attempt, retry_count,
			lease_id, completed_lease_id, coalesce(lease_expires_at > clock_timestamp(), false), coalesce(delivered_end, -1), alone
			FROM queen.cursors WHERE subscription_id = $1`, sub.ID)
		if err != nil {
			h.Fatal(err)
		}
		got, want := make(map[int64]modelCursor), make(map[int64]modelCursor)
		for rows.Next() {
			var id int64
			var c modelCursor
			var lease, completed *uuid.UUID
			if err := rows.Scan(&id, &c.Committed, &c.BatchEnd, &c.Head, &c.Attempt, &c.Retries, &lease, &completed, &c.Live, &c.DeliveredEnd, &c.Alone); err != nil {
				h.Fatal(err)
			}
			if lease != nil {
				c.Lease = *lease
			}
			if completed != nil {
				c.Completed = *completed
			}
			got[id] = c
		}
		if err := rows.Err(); err != nil {
			h.Fatal(err)
		}
		var claimable []int64
		for _, p := range h.q.partitions {
			c := p.cursors[name]
			if c != nil {
				want[p.id] = *c
			} else {
				c = &modelCursor{Committed: -1}
			}
			if max(c.Committed+1, p.logStart) < len(p.messages) && !c.Live {
				claimable = append(claimable, p.id)
			}
		}
		if diff := cmp.Diff(want, got); diff != "" {
			h.Fatalf("cursors of %q: %s", name, diff)
		}
		candidates, err := takeable(h.Context(), h.group, sub)
		if err != nil {
			h.Fatal(err)
		}
		for _, id := range claimable {
			if !slices.Contains(candidates, id) {
				h.Fatalf("partition %d has work for %q and is no candidate", id, name)
			}
		}
	}
}

func TestClaimsAndAcksFollowTheModel(t *testing.T) {
	t.Parallel()
	b := setup(t)
	runs := 0
	rapid.Check(t, func(rt *rapid.T) {
		runs++
		h := &history{bench: b, T: rt, q: &modelQueue{name: fmt.Sprint("q", runs), groups: make(map[string]group.Ref), deliveries: make(map[string]int)}}
		h.q.retryLimit, h.q.limit = rapid.IntRange(0, 2).Draw(rt, "retryLimit"), rapid.SampledFrom([]int{0, 2, 3}).Draw(rt, "deliveryLimit")
		h.append(h.provision("p0"), []string{"a", "b", "c"})
		// Most steps take work and give it back, so that retries, dead letters and renewals come about in short histories.
		steps := rapid.SliceOfN(rapid.SampledFrom([]string{
			"append", "register", "claim", "claim", "claim", "ack", "ack", "ack", "ack", "expire", "expire", "extend", "release", "retain", "provision",
		}), 12, 24).Draw(rt, "steps")
		for _, step := range steps {
			name := rapid.SampledFrom(modelGroups).Draw(rt, "group")
			if _, registered := h.q.groups[name]; !registered {
				h.register(name)
			}
			switch step {
			case "append":
				h.append(h.partition(), rapid.SliceOfN(transactions, 1, 4).Draw(rt, "transactions"))
			case "register":
				h.register(name)
			case "claim":
				h.claim(name)
			case "ack":
				h.ack(name)
			case "expire":
				h.expire(name)
			case "extend":
				h.extend(name)
			case "release":
				h.release(name)
			case "retain":
				h.retain()
			case "provision":
				if len(h.q.partitions) < 2 {
					h.provision("p1")
				}
			}
			h.agree()
		}
		if diff := cmp.Diff(h.q.dead, h.deadOf()); diff != "" {
			rt.Fatalf("dead letters: %s", diff)
		}
	})
}

// deadOf is the dead letters of the history's queue, in the order in which they were filed.
func (h *history) deadOf() []string {
	rows, err := h.pool.Query(h.Context(), `SELECT d.partition_id, d.message_offset, d.transaction_id, d.retry_count
		FROM queen.dlq d JOIN queen.queues q ON q.id = d.queue_id WHERE q.name = $1 ORDER BY d.failed_at, d.partition_id`, h.q.name)
	if err != nil {
		h.Fatal(err)
	}
	defer rows.Close()
	var found []string
	for rows.Next() {
		var partition, offset int64
		var transaction string
		var retries int
		if err := rows.Scan(&partition, &offset, &transaction, &retries); err != nil {
			h.Fatal(err)
		}
		found = append(found, fmt.Sprintf("%d %d %q %d", partition, offset, transaction, retries))
	}
	return found
}
