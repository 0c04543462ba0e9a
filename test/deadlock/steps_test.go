package deadlock_test

import (
	"errors"
	"fmt"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"queen.internal/pkg/queue"
	"queen.internal/pkg/segment"
	"queen.internal/pkg/store/group"
	"queen.internal/pkg/store/log"
	"queen.internal/pkg/store/state"
)

var all = group.Start{Mode: "all"}

func (w worker) start() group.Start {
	return []group.Start{all, {Mode: "new"}, {Mode: "from", From: time.Now().Add(-time.Second)}}[w.IntN(3)]
}

// runs is what an append would write, in several partitions of both queues; they are made if need be.
func (w worker) runs() ([]log.Run, []uuid.UUID, error) {
	var keys []log.Key
	for _, i := range w.Perm(queues * partitions)[:1+w.IntN(4)] {
		keys = append(keys, log.Key{Tenant: tenant, Queue: fmt.Sprint("q", i%queues), Partition: fmt.Sprint("p", i/queues)})
	}
	ids, err := w.log.Ensure(w.Context(), keys)
	var runs []log.Run
	var messages []uuid.UUID
	for _, id := range ids {
		run := log.Run{Partition: id, Tag: w.Int64()}
		var msgs []segment.Message
		for range 1 + w.IntN(4) {
			m := segment.Message{ID: queue.NewID(), Payload: []byte("1")}
			m.TransactionID = m.ID.String()
			messages = append(messages, m.ID)
			msgs, run.Hashes = append(msgs, m), append(run.Hashes, queue.TransactionHash(m.TransactionID))
		}
		run.Segment = segment.Encode(msgs)
		runs = append(runs, run)
	}
	return runs, messages, err
}

func (w worker) append() error {
	runs, _, err := w.runs()
	if err != nil {
		return err
	}
	_, err = w.log.Append(w.Context(), runs, log.AppendOptions{Wait: w.oneIn(2), CheckTags: w.oneIn(4)})
	return err
}

// spools are few, so that replays of the same one meet.
var spools = []uuid.UUID{{15: 1}, {15: 2}}

// replaySpool appends what lay in a spool, of which others replay or forget the same.
func (w worker) replaySpool() error {
	runs, _, err := w.runs()
	if err != nil {
		return err
	}
	if _, err := w.log.Waiting(w.Context(), []log.Queue{{Tenant: tenant, Name: "q0"}}, []time.Duration{time.Second}); err != nil {
		return err
	}
	var targets []log.Target
	for _, run := range runs {
		first := time.Now().UnixNano() // later than what is noted already, mostly
		targets = append(targets, log.Target{Partition: run.Partition, First: first, Last: first + 5})
	}
	_, err = w.log.AppendSpooled(w.Context(), spools[w.IntN(len(spools))], targets, runs, w.oneIn(4))
	return err
}

func (w worker) turnSwitch() error {
	offered := state.Switch{On: w.oneIn(2), Version: w.Int64N(1 << 40)}
	now, err := w.state.Offer(w.Context(), fmt.Sprint("switch ", w.IntN(2)), offered)
	if err == nil && now.Version < offered.Version {
		err = fmt.Errorf("version %d was offered and %d holds", offered.Version, now.Version)
	}
	return err
}

func (w worker) forgetSpool() error {
	return w.log.ForgetSpool(w.Context(), spools[w.IntN(len(spools))])
}

// request is a claim of what a group may find in a queue, in any order.
func (w worker) request(queueName, groupName string, lease uuid.UUID) (*group.ClaimRequest, error) {
	sub, err := w.contact(queueName, groupName, all)
	if err != nil {
		return nil, err
	}
	found, _, err := w.group.Find(w.Context(), []group.Search{{Subscription: sub.Ref}}, 10, group.Bounds{})
	if err != nil {
		return nil, err
	}
	var ids []int64
	for _, c := range found[0].Candidates {
		ids = append(ids, c.Partition)
	}
	w.Shuffle(len(ids), func(i, j int) { ids[i], ids[j] = ids[j], ids[i] })
	return &group.ClaimRequest{
		Subscription: sub.Ref, Partitions: ids, Lease: lease, LeaseSeconds: 1 + w.IntN(30), Batch: 1 + w.IntN(40), MaxBytes: 1 << 20,
		AtLeastOne: true, AutoAck: w.oneIn(8),
	}, nil
}

// claim makes one pop over both queues, some of whose spans are consumed.
func (w worker) claim() error {
	lease, name := queue.NewID(), w.groupName()
	for _, i := range w.Perm(queues) {
		req, err := w.request(fmt.Sprint("q", i), name, lease)
		if err != nil {
			return err
		}
		result, err := w.group.Claim(w.Context(), *req)
		if err != nil {
			return err
		}
		if err := w.keepTaken(result.Claims, req, name); err != nil {
			return err
		}
	}
	return nil
}

// keepTaken has others acknowledge what a claim took.
func (w worker) keepTaken(claims []group.Claim, req *group.ClaimRequest, name string) error {
	for i := range claims {
		if c := &claims[i]; c.Verdict == group.Took {
			if err := w.took(c, req.Subscription.ID, name, req.Lease); err != nil {
				return err
			}
		}
	}
	return nil
}

// took reads a span, so that others can acknowledge it.
func (w worker) took(c *group.Claim, subscription int64, name string, lease uuid.UUID) error {
	read, err := w.log.Read(w.Context(), []log.Span{{Partition: c.PartitionID, First: c.First, Last: c.Last}})
	if err != nil {
		return err
	}
	h := held{key: group.LeaseKey{Partition: c.PartitionID, Subscription: subscription}, group: name, partition: c.PartitionUUID, lease: lease, first: c.First, last: c.Last}
	for i := range read[0] {
		messages, err := read[0][i].Messages()
		if err != nil {
			return err
		}
		for offset, m := range messages {
			if at := read[0][i].Base + int64(offset); at >= c.First && at <= c.Last {
				h.keys = append(h.keys, m.TransactionID)
			}
		}
	}
	if len(h.keys) > 0 {
		w.keep(h)
	}
	return nil
}

// items acknowledges all of a span, or something of it with another signal.
func (w worker) items(h held) (items []group.AckItem) {
	stop := w.IntN(2 * len(h.keys))
	for i, key := range h.keys {
		hash := queue.TransactionHash(key)
		it := group.AckItem{Hash: &hash}
		if i == stop {
			it.Signal, it.Reason = []group.Signal{group.Retry, group.Failed, group.Failed, group.DeadLetter}[w.IntN(4)], "because"
		}
		items = append(items, it)
	}
	return items
}

// ackGroups is acks of several spans, in any order; one in a while is without a lease.
func (w worker) ackGroups(of []held) (acks []group.AckGroup) {
	seen := make(map[[2]uuid.UUID]bool)
	for _, h := range of {
		g := group.AckGroup{Partition: h.partition, Lease: &h.lease, Items: w.items(h)}
		if w.oneIn(5) {
			g.Lease = nil
		}
		key := [2]uuid.UUID{h.partition}
		if g.Lease != nil {
			key[1] = h.lease
		}
		if !seen[key] {
			seen[key] = true
			acks = append(acks, g)
		}
	}
	return acks
}

func (w worker) ack() error {
	acks := w.ackGroups(w.some(1 + w.IntN(5)))
	if len(acks) == 0 {
		return nil
	}
	_, err := w.group.Ack(w.Context(), tenant, w.groupName(), group.Bounds{}, acks)
	return err
}

// consume ends leases and claims in several queues and for several groups at once, in any order.
func (w worker) consume() error {
	var ends []group.Completion
	for _, h := range w.some(1 + w.IntN(5)) {
		ends = append(ends, group.Completion{Tenant: tenant, Cursor: h.key, Partition: h.partition, Lease: h.lease, First: h.first, Last: h.last})
	}
	var names []string
	var claims []*group.ClaimRequest
	for range w.IntN(4) {
		name := w.groupName()
		req, err := w.request(w.queueName(), name, queue.NewID())
		if err != nil {
			return err
		}
		names, claims = append(names, name), append(claims, req)
	}
	out, err := w.group.Consume(w.Context(), group.Bounds{}, ends, claims)
	if err != nil {
		return err
	}
	for i, req := range claims {
		result, err := w.group.Finish(w.Context(), req, out.Claims[i])
		if err != nil {
			return err
		}
		if err := w.keepTaken(result.Claims, req, names[i]); err != nil {
			return err
		}
	}
	return nil
}

// transact is acks of both groups and appends in one commit.
func (w worker) transact() error {
	runs, messages, err := w.runs()
	if err != nil {
		return err
	}
	b := &group.Bundle{ID: uuid.New(), Tenant: tenant, Fingerprint: []byte("f"), Runs: runs, MessageIDs: messages}
	place := int32(len(messages))
	spans := w.some(w.IntN(4))
	for _, name := range groups {
		var of []held
		for _, h := range spans {
			if h.group == name {
				of = append(of, h)
			}
		}
		for _, g := range w.ackGroups(of) {
			a := group.BundleAck{AckGroup: g, Group: name}
			for range g.Items {
				a.Places = append(a.Places, place)
				place++
			}
			b.Acks = append(b.Acks, a)
		}
	}
	for range 3 {
		result, err := w.group.Transact(w.Context(), b)
		if err != nil || result.State != group.Undone {
			return err
		}
		if supplied, err := w.group.Supply(w.Context(), b, &result); err != nil || !supplied {
			return err
		}
	}
	return nil
}

// leaseOf is a lease and the cursors that it may hold; without cursors all are searched.
func (w worker) leaseOf() (lease uuid.UUID, keys []group.LeaseKey, known bool) {
	of := w.some(1)
	if len(of) == 0 {
		return uuid.Nil, nil, false
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, h := range w.held {
		if h.lease == of[0].lease {
			keys = append(keys, h.key)
		}
	}
	if w.oneIn(3) {
		keys = nil
	}
	w.Shuffle(len(keys), func(i, j int) { keys[i], keys[j] = keys[j], keys[i] })
	return of[0].lease, keys, true
}

func (w worker) extend() error {
	lease, keys, known := w.leaseOf()
	if !known {
		return nil
	}
	_, err := w.group.Extend(w.Context(), tenant, lease, 1+w.IntN(30), group.Bounds{}, keys)
	return err
}

func (w worker) release() error {
	lease, keys, known := w.leaseOf()
	if !known {
		return nil
	}
	_, err := w.group.Release(w.Context(), tenant, lease, group.Bounds{}, keys)
	return err
}

// replay puts a dead letter, or none that is there any more, into some partition.
func (w worker) replay() error {
	letter := uuid.New()
	if err := w.pool.QueryRow(w.Context(), `SELECT id FROM queen.dlq ORDER BY random() LIMIT 1`).Scan(&letter); err != nil && !errors.Is(err, pgx.ErrNoRows) {
		return err
	}
	runs, _, err := w.runs()
	if err != nil {
		return err
	}
	run := &runs[0]
	m := segment.Message{ID: queue.NewID(), TransactionID: fmt.Sprint("dlq:", letter), Payload: []byte("1")}
	run.Segment, run.Hashes = segment.Encode([]segment.Message{m}), []uuid.UUID{queue.TransactionHash(m.TransactionID)}
	_, _, err = w.log.Replay(w.Context(), tenant, letter, run, w.oneIn(4))
	return err
}

// holds keep one row locked for some milliseconds: who waits for it holds what it has locked before. Without such a crowd
// two calls rarely meet between their locks. The row is chosen first and then locked by its key: a row that no longer
// qualifies when its lock comes would stay locked beside the next one.
var holds = []string{
	`WITH one AS MATERIALIZED (SELECT subscription_id AS s, partition_id AS p FROM queen.cursors WHERE lease_id IS NOT NULL ORDER BY random() LIMIT 1)
	SELECT pg_sleep(0.006) FROM (SELECT FROM queen.cursors c WHERE (c.subscription_id, c.partition_id) = (SELECT s, p FROM one) FOR NO KEY UPDATE OF c) l`,
	`WITH one AS MATERIALIZED (SELECT p.id FROM queen.partitions p JOIN queen.queues q ON q.id = p.queue_id AND q.deleted_at IS NULL ORDER BY random() LIMIT 1)
	SELECT pg_sleep(0.006) FROM (SELECT FROM queen.partitions p WHERE p.id = (SELECT id FROM one) FOR NO KEY UPDATE OF p) l`,
	`WITH one AS MATERIALIZED (SELECT id FROM queen.queues WHERE deleted_at IS NULL ORDER BY random() LIMIT 1)
	SELECT pg_sleep(0.003) FROM (SELECT FROM queen.queues q WHERE q.id = (SELECT id FROM one) FOR NO KEY UPDATE OF q) l`,
	`WITH one AS MATERIALIZED (SELECT id FROM queen.subscriptions ORDER BY random() LIMIT 1)
	SELECT pg_sleep(0.003) FROM (SELECT FROM queen.subscriptions s WHERE s.id = (SELECT id FROM one) FOR NO KEY UPDATE OF s) l`,
	`WITH one AS MATERIALIZED (SELECT id FROM queen.dlq ORDER BY random() LIMIT 1)
	SELECT pg_sleep(0.003) FROM (SELECT FROM queen.dlq d WHERE d.id = (SELECT id FROM one) FOR NO KEY UPDATE OF d) l`,
}

func (w worker) hold() error {
	_, err := w.pool.Exec(w.Context(), holds[w.IntN(len(holds)+3)%len(holds)])
	return err
}
