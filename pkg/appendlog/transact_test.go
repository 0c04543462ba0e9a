package appendlog_test

import (
	"context"
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"

	"queen.internal/pkg/appendlog"
	"queen.internal/pkg/pg"
	"queen.internal/pkg/pgtest"
	"queen.internal/pkg/queue"
	acks "queen.internal/pkg/store/group"
	"queen.internal/pkg/store/log"
)

// consumer is a database in which group g holds a lease on messages "1".."4" of partition "source".
type consumer struct {
	*testing.T
	pool      *pg.Pool
	log       *appendlog.Log
	groups    *acks.Store
	partition uuid.UUID
	lease     uuid.UUID
}

const sourceQueue = "orders.created.eu" // the one of group()

func newConsumer(t *testing.T, pool *pg.Pool) *consumer {
	t.Helper()
	c := &consumer{T: t, pool: pool, log: appendlog.New(log.New(pool), nil), groups: acks.New(pool)}
	mustAppend(t, c.log, group("source", "1", "2"), group("target", "there"))
	mustAppend(t, c.log, group("source", "3", "4"))
	c.lease, c.partition = c.claim("g", "source")
	return c
}

// claim leases all of a partition to a group.
func (c *consumer) claim(name, partition string) (lease, uid uuid.UUID) {
	c.Helper()
	sub, err := c.groups.Subscribe(c.Context(), queue.DefaultTenant, sourceQueue, name, acks.Start{Mode: "all"})
	if err != nil {
		c.Fatal(err)
	}
	ids, err := log.New(c.pool).Ensure(c.Context(), []log.Key{group(partition).Key})
	if err != nil {
		c.Fatal(err)
	}
	lease = queue.NewID()
	got, err := c.groups.Claim(c.Context(), acks.ClaimRequest{
		Subscription: sub.Ref, Partitions: []int64{ids[0].ID}, Lease: lease, LeaseSeconds: 600, Batch: 100, MaxBytes: 1 << 20, AtLeastOne: true,
	})
	if err != nil || len(got.Claims) != 1 || got.Claims[0].Verdict != acks.Took {
		c.Fatal(got, err)
	}
	return lease, got.Claims[0].PartitionUUID
}

// acking is acks of messages under the lease: `id` completed, or with a suffix as in the tests of acks.
func (c *consumer) acking(ids ...string) acks.BundleAck {
	a := acks.BundleAck{AckGroup: acks.AckGroup{Partition: c.partition, Lease: &c.lease}, Group: "g"}
	for i, id := range ids {
		signal := acks.Completed
		switch id[len(id)-1] {
		case '-':
			signal = acks.Failed
		case '!':
			signal = acks.DeadLetter
		}
		if signal != acks.Completed {
			id = id[:len(id)-1]
		}
		hash := queue.TransactionHash(id)
		a.Items = append(a.Items, acks.AckItem{Hash: &hash, Signal: signal, Reason: "because of " + id})
		a.Places = append(a.Places, int32(i))
	}
	return a
}

func transaction(groups []appendlog.Group, ack ...acks.BundleAck) *appendlog.Transaction {
	t := &appendlog.Transaction{
		ID: queue.NewID(), Tenant: queue.DefaultTenant, Fingerprint: []byte("f"), Groups: groups, Acks: ack,
		Clock: func() acks.Bounds { return acks.Bounds{} },
	}
	for i := range groups {
		for j := range groups[i].Messages {
			t.MessageIDs = append(t.MessageIDs, groups[i].Messages[j].ID)
		}
	}
	return t
}

func (c *consumer) transact(t *appendlog.Transaction) appendlog.Transacted {
	c.Helper()
	done, err := c.log.Transact(c.Context(), c.groups, t)
	if err != nil {
		c.Fatal(err)
	}
	return done
}

// state is every row that a transaction may write, but for queues and partitions.
func state(t *testing.T, pool *pg.Pool) (rows []string) {
	t.Helper()
	for _, table := range []string{"segments", "dedup", "cursors", "dlq", "transactions"} {
		found, err := pool.Query(t.Context(), fmt.Sprintf(`SELECT '%s ' || t::text FROM queen.%s t ORDER BY 1`, table, table))
		if err != nil {
			t.Fatal(err)
		}
		for found.Next() {
			var row string
			if err := found.Scan(&row); err != nil {
				t.Fatal(err)
			}
			rows = append(rows, row)
		}
		if err := found.Err(); err != nil {
			t.Fatal(err)
		}
	}
	return rows
}

func (c *consumer) committed(name string) (offset int64) {
	c.Helper()
	if err := c.pool.QueryRow(c.Context(), `SELECT c.committed FROM queen.cursors c JOIN queen.subscriptions s ON s.id = c.subscription_id
		JOIN queen.partitions p ON p.id = c.partition_id WHERE s.group_name = $1 AND p.name = 'source'`, name).Scan(&offset); err != nil {
		c.Fatal(err)
	}
	return offset
}

func (c *consumer) deadLetters() (found string) {
	c.Helper()
	if err := c.pool.QueryRow(c.Context(), `SELECT coalesce(string_agg(group_name || ' ' || transaction_id || ' ' || convert_from(payload, 'UTF8') || ' ' || error, ';'), '')
		FROM queen.dlq`).Scan(&found); err != nil {
		c.Fatal(err)
	}
	return found
}

func TestTransactCommitsAcksAndAppendsTogether(t *testing.T) {
	t.Parallel()
	c := newConsumer(t, pgtest.DB(t))
	other, _ := c.claim("h", "source")
	second := c.acking("4")
	second.Group, second.Lease, second.Places = "h", &other, []int32{7}
	targets := []appendlog.Group{group("target", "x", "y"), group("new", "z")}
	tx := transaction(targets, c.acking("1", "2-", "3"), second)
	tx.Acks[0].Places = []int32{4, 2, 0}
	done := c.transact(tx)
	r := done.Record
	if r == nil || done.Repeated || string(r.Fingerprint) != "f" {
		t.Fatalf("%+v", done)
	}
	if diff := cmp.Diff(tx.MessageIDs, r.MessageIDs); diff != "" {
		t.Error(diff)
	}
	outcomes := map[int32]acks.ItemOutcome{}
	for i, place := range r.AckPlaces {
		outcomes[place] = r.AckOutcomes[i]
		if r.AckDead[i] {
			t.Errorf("ack %d became a dead letter", place)
		}
	}
	if diff := cmp.Diff(map[int32]acks.ItemOutcome{0: 0, 2: 0, 4: 0, 7: 0}, outcomes); diff != "" {
		t.Error(diff)
	}
	if len(r.FreedPartitions) != 2 || r.FreedSubscriptions[0] == r.FreedSubscriptions[1] {
		t.Errorf("freed %v %v", r.FreedPartitions, r.FreedSubscriptions)
	}
	if g, h := c.committed("g"), c.committed("h"); g != 0 || h != 3 {
		t.Errorf("cursors at %d and %d", g, h)
	}
	for partition, want := range map[string][]string{"target": {"there", "x", "y"}, "new": {"z"}} {
		if diff := cmp.Diff(want, stored(t, c.pool, partition)); diff != "" {
			t.Error(diff)
		}
	}
	wantSoundLog(t, c.pool)
}

// Each cause alone undoes everything, wherever it stands among what would go through.
func TestTransactIsUndoneWhole(t *testing.T) {
	t.Parallel()
	wrong := queue.NewID()
	for name, tc := range map[string]struct {
		spoil func(c *consumer, tx *appendlog.Transaction)
		check func(d appendlog.Transacted) bool
	}{
		"StoredDuplicate": {func(_ *consumer, tx *appendlog.Transaction) {
			tx.Groups = append(tx.Groups, group("target", "t1", "there"))
		}, func(d appendlog.Transacted) bool {
			return len(d.Duplicates) == 1 && d.Duplicates[0].Group == 1 && d.Duplicates[0].Message == 1 && d.Duplicates[0].Original != uuid.Nil
		}},
		"NeverPushed": {func(c *consumer, tx *appendlog.Transaction) {
			tx.Acks[0] = c.acking("1", "never pushed")
		}, func(d appendlog.Transacted) bool { return len(d.Acks) == 1 && d.Acks[0].Items[1] == acks.Unresolvable }},
		"OnlyPushedHere": {func(c *consumer, tx *appendlog.Transaction) {
			tx.Groups = append(tx.Groups, group("source", "5"))
			tx.Acks[0] = c.acking("1", "5")
			tx.Acks[0].Lease = nil
		}, func(d appendlog.Transacted) bool { return d.Acks[0].Items[1] == acks.Unresolvable }},
		"AnotherLease": {func(_ *consumer, tx *appendlog.Transaction) {
			tx.Acks[0].Lease = &wrong
		}, func(d appendlog.Transacted) bool { return d.Acks[0].Items[0] == acks.StaleLease }},
		"ExpiredLease": {func(c *consumer, _ *appendlog.Transaction) {
			exec(c.T, c.pool, `UPDATE queen.cursors SET lease_expires_at = clock_timestamp()`)
		}, func(d appendlog.Transacted) bool { return d.Acks[0].Items[0] == acks.StaleLease }},
		"LeaseOnRecordNotAccepted": {func(_ *consumer, tx *appendlog.Transaction) {
			tx.Acks[0].Lease, tx.Accepted = &acks.LeaseOnRecord, []uuid.UUID{wrong}
		}, func(d appendlog.Transacted) bool { return d.Acks[0].Items[0] == acks.StaleLease }},
		"NoConsumer": {func(c *consumer, tx *appendlog.Transaction) {
			tx.Acks = append(tx.Acks, c.acking("1"))
			tx.Acks[1].Group = "nobody"
		}, func(d appendlog.Transacted) bool { return d.Acks[1].Outcome == acks.NoConsumer }},
		"UnknownPartition": {func(c *consumer, tx *appendlog.Transaction) {
			tx.Acks = append([]acks.BundleAck{c.acking("1")}, tx.Acks...)
			tx.Acks[0].Partition = wrong
		}, func(d appendlog.Transacted) bool { return d.Acks[0].Outcome == acks.UnknownPartition }},
		"AnotherTenantsPartition": {func(_ *consumer, tx *appendlog.Transaction) {
			tx.Tenant = wrong
		}, func(d appendlog.Transacted) bool { return d.Acks[0].Outcome == acks.UnknownPartition }},
		"DeadLetterThatCannotBeRead": {func(c *consumer, tx *appendlog.Transaction) {
			exec(c.T, c.pool, `DELETE FROM queen.segments`)
			tx.Acks[0] = c.acking("1!")
		}, func(d appendlog.Transacted) bool { return d.Acks[0].Outcome == acks.DeadLetterLost }},
		"MustSeal": {func(c *consumer, _ *appendlog.Transaction) {
			exec(c.T, c.pool, `UPDATE queen.queues SET encryption_enabled = true`)
		}, func(d appendlog.Transacted) bool { return len(d.MustSeal) == 1 && d.MustSeal[0] == 0 }},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := newConsumer(t, pgtest.DB(t))
			tx := transaction([]appendlog.Group{group("new", "n1", "n2")}, c.acking("1", "2-"))
			tc.spoil(c, tx)
			before := state(t, c.pool)
			d := c.transact(tx)
			if d.Record != nil || !tc.check(d) {
				t.Errorf("%+v", d)
			}
			if diff := cmp.Diff(before, state(t, c.pool)); diff != "" {
				t.Error(diff)
			}
			// What was undone holds nothing up: under the same id the sound part goes through.
			exec(t, c.pool, `UPDATE queen.cursors SET lease_expires_at = clock_timestamp() + interval '1 min'`)
			exec(t, c.pool, `UPDATE queen.queues SET encryption_enabled = false`)
			sound := transaction([]appendlog.Group{group("new", "n1", "n2")}, c.acking("2"))
			sound.ID = tx.ID
			if d := c.transact(sound); d.Record == nil || d.Repeated || c.committed("g") != 1 {
				t.Errorf("%+v", d)
			}
		})
	}
}

// An error inside the call, after everything was written, undoes everything as well.
func TestTransactIsUndoneByAnErrorOfTheDatabase(t *testing.T) {
	t.Parallel()
	c := newConsumer(t, pgtest.DB(t))
	exec(t, c.pool, `CREATE FUNCTION broken() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RAISE EXCEPTION 'broken' USING ERRCODE = '22P05'; END $$`)
	exec(t, c.pool, `CREATE TRIGGER broken BEFORE INSERT ON queen.transactions FOR EACH ROW EXECUTE FUNCTION broken()`)
	before := state(t, c.pool)
	_, err := c.log.Transact(t.Context(), c.groups, transaction([]appendlog.Group{group("target", "x")}, c.acking("1", "2!")))
	if queue.KindOf(err) != queue.KindInvalid {
		t.Errorf("%v", err)
	}
	if diff := cmp.Diff(before, state(t, c.pool)); diff != "" {
		t.Error(diff)
	}
}

func TestTransactFilesTheDeadLetterAndNeedsNoHashRows(t *testing.T) {
	t.Parallel()
	c := newConsumer(t, pgtest.DB(t))
	exec(t, c.pool, `DELETE FROM queen.dedup`)
	d := c.transact(transaction([]appendlog.Group{group("target", "x")}, c.acking("1", "3!")))
	if d.Record == nil || !d.Record.AckDead[0] || !d.Record.AckDead[1] {
		t.Fatalf("%+v", d)
	}
	if found := c.deadLetters(); found != `g 3 "3" because of 3` {
		t.Error(found)
	}
	if at := c.committed("g"); at != 2 {
		t.Errorf("the cursor is at %d", at)
	}
}

func TestTransactTakesTheLeaseOnRecord(t *testing.T) {
	t.Parallel()
	for name, accepted := range map[string]bool{"Any": false, "AmongAccepted": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := newConsumer(t, pgtest.DB(t))
			send := func(ids ...string) appendlog.Transacted {
				tx := transaction(nil, c.acking(ids...))
				tx.Acks[0].Lease = &acks.LeaseOnRecord
				if accepted {
					tx.Accepted = []uuid.UUID{queue.NewID(), c.lease}
				}
				return c.transact(tx)
			}
			if d := send("4"); d.Record == nil || len(d.Record.FreedPartitions) != 1 {
				t.Fatalf("%+v", d)
			}
			// Repeated, it meets the lease that the first one completed.
			if d := send("4"); d.Record == nil || d.Record.AckOutcomes[0] != acks.Noop {
				t.Errorf("%+v", d)
			}
		})
	}
}

// A queue that was deleted and created again has other partitions than those remembered.
func TestTransactFollowsAQueueThatWasCreatedAgain(t *testing.T) {
	t.Parallel()
	c := newConsumer(t, pgtest.DB(t))
	exec(t, c.pool, `UPDATE queen.queues SET deleted_at = clock_timestamp()`)
	if d := c.transact(transaction([]appendlog.Group{group("target", "there"), group("source", "1")})); d.Record == nil {
		t.Fatalf("%+v", d)
	}
	if diff := cmp.Diff([]string{"there"}, stored(t, c.pool, "target")); diff != "" {
		t.Error(diff)
	}
}

// The memory of hashes grows by transactions too, and vouches for what follows.
func TestTransactRemembersWhatItWrote(t *testing.T) {
	t.Parallel()
	c := newConsumer(t, pgtest.DB(t))
	before := c.log.Remembered()
	c.transact(transaction([]appendlog.Group{group("new", "a", "b")}))
	if n := c.log.Remembered() - before; n != 2 {
		t.Errorf("%d hashes remembered", n)
	}
	if d := c.transact(transaction([]appendlog.Group{group("new", "c", "a")})); len(d.Duplicates) != 1 {
		t.Errorf("%+v", d)
	}
	if d := c.transact(transaction([]appendlog.Group{group("new", "c")})); d.Record == nil {
		t.Errorf("%+v", d)
	}
	wantSoundLog(t, c.pool)
}

func TestTransactEndsWithItsContext(t *testing.T) {
	t.Parallel()
	c := newConsumer(t, pgtest.DB(t))
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := c.log.Transact(ctx, c.groups, transaction([]appendlog.Group{group("target", "x")})); queue.KindOf(err) != queue.KindUnavailable {
		t.Errorf("%v", err)
	}
}
