package retention_test

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/google/uuid"

	"queen.internal/pkg/queue"
	"queen.internal/pkg/segment"
	"queen.internal/pkg/store/admin"
	"queen.internal/pkg/store/group"
	"queen.internal/pkg/store/log"
	"queen.internal/pkg/store/retention"
	"queen.internal/pkg/store/task"
)

// push appends one segment of so many messages and gives the partition.
func (b *bench) push(queueName, partition string, messages int) log.Partition {
	b.Helper()
	l := log.New(b.db.Pool)
	ids, err := l.Ensure(b.Context(), []log.Key{{Tenant: queue.DefaultTenant, Queue: queueName, Partition: partition}})
	if err != nil {
		b.Fatal(err)
	}
	run := log.Run{Partition: ids[0], Tag: time.Now().UnixNano()}
	var sent []segment.Message
	for range messages {
		m := segment.Message{ID: queue.NewID(), Payload: []byte("1")}
		m.TransactionID = m.ID.String()
		sent, run.Hashes = append(sent, m), append(run.Hashes, queue.TransactionHash(m.TransactionID))
	}
	if messages == 0 {
		return ids[0]
	}
	run.Segment = segment.Encode(sent)
	placed, err := l.Append(b.Context(), []log.Run{run}, log.AppendOptions{Wait: true})
	if err != nil || len(placed) != 1 || placed[0].Verdict != log.Appended {
		b.Fatal(placed, err)
	}
	return ids[0]
}

func (b *bench) subscribe(queueName, name string) group.Ref {
	b.Helper()
	sub, err := group.New(b.db.Pool).Subscribe(b.Context(), queue.DefaultTenant, queueName, name, group.Start{Mode: "all"})
	if err != nil {
		b.Fatal(err)
	}
	return sub.Ref
}

// take claims up to so many messages, and completes them unless they are to stay leased.
func (b *bench) consume(sub group.Ref, p log.Partition, batch int, complete bool) group.Claim {
	b.Helper()
	r, err := group.New(b.db.Pool).Claim(b.Context(), group.ClaimRequest{
		Subscription: sub, Partitions: []int64{p.ID}, Lease: uuid.New(), LeaseSeconds: 3600, Batch: batch, MaxBytes: 1 << 20, AtLeastOne: true, AutoAck: complete,
	})
	if err != nil || len(r.Claims) != 1 {
		b.Fatal(r, err)
	}
	return r.Claims[0]
}

func (b *bench) remove(queueName string) int64 {
	b.Helper()
	id := b.value(`SELECT id FROM queen.queues WHERE name = $1 AND deleted_at IS NULL`, queueName)
	if _, err := admin.New(b.db.Pool).Delete(b.Context(), queue.DefaultTenant, queueName); err != nil {
		b.Fatal(err)
	}
	return id
}

func (b *bench) doomed() []int64 {
	b.Helper()
	ids, err := b.store.Doomed(b.Context(), 10)
	if err != nil {
		b.Fatal(err)
	}
	return ids
}

func TestADeletedQueueIsReapedInSteps(t *testing.T) {
	t.Parallel()
	b := setup(t)
	for i := range 3 {
		for range 4 {
			b.push("q", fmt.Sprint("p", i), 2)
		}
	}
	b.consume(b.subscribe("q", "g"), b.push("q", "p0", 1), 3, false)
	b.exec(`INSERT INTO queen.dlq (id, queue_id, partition_id, message_offset, failed_at, created_at, retry_count, message_id, group_name, transaction_id, error, payload)
		SELECT gen_random_uuid(), queue_id, id, 0, now(), now(), 0, uid, 'g', 't', '', '' FROM queen.partitions`)
	id := b.remove("q")
	if got := b.doomed(); len(got) != 0 {
		t.Errorf("%v at once: a claim may be under way", got)
	}
	if n, ended, err := b.store.Reap(t.Context(), b.hold, id, 5); err != nil || n != 0 || !ended {
		t.Errorf("%d removed, ended %v, %v", n, ended, err)
	}
	b.exec(`UPDATE queen.queues SET deleted_at = deleted_at - interval '2 min'`)
	if got := b.doomed(); len(got) != 1 || got[0] != id {
		t.Fatalf("doomed %v, want %d", got, id)
	}

	// Meanwhile the name is used again; what is there now is nobody's business here.
	again := b.push("q", "p0", 3)
	old := b.hold
	b.hold = b.take()
	if _, _, err := b.store.Reap(t.Context(), old, id, 5); !errors.Is(err, task.ErrReplaced) {
		t.Errorf("who was replaced is told %v", err)
	}
	steps := 0
	for ended := false; !ended; steps++ {
		n, e, err := b.store.Reap(t.Context(), b.hold, id, 5)
		if err != nil || n > 5+5+3+3 || steps > 100 {
			t.Fatalf("step %d removed %d, %v", steps, n, err)
		}
		ended = e
	}
	if steps < 3 {
		t.Errorf("%d steps", steps)
	}
	for what, sql := range map[string]string{
		"partitions": `SELECT count(*) FROM queen.partitions WHERE id <> $1`, "segments": `SELECT count(*) FROM queen.segments WHERE partition_id <> $1`,
		"dedup rows": `SELECT count(*) FROM queen.dedup WHERE partition_id <> $1`, "cursors": `SELECT count(*) FROM queen.cursors WHERE partition_id <> $1`,
		"notes": `SELECT count(*) FROM queen.retained WHERE partition_id <> $1`, "dead letters": `SELECT count(*) FROM queen.dlq WHERE partition_id <> $1`,
		"registrations": `SELECT count(*) FROM queen.subscriptions WHERE $1 > 0`,
	} {
		if n := b.value(sql, again.ID); n != 0 {
			t.Errorf("%d %s are left", n, what)
		}
	}
	if n := b.value(`SELECT sum(end_offset - base_offset + 1) FROM queen.segments WHERE partition_id = $1`, again.ID); n != 3 {
		t.Errorf("%d messages of the new queue", n)
	}

	// The mark outlives it, for spools.
	deleted := func() int64 {
		return b.value(`SELECT count(*) FROM queen.spooled_queues(ARRAY[$1::uuid], ARRAY['q'], ARRAY[1000 * 3600]) WHERE deleted`, queue.DefaultTenant.String())
	}
	if n, err := b.store.ForgetDeletedQueues(t.Context(), b.hold, time.Hour, 10); err != nil || n != 0 || deleted() != 1 {
		t.Errorf("%d marks forgotten, %v", n, err)
	}
	b.exec(`UPDATE queen.queues SET deleted_at = deleted_at - interval '2 h'`)
	if n, err := b.store.ForgetDeletedQueues(t.Context(), b.hold, time.Hour, 10); err != nil || n != 1 {
		t.Errorf("%d marks forgotten, %v", n, err)
	}
}

func TestIdlePartitionsGo(t *testing.T) {
	t.Parallel()
	b := setup(t)
	kept := map[string]string{
		"messages": "", "hashes": "UPDATE queen.partitions SET log_start = last_offset + 1 WHERE id = $1",
		"a dead letter": `INSERT INTO queen.dlq SELECT gen_random_uuid(), queue_id, id, 0, now(), now(), 0, uid, 'g', 't', '', '' FROM queen.partitions WHERE id = $1`,
		"a spool":       `INSERT INTO queen.spool_marks SELECT gen_random_uuid(), $1, 1`,
		"a lease":       `INSERT INTO queen.cursors (subscription_id, partition_id, committed, batch_end, lease_id, lease_expires_at) SELECT s.id, $1, -1, 0, gen_random_uuid(), now() FROM queen.subscriptions s`,
		"youth":         `UPDATE queen.partitions SET created_at = now() WHERE id = $1`,
	}
	b.push("q", "gone", 0)
	b.subscribe("q", "g")
	b.exec(`UPDATE queen.partitions SET created_at = created_at - interval '1 day'`)
	for name, sql := range kept {
		messages := 0
		if name == "messages" || name == "hashes" {
			messages = 1
		}
		p := b.push("q", name, messages)
		b.exec(`UPDATE queen.partitions SET created_at = created_at - interval '1 day', last_created_at = last_created_at - interval '1 day' WHERE id = $1`, p.ID)
		if sql != "" {
			b.exec(sql, p.ID)
		}
	}
	b.exec(`DELETE FROM queen.segments g USING queen.partitions p WHERE p.id = g.partition_id AND p.log_start > g.end_offset`)
	removed := 0
	for ended := false; !ended; {
		n, e, err := b.store.RemoveIdlePartitions(t.Context(), b.hold, time.Hour, 2)
		if err != nil {
			t.Fatal(err)
		}
		removed, ended = removed+n, e
	}
	if left := b.value(`SELECT count(*) FROM queen.partitions`); removed != 1 || left != int64(len(kept)) || b.value(`SELECT count(*) FROM queen.partitions WHERE name = 'gone'`) != 0 {
		t.Errorf("%d removed, %d left", removed, left)
	}
	if n := b.value(`SELECT coalesce(sum(partitions), 0) FROM queen.retention_history`); n != 1 {
		t.Errorf("the history tells of %d", n)
	}
	if p := b.push("q", "gone", 1); b.consume(b.subscribe("q", "g"), p, 10, true).Verdict != group.Took {
		t.Error("the partition that took its place is not read from its start")
	}
}

func TestCursorsOfGroupsThatEndedGo(t *testing.T) {
	t.Parallel()
	b := setup(t)
	gone, kept := b.subscribe("q", "gone"), b.subscribe("q", "kept")
	for i := range 5 {
		p := b.push("q", fmt.Sprint("p", i), 1)
		b.consume(gone, p, 1, true)
		b.consume(kept, p, 1, true)
	}
	b.exec(`DELETE FROM queen.subscriptions WHERE id = $1`, gone.ID)
	total := 0
	for after := int64(0); after >= 0; {
		n, next, err := b.store.RemoveOrphanCursors(t.Context(), b.hold, after, 2)
		if err != nil || n > 2 {
			t.Fatal(n, err)
		}
		total, after = total+n, next
	}
	if n := b.value(`SELECT count(*) FROM queen.cursors WHERE subscription_id = $1`, kept.ID); total != 5 || n != 5 {
		t.Errorf("%d removed, %d of the other group left", total, n)
	}
}

func TestOldDeadLettersAndHistoryGo(t *testing.T) {
	t.Parallel()
	b := setup(t)
	p := b.push("q", "p", 1)
	b.exec(`INSERT INTO queen.dlq (id, queue_id, partition_id, message_offset, failed_at, created_at, retry_count, message_id, group_name, transaction_id, error, payload)
		SELECT gen_random_uuid(), queue_id, id, 0, now() - n * interval '1 h', now(), 0, uid, 'g', 't', '', '' FROM queen.partitions, generate_series(0, 4) n WHERE id = $1`, p.ID)
	b.exec(`INSERT INTO queen.retention_history SELECT 1, date_trunc('minute', now()) - n * interval '1 h', 1, 0, 0, 0, 0, 1 FROM generate_series(0, 4) n`)
	for _, want := range []int{2, 1, 0} {
		letters, err := b.store.ExpireDeadLetters(t.Context(), b.hold, 90*time.Minute, 2)
		rows, err2 := b.store.RemoveHistory(t.Context(), b.hold, 90*time.Minute, 2)
		if err != nil || err2 != nil || letters != want || rows != want {
			t.Errorf("%d letters and %d rows went, want %d, %v %v", letters, rows, want, err, err2)
		}
	}
}

// rules gives a queue rules and makes everything in it an hour old.
func (b *bench) rules(sql string) int64 {
	b.Helper()
	b.exec(`UPDATE queen.queues SET retention_enabled = true, ` + sql)
	b.exec(`UPDATE queen.segments SET created_at = created_at - interval '1 h'`)
	b.exec(`UPDATE queen.retained SET segments_since = segments_since - interval '1 h'`)
	return b.value(`SELECT id FROM queen.queues WHERE name = 'q'`)
}

func (b *bench) cut(queueID int64) retention.Cut {
	b.Helper()
	c, err := b.store.Cut(b.Context(), b.hold, queueID, retention.Position{}, 10)
	if err != nil {
		b.Fatal(err)
	}
	return c
}
