package group_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"github.com/google/uuid"

	"queen.internal/pkg/pgtest"
	"queen.internal/pkg/queue"
	"queen.internal/pkg/store/group"
)

func (b *bench) find(limit int, searches ...group.Search) ([]group.Found, group.Snapshot) {
	b.Helper()
	found, snapshot, err := b.group.Find(b.Context(), searches, limit, group.Bounds{})
	if err != nil {
		b.Fatal(err)
	}
	return found, snapshot
}

// written sets when a partition was last written, back from now.
func (b *bench) written(partition int64, ago time.Duration) {
	b.Helper()
	b.exec(`UPDATE queen.partitions SET last_created_at = clock_timestamp() - make_interval(secs => $2) WHERE id = $1`, partition, ago.Seconds())
}

func partitions(found group.Found) []int64 {
	var ids []int64
	for _, c := range found.Candidates {
		ids = append(ids, c.Partition)
	}
	slices.Sort(ids)
	return ids
}

func TestFind_AnswersManyGroupsAtOnce(t *testing.T) {
	t.Parallel()
	b := setup(t)
	fresh, leased, consumed, old := b.push("fresh", "a"), b.push("leased", "b", "c"), b.push("consumed", "d"), b.push("old", "e")
	b.written(old, time.Hour)
	one, two := b.subscribe("one", all), b.subscribe("two", all)
	_, span := b.take(one, 1, leased)
	lease, done := b.take(one, 1, consumed)
	b.ack("one", done, &lease, "d")
	b.exec(`UPDATE queen.subscriptions SET moves = 3 WHERE id = $1`, two.ID)
	lost := group.Ref{ID: one.ID, UID: uuid.New()}

	since := time.Now().Add(-time.Minute)
	found, snapshot := b.find(100,
		group.Search{Subscription: one, From: group.WrittenSince(since), Since: since},
		group.Search{Subscription: lost},
		group.Search{Subscription: two},
		group.Search{Subscription: two, From: group.WrittenSince(time.Now().Add(time.Hour)), Known: []int64{old, fresh, 99}})

	byPartition := cmpopts.SortSlices(func(a, b group.Candidate) bool { return a.Partition < b.Partition })
	if d := cmp.Diff([]group.Candidate{{Partition: fresh}, {Partition: leased, Until: span.Until}}, found[0].Candidates, byPartition); d != "" {
		t.Errorf("of what was written lately (-want +got):\n%s", d)
	}
	if !found[1].Gone || found[0].Gone || found[2].Gone {
		t.Errorf("gone are %v %v %v", found[0].Gone, found[1].Gone, found[2].Gone)
	}
	if d := cmp.Diff([]int64{fresh, leased, consumed, old}, partitions(found[2])); d != "" || found[2].Moves != 3 || !found[2].End {
		t.Errorf("of all, moved %d times, at the end %v (-want +got):\n%s", found[2].Moves, found[2].End, d)
	}
	if d := cmp.Diff([]int64{fresh, old}, partitions(found[3])); d != "" {
		t.Errorf("of what is known (-want +got):\n%s", d)
	}
	if off := snapshot.Clock.Sub(snapshot.Asked); off < 0 || off > time.Minute || snapshot.Oldest == 0 || snapshot.Next < snapshot.Oldest {
		t.Errorf("the snapshot is %+v", snapshot)
	}
}

func TestFind_PassesOverWhatWasWrittenBefore(t *testing.T) {
	t.Parallel()
	b := setup(t)
	before, after := b.push("before", "a"), b.push("after", "b")
	sub := b.subscribe("g", all)
	// One step of writing holds both.
	b.exec(`UPDATE queen.partitions SET last_created_at = date_bin('15 s', now(), '2000-01-01 00:00:00+00') + make_interval(secs => id) WHERE id = ANY ($1)`, []int64{before, after})
	var since time.Time
	if err := b.pool.QueryRow(t.Context(), `SELECT last_created_at FROM queen.partitions WHERE id = $1`, after).Scan(&since); err != nil {
		t.Fatal(err)
	}
	found, _ := b.find(100, group.Search{Subscription: sub, From: group.WrittenSince(since), Since: since})
	if d := cmp.Diff([]int64{after}, partitions(found[0])); d != "" {
		t.Errorf("-want +got:\n%s", d)
	}
}

func TestFind_PagesMeetEveryPartitionOnce(t *testing.T) {
	t.Parallel()
	b := setup(t)
	sub := b.subscribe("g", all)
	var want []int64
	for i := range 10 {
		id := b.push(fmt.Sprint("p", i), fmt.Sprint(i))
		b.written(id, time.Duration(10-i)*4*time.Second) // several steps of writing, several in a step
		want = append(want, id)
	}
	since := time.Now().Add(-time.Hour)
	for name, from := range map[string]group.Position{"all": {}, "written lately": group.WrittenSince(since)} {
		var got []int64
		for pages := 0; ; pages++ {
			found, _ := b.find(3, group.Search{Subscription: sub, From: from, Since: since})
			got = append(got, partitions(found[0])...)
			if from = found[0].To; found[0].End {
				break
			}
			if pages > 10 {
				t.Fatalf("%s: no end", name)
			}
		}
		if d := cmp.Diff(want, got); d != "" {
			t.Errorf("%s (-want +got):\n%s", name, d)
		}
	}
	found, _ := b.find(1, group.Search{Subscription: sub, From: group.Position{}.Before(want[4])})
	if d := cmp.Diff(want[4:5], partitions(found[0])); d != "" {
		t.Errorf("from the fifth on (-want +got):\n%s", d)
	}
}

func TestFind_ATransactionUnderWayBoundsTheSnapshot(t *testing.T) {
	t.Parallel()
	b := setup(t)
	sub := b.subscribe("g", all)
	tx, err := b.pool.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = tx.Rollback(t.Context()) }() // after a commit it is no transaction any more
	var number int64
	if err := tx.QueryRow(t.Context(), `SELECT pg_current_xact_id()::text::bigint`).Scan(&number); err != nil {
		t.Fatal(err)
	}
	_, during := b.find(1, group.Search{Subscription: sub})
	if during.Oldest > number || during.Next <= number {
		t.Errorf("transaction %d is under way in %+v", number, during)
	}
	if err := tx.Commit(t.Context()); err != nil {
		t.Fatal(err)
	}
	if _, after := b.find(1, group.Search{Subscription: sub}); after.Next <= number {
		t.Errorf("transaction %d is to come in %+v", number, after)
	}
}

// An idle group's search must read as many pages with a hundred thousand partitions beside as with ten, also on a plan
// made while the tables were empty; and an append must stay a heap-only update for as long as the step of writing lasts.
func TestFind_CostDoesNotGrowWithPartitions(t *testing.T) {
	t.Parallel()
	pool := pgtest.DB(t)
	conn, err := pool.Acquire(t.Context()) // one session, so that its plans are from the beginning
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Release()
	m := &meter{T: t, conn: conn.Conn()}
	m.exec(`SET plan_cache_mode = force_generic_plan; SET enable_seqscan = off; SET jit = off`)
	m.exec(`SELECT * FROM queen.subscribe($1, 'q', 'g', 'all', NULL)`, [16]byte(queue.DefaultTenant))
	m.exec(`INSERT INTO queen.partitions (queue_id, name) SELECT 1, 'p' || g FROM generate_series(1, 10) g`)
	m.exec(`PREPARE search AS SELECT * FROM queen.find_candidates((SELECT array_agg(id) FROM queen.subscriptions), (SELECT array_agg(uid) FROM queen.subscriptions),
		ARRAY[now() - interval '5 s'], ARRAY[now() - interval '20 s'], ARRAY[0::bigint], 1000, ARRAY[1, 1], ARRAY[1::bigint, 2], NULL)`)
	const search = `EXECUTE search`
	for range 10 {
		m.pages(search)
	}
	small := m.pages(search)
	m.exec(`INSERT INTO queen.partitions (queue_id, name, last_offset, last_created_at) SELECT 1, 'p' || g, 5, now() - interval '1 day' FROM generate_series(11, 100000) g`)
	m.exec(`INSERT INTO queen.cursors (subscription_id, partition_id, committed) SELECT 1, g, 5 FROM generate_series(3, 100000) g`)
	if large := m.pages(search); large > small+20 {
		t.Errorf("a search reads %d pages beside a hundred thousand partitions, %d beside ten", large, small)
	}

	hot := func() (updates, heapOnly int64) {
		m.exec(`SELECT pg_stat_force_next_flush()`)
		if err := m.conn.QueryRow(t.Context(), `SELECT n_tup_upd, n_tup_hot_upd FROM pg_stat_user_tables WHERE relid = 'queen.partitions'::regclass`).Scan(&updates, &heapOnly); err != nil {
			t.Fatal(err)
		}
		return updates, heapOnly
	}
	const write = `UPDATE queen.partitions SET last_offset = last_offset + 1, last_created_at = $1 WHERE id = 1`
	step := time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)
	m.exec(write, step)
	before, heapOnlyBefore := hot()
	for i := range 10 {
		m.exec(write, step.Add(time.Duration(i)*time.Second))
	}
	if updates, heapOnly := hot(); updates-before != 10 || heapOnly-heapOnlyBefore != 10 {
		t.Errorf("%d of %d appends within one step of writing were heap-only", heapOnly-heapOnlyBefore, updates-before)
	}
}

func TestFind_SaysThatDeliveriesArePaused(t *testing.T) {
	t.Parallel()
	b := setup(t)
	id := b.push("p", "a")
	one, two := b.subscribe("one", all), b.subscribe("two", all)
	b.exec(`UPDATE queen.subscriptions SET paused_at = now() WHERE id = $1`, one.ID)
	found, _ := b.find(100, group.Search{Subscription: one, Known: []int64{id}}, group.Search{Subscription: two})
	if !found[0].Paused || len(found[0].Candidates) > 0 || found[1].Paused || len(found[1].Candidates) != 1 {
		t.Errorf("with a paused group: %+v", found)
	}
	b.exec(`UPDATE queen.queues SET paused_at = now()`)
	found, _ = b.find(100, group.Search{Subscription: two})
	if !found[0].Paused || len(found[0].Candidates) > 0 {
		t.Errorf("with a paused queue: %+v", found)
	}
}

func TestNames_TellsWhatExists(t *testing.T) {
	t.Parallel()
	b := setup(t)
	one, two := b.subscribe("one", all), b.subscribe("two", all)
	names, err := b.group.Names(t.Context(), []int64{one.ID, two.ID, 99})
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(map[int64]group.Name{one.ID: {Queue: "q", Group: "one"}, two.ID: {Queue: "q", Group: "two"}}, names); d != "" {
		t.Errorf("-want +got:\n%s", d)
	}
}
