package group_test

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/google/uuid"

	"queen.internal/pkg/queue"
	"queen.internal/pkg/store/group"
)

// seek seeks in the whole queue, in pages of limit, and returns how many cursors were placed.
func (b *bench) seek(name string, to *time.Time, limit int) (placed int) {
	b.Helper()
	seek, found, err := b.group.BeginSeek(b.Context(), queue.DefaultTenant, "q", name, to)
	if err != nil || !found {
		b.Fatal(found, err)
	}
	return b.finish(seek, limit)
}

func (b *bench) finish(seek group.Seek, limit int) (placed int) {
	b.Helper()
	for after, more := int64(0), true; more; {
		var n int
		var err error
		if after, n, more, err = b.group.SeekPage(b.Context(), seek, after, limit); err != nil {
			b.Fatal(err)
		}
		if n > limit {
			b.Errorf("a page of %d placed %d", limit, n)
		}
		placed += n
	}
	return placed
}

// stir gives everything that is kept about deliveries, in every cursor, a value that a fresh one does not have.
func (b *bench) stir() {
	b.Helper()
	var set string
	if err := b.pool.QueryRow(b.Context(), `SELECT string_agg(format('%I = %s', column_name, CASE data_type
			WHEN 'timestamp with time zone' THEN 'clock_timestamp() + interval ''1 h'''
			WHEN 'uuid' THEN 'gen_random_uuid()' ELSE 'committed + 1' END), ', ')
		FROM information_schema.columns WHERE table_schema = 'queen' AND table_name = 'cursors'
		AND column_name NOT IN ('subscription_id', 'partition_id', 'committed')`).Scan(&set); err != nil {
		b.Fatal(err)
	}
	b.exec(`UPDATE queen.cursors SET committed = 0, batch_end = NULL, lease_id = NULL, lease_expires_at = NULL`)
	b.exec(`UPDATE queen.cursors SET ` + set)
}

// fresh says whether a cursor is as a new one that stands there, whatever columns there are.
func (b *bench) fresh(sub group.Ref, partition, committed int64) (same bool, found string) {
	b.Helper()
	b.exec(`INSERT INTO queen.cursors (subscription_id, partition_id, committed) VALUES (-1, $1, $2)`, partition, committed)
	if err := b.pool.QueryRow(b.Context(), `SELECT to_jsonb(c) - 'subscription_id' = to_jsonb(d) - 'subscription_id', to_jsonb(c)::text
		FROM queen.cursors c, queen.cursors d
		WHERE c.subscription_id = $1 AND c.partition_id = $2 AND d.subscription_id = -1`, sub.ID, partition).Scan(&same, &found); err != nil {
		b.Fatal(err)
	}
	b.exec(`DELETE FROM queen.cursors WHERE subscription_id = -1`)
	return same, found
}

func (b *bench) committed(sub group.Ref, partition int64) (offset int64) {
	b.Helper()
	err := b.pool.QueryRow(b.Context(), `SELECT committed FROM queen.cursors WHERE subscription_id = $1 AND partition_id = $2`, sub.ID, partition).Scan(&offset)
	if err != nil {
		b.Fatal(err)
	}
	return offset
}

// Times against a walk over all segments: sizes, gaps in time and what retention removed differ.
func TestSeekByTimeFindsTheFirstSegmentThatIsNotOlder(t *testing.T) {
	t.Parallel()
	b := setup(t)
	r := rand.New(rand.NewPCG(5, 6))
	p, empty := b.push("p", "1"), b.push("empty")
	sub := b.subscribe("g", all)
	b.exec(`DELETE FROM queen.segments`)
	begin := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	last, at := int64(-1), begin
	for range 200 {
		n := 1 + r.Int64N(1000)
		if r.IntN(3) > 0 { // some share a time
			at = at.Add(time.Duration(1+r.IntN(500)) * time.Second)
		}
		b.exec(`INSERT INTO queen.segments VALUES ($1, $2, $3, $4, 1, 1, 0, '\x00')`, p, last+1, last+n, at)
		last += n
	}
	for _, removed := range []int{0, 60, 138, 1} {
		b.exec(`DELETE FROM queen.segments WHERE base_offset IN (SELECT base_offset FROM queen.segments ORDER BY base_offset LIMIT $1)`, removed)
		b.exec(`UPDATE queen.partitions SET last_offset = $2::bigint, log_start = (SELECT min(base_offset) FROM queen.segments WHERE partition_id = $1) WHERE id = $1`, p, last)
		times := []time.Time{begin.Add(-time.Hour), begin, at, at.Add(time.Microsecond), at.Add(time.Hour)}
		for range 40 {
			times = append(times, begin.Add(time.Duration(r.Int64N(int64(at.Sub(begin)/time.Second)+1))*time.Second))
		}
		for _, to := range times {
			var want int64
			if err := b.pool.QueryRow(t.Context(), `SELECT coalesce((SELECT min(base_offset) - 1 FROM queen.segments WHERE partition_id = $1 AND created_at >= $2), $3)`, p, to, last).Scan(&want); err != nil {
				t.Fatal(err)
			}
			if key, found, err := b.group.SeekPartition(t.Context(), queue.DefaultTenant, "q", "p", "g", &to); err != nil || !found || key.Partition != p || key.Subscription != sub.ID {
				t.Fatal(key, found, err)
			}
			if got := b.committed(sub, p); got != want {
				t.Errorf("%s after %d were removed: the cursor is at %d, want %d", to, removed, got, want)
			}
		}
	}
	if n := b.seek("g", &begin, 1); n != 2 || b.committed(sub, empty) != -1 {
		t.Errorf("%d placed, the empty partition is at %d", n, b.committed(sub, empty))
	}
}

func TestSeekForgetsEverythingAboutDeliveries(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.push("other", "1")
	p := b.push("p", "1", "2", "3")
	sub := b.subscribe("g", all)
	old, c := b.take(sub, 1, p)
	b.ack("g", c, &old, "1") // the last lease that was completed
	held, _ := b.take(sub, 2, p)
	epoch := time.Unix(0, 0)
	for committed, to := range map[int64]*time.Time{-1: &epoch, 2: nil} {
		if n := b.seek("g", to, 100); n != 2 {
			t.Errorf("%d placed", n)
		}
		for _, lease := range []uuid.UUID{held, old} {
			if r := b.ack("g", c, &lease, "1", "2", "3"); r.LeaseReleased || r.Items[0] != stale || r.Items[2] != stale {
				t.Errorf("an ack under a lease of before: %+v", r)
			}
		}
		b.stir()
		b.seek("g", to, 100)
		if same, found := b.fresh(sub, p, committed); !same {
			t.Errorf("the cursor is %s", found)
		}
	}
	var moves int
	if err := b.pool.QueryRow(t.Context(), `SELECT moves FROM queen.subscriptions`).Scan(&moves); err != nil || moves != 4 {
		t.Errorf("%d moves are noted, %v", moves, err)
	}
}

func TestSeekLeavesAlonePartitionsThatComeLater(t *testing.T) {
	t.Parallel()
	b := setup(t)
	var old []int64
	for i := range 7 {
		old = append(old, b.push(fmt.Sprint("p", i), "1"))
	}
	seek, _, err := b.group.BeginSeek(t.Context(), queue.DefaultTenant, "q", "g", nil) // the first contact
	if err != nil {
		t.Fatal(err)
	}
	young := b.push("young", "1")
	if got := b.candidates(seek.Ref); len(got) != 0 {
		t.Errorf("before the first page there is work in %v", got)
	}
	if n := b.finish(seek, 3); n != len(old) {
		t.Errorf("%d placed", n)
	}
	if got := b.candidates(b.subscribe("g", all)); len(got) != 1 || got[0] != young {
		t.Errorf("there is work in %v, want %d alone", got, young)
	}
	if n := b.seek("g", nil, 3); n != len(old)+1 {
		t.Errorf("%d placed by the next seek", n)
	}
}

func TestSeekInAPartitionIsKeptByALaterRegistration(t *testing.T) {
	t.Parallel()
	b := setup(t)
	p, other := b.push("p", "1", "2"), b.push("other", "1")
	if _, found, err := b.group.SeekPartition(t.Context(), queue.DefaultTenant, "q", "p", "g", nil); err != nil || !found {
		t.Fatal(found, err)
	}
	sub := b.subscribe("g", all)
	if got := b.candidates(sub); len(got) != 1 || got[0] != other || b.committed(sub, p) != 1 {
		t.Errorf("there is work in %v, the cursor is at %d", got, b.committed(sub, p))
	}
}

func TestSeekIsPerTenant(t *testing.T) {
	t.Parallel()
	b := setup(t)
	p := b.push("p", "1")
	sub := b.subscribe("g", all)
	stranger := queue.NewID()
	if _, found, err := b.group.BeginSeek(t.Context(), stranger, "q", "g", nil); found || err != nil {
		t.Error(found, err)
	}
	if _, found, err := b.group.SeekPartition(t.Context(), stranger, "q", "p", "g", nil); found || err != nil {
		t.Error(found, err)
	}
	if ended, err := b.group.Delete(t.Context(), stranger, "g", nil, false); len(ended) > 0 || err != nil {
		t.Error(ended, err)
	}
	if queues, err := b.group.ChangeSubscription(t.Context(), stranger, "g", time.Now()); len(queues) > 0 || err != nil {
		t.Error(queues, err)
	}
	var d group.Depth
	if _, _, found, err := b.group.AddDepth(t.Context(), &d, stranger, "q", nil, 0, 10, 10); found || err != nil {
		t.Error(found, err)
	}
	if got := b.candidates(sub); len(got) != 1 || got[0] != p {
		t.Errorf("there is work in %v", got)
	}
	var queues int
	if err := b.pool.QueryRow(t.Context(), `SELECT count(*) FROM queen.queues`).Scan(&queues); err != nil || queues != 1 {
		t.Errorf("%d queues, %v", queues, err)
	}
}
