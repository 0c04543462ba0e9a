package group_test

import (
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"queen.internal/pkg/queue"
	"queen.internal/pkg/store/group"
)

// completion ends the lease of a claim.
func completion(sub group.Ref, lease uuid.UUID, c group.Claim) group.Completion {
	return group.Completion{
		Tenant: queue.DefaultTenant, Cursor: group.LeaseKey{Partition: c.PartitionID, Subscription: sub.ID}, Partition: c.PartitionUUID,
		Lease: lease, First: c.First, Last: c.Last,
	}
}

func (b *bench) consume(completions []group.Completion, claims ...*group.ClaimRequest) group.Consumed {
	b.Helper()
	out, err := b.group.Consume(b.Context(), group.Bounds{}, completions, claims)
	if err != nil {
		b.Fatal(err)
	}
	return out
}

func (b *bench) complete(completions ...group.Completion) []group.CompletionOutcome {
	b.Helper()
	return b.consume(completions).Completions
}

// cursor is all columns of a cursor's row, in the server's own words, but for the key and the time of its last lease.
func (b *bench) cursor(partition int64) string {
	b.Helper()
	var row string
	if err := b.pool.QueryRow(b.Context(), `SELECT (to_jsonb(c) - 'partition_id' - 'completed_lease_id' - 'leased_at')::text || (completed_lease_id IS NOT NULL)
		FROM queen.cursors c WHERE partition_id = $1`, partition).Scan(&row); err != nil {
		b.Fatal(err)
	}
	return row
}

// Whatever a cursor has behind it, a completion leaves it as the ack does that it stands for.
func TestConsumeCompletesAsAckDoes(t *testing.T) {
	t.Parallel()
	b := setup(t)
	acked, completed := b.push("acked", "1", "2", "3"), b.push("completed", "1", "2", "3")
	sub := b.subscribe("g", all)
	for step, before := range []func(partition int64){
		func(int64) {},
		func(partition int64) { // was delivered, expired and failed
			b.take(sub, 2, partition)
			b.expireLeases()
			lease, c := b.take(sub, 2, partition)
			b.ack("g", c, &lease, "3-")
		},
		func(partition int64) { // was nacked, and waits
			lease, c := b.take(sub, 3, partition)
			b.ack("g", c, &lease, fmt.Sprint(c.First+1)+"~")
			b.exec(`UPDATE queen.cursors SET not_before = clock_timestamp() - interval '1 h' WHERE partition_id = $1`, partition)
		},
	} {
		for _, partition := range []int64{acked, completed} {
			before(partition)
			lease, c := b.take(sub, 1, partition)
			if partition == acked {
				b.ack("g", c, &lease, fmt.Sprint(c.First+1))
			} else if got := b.complete(completion(sub, lease, c))[0]; (got == group.LeftBehind) != (c.Last < 2) || got == group.Undecided {
				t.Errorf("step %d: outcome %d after %d", step, got, c.Last)
			}
		}
		if diff := cmp.Diff(b.cursor(acked), b.cursor(completed)); diff != "" {
			t.Errorf("step %d: %s", step, diff)
		}
	}
	if left := b.candidates(sub); len(left) != 0 {
		t.Errorf("left: %v", left)
	}
}

func TestConsumeLeavesToAckWhatIsNotPlain(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]func(b *bench, sub group.Ref, c *group.Completion){
		"LeaseExpired":       func(b *bench, _ group.Ref, _ *group.Completion) { b.expireLeases() },
		"AnotherLease":       func(_ *bench, _ group.Ref, c *group.Completion) { c.Lease = uuid.New() },
		"AnotherTenant":      func(_ *bench, _ group.Ref, c *group.Completion) { c.Tenant = uuid.New() },
		"AnotherPartition":   func(_ *bench, _ group.Ref, c *group.Completion) { c.Partition = uuid.New() },
		"OtherEnd":           func(_ *bench, _ group.Ref, c *group.Completion) { c.Last++ },
		"OtherHead":          func(_ *bench, _ group.Ref, c *group.Completion) { c.First++ },
		"PartlyAcked":        func(b *bench, _ group.Ref, _ *group.Completion) { b.exec(`UPDATE queen.cursors SET committed = 0`) },
		"QueueDeleted":       func(b *bench, _ group.Ref, _ *group.Completion) { b.exec(`UPDATE queen.queues SET deleted_at = now()`) },
		"GroupDeleted":       func(b *bench, _ group.Ref, _ *group.Completion) { b.exec(`DELETE FROM queen.subscriptions`) },
		"CursorDoesNotExist": func(_ *bench, _ group.Ref, c *group.Completion) { c.Cursor.Subscription++ },
		"NothingOfTheOthers": func(_ *bench, _ group.Ref, c *group.Completion) { c.Cursor.Partition++ },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := setup(t)
			p := b.push("p", "1", "2", "3")
			b.push("other", "1", "2", "3")
			sub := b.subscribe("g", all)
			lease, claimed := b.take(sub, 2, p)
			c := completion(sub, lease, claimed)
			change(b, sub, &c)
			before := b.cursor(p)
			if got := b.complete(c); got[0] != group.Undecided {
				t.Errorf("outcome %d", got[0])
			}
			if diff := cmp.Diff(before, b.cursor(p)); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestConsumeWaitsForNoLock(t *testing.T) {
	t.Parallel()
	b := setup(t)
	locked, free := b.push("locked", "1", "2"), b.push("free", "1", "2")
	sub := b.subscribe("g", all)
	l1, c1 := b.take(sub, 1, locked)
	l2, c2 := b.take(sub, 1, free)
	tx, err := b.pool.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := tx.Exec(t.Context(), `SELECT FROM queen.cursors WHERE partition_id = $1 FOR UPDATE`, locked); err != nil {
		t.Fatal(err)
	}
	req := &group.ClaimRequest{Subscription: sub, Partitions: []int64{locked, free}, Lease: queue.NewID(), Batch: 9, MaxBytes: 1 << 20, AtLeastOne: true}
	out := b.consume([]group.Completion{completion(sub, l1, c1), completion(sub, l2, c2)}, req)
	if diff := cmp.Diff([]group.CompletionOutcome{group.Undecided, group.LeftBehind}, out.Completions); diff != "" {
		t.Error(diff)
	}
	// The claim comes after the completion and takes what that has freed.
	if c := out.Claims[0].Claims; len(c) != 2 || c[0].Verdict != group.Busy || c[1].Verdict != group.Took || c[1].First != 1 {
		t.Errorf("%+v", c)
	}
	if err := tx.Rollback(t.Context()); err != nil {
		t.Fatal(err)
	}
	if r := b.ack("g", c1, &l1, "1"); r.Items[0] != group.Applied || !r.LeaseReleased {
		t.Errorf("%+v", r)
	}
}

func TestConsumeRepeatedIsANoopForAck(t *testing.T) {
	t.Parallel()
	b := setup(t)
	p := b.push("p", "1", "2")
	sub := b.subscribe("g", all)
	lease, c := b.take(sub, 2, p)
	same := completion(sub, lease, c)
	if diff := cmp.Diff([]group.CompletionOutcome{group.Finished, group.Undecided}, b.complete(same, same)); diff != "" {
		if diff = cmp.Diff([]group.CompletionOutcome{group.Undecided, group.Finished}, b.complete(same, same)); diff != "" {
			t.Error(diff)
		}
	}
	if got := b.complete(same); got[0] != group.Undecided {
		t.Errorf("outcome %d", got[0])
	}
	if r := b.ack("g", c, &lease, "1", "2"); r.Items[0] != group.Noop || r.Items[1] != group.Noop || r.Committed != 1 {
		t.Errorf("%+v", r)
	}
}

func TestConsumeClaimsAreApart(t *testing.T) {
	t.Parallel()
	b := setup(t)
	p1, p2, p3 := b.push("1", "a", "b"), b.push("2", "c"), b.push("3", "d")
	g, h := b.subscribe("g", all), b.subscribe("h", all)
	for _, sub := range []group.Ref{g, h} { // their rows
		lease, claims := b.claim(sub, 9, p1, p2)
		for i := range claims {
			b.complete(completion(sub, lease, claims[i]))
		}
	}
	b.push("1", "e", "f")
	b.push("2", "g")
	want := func(sub group.Ref, batch int, partitions ...int64) *group.ClaimRequest {
		return &group.ClaimRequest{Subscription: sub, Partitions: partitions, Lease: queue.NewID(), LeaseSeconds: 9, Batch: batch, MaxBytes: 1 << 20, AtLeastOne: true}
	}
	reqs := []*group.ClaimRequest{want(g, 1, p2, p1), want(h, 9, p1), want(g, 9, p1, p2), want(h, 9, p3), want(g, 9, p3, p2)}
	reqs[1].AutoAck = true
	out := b.consume(nil, reqs...)
	var got []string
	for i, result := range out.Claims {
		finished, err := b.group.Finish(t.Context(), reqs[i], result)
		if err != nil {
			t.Fatal(err)
		}
		text := ""
		for _, c := range finished.Claims {
			text += fmt.Sprintf("%d:%d ", c.PartitionID-p1, c.Verdict)
			if c.Verdict == group.Took {
				text += fmt.Sprintf("%d..%d/%d ", c.First, c.Last, len(c.Segments))
			}
		}
		got = append(got, text)
	}
	if diff := cmp.Diff([]string{"0:1 2..2/1 ", "0:1 2..3/1 ", "0:3 1:1 1..1/1 ", "2:1 0..0/1 ", "1:3 2:1 0..0/1 "}, got); diff != "" {
		t.Error(diff)
	}
	var leases int
	if err := b.pool.QueryRow(t.Context(), `SELECT count(*) FROM queen.cursors WHERE lease_id = ANY ($1)`,
		[]uuid.UUID{reqs[0].Lease, reqs[2].Lease, reqs[3].Lease, reqs[4].Lease}).Scan(&leases); err != nil || leases != 4 {
		t.Errorf("%d leases (%v)", leases, err)
	}
}

// What is wrong with one call undoes the others, and says that each may be tried by itself.
func TestConsumeIsUndoneWhole(t *testing.T) {
	t.Parallel()
	b := setup(t)
	good, bad := b.push("good", "1"), b.push("bad", "1")
	sub := b.subscribe("g", all)
	l1, c1 := b.take(sub, 1, good)
	l2, c2 := b.take(sub, 1, bad)
	b.exec(`CREATE FUNCTION pg_temp_refuse() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RAISE EXCEPTION ''refused''; END'`)
	b.exec(fmt.Sprintf(`CREATE TRIGGER refuse BEFORE UPDATE ON queen.cursors FOR EACH ROW WHEN (NEW.partition_id = %d) EXECUTE FUNCTION pg_temp_refuse()`, bad))
	before := b.cursor(good)
	_, err := b.group.Consume(t.Context(), group.Bounds{}, []group.Completion{completion(sub, l1, c1), completion(sub, l2, c2)}, nil)
	if err == nil || !group.Refused(err) {
		t.Errorf("error %v", err)
	}
	if diff := cmp.Diff(before, b.cursor(good)); diff != "" {
		t.Error(diff)
	}
	if group.Refused(pgx.ErrTxClosed) || group.Refused(nil) {
		t.Error("an error that the server has not answered is no refusal")
	}
}
