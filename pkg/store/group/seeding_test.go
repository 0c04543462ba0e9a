package group_test

import (
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"queen.internal/pkg/queue"
	"queen.internal/pkg/store/admin"
	"queen.internal/pkg/store/group"
	"queen.internal/pkg/testkit"
)

// paged is the bench with registrations of so many cursors a call.
func (b *bench) paged(n int) *bench {
	paged := *b
	paged.group = b.group.SeedBy(n)
	return &paged
}

// contact is one call of a registration. Without a number, the group is not registered yet, and told is how far it is.
func (b *bench) contact(name string, start group.Start) (sub group.Ref, told group.Seeding) {
	b.Helper()
	made, err := b.group.Subscribe(b.Context(), queue.DefaultTenant, "q", name, start)
	var seeding *group.Seeding
	switch {
	case errors.As(err, &seeding):
		told = *seeding
		if made.ID != 0 || queue.KindOf(err) != queue.KindUnavailable {
			b.Fatalf("%+v, %v", made, err)
		}
	case err != nil:
		b.Fatal(err)
	}
	return made.Ref, told
}

// register makes calls until the group is registered, and says how many those were.
func (b *bench) register(name string, start group.Start) (sub group.Ref, calls int) {
	b.Helper()
	for {
		calls++
		if sub, _ = b.contact(name, start); sub.ID != 0 {
			return sub, calls
		}
	}
}

// fill makes n partitions of two messages each.
func (b *bench) fill(n int) (ids []int64) {
	b.Helper()
	for i := range n {
		ids = append(ids, b.push(fmt.Sprint("p", i), fmt.Sprint("a", i), fmt.Sprint("b", i)))
	}
	return ids
}

// cursors is where a group stands, by partition.
func (b *bench) cursors(name string) map[int64]int64 {
	b.Helper()
	rows, err := b.pool.Query(b.Context(), `SELECT c.partition_id, c.committed FROM queen.cursors c JOIN queen.subscriptions s ON s.id = c.subscription_id
		WHERE s.group_name = $1`, name)
	if err != nil {
		b.Fatal(err)
	}
	defer rows.Close()
	at := make(map[int64]int64)
	for rows.Next() {
		var partition, committed int64
		if err := rows.Scan(&partition, &committed); err != nil {
			b.Fatal(err)
		}
		at[partition] = committed
	}
	if err := rows.Err(); err != nil {
		b.Fatal(err)
	}
	return at
}

func TestSeeding_ComesInPagesToWhatOneCallComesTo(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.fill(4)
	between := time.Now()
	if err := b.pool.QueryRow(t.Context(), `SELECT clock_timestamp()`).Scan(&between); err != nil {
		t.Fatal(err)
	}
	for i := range 3 {
		b.push(fmt.Sprint("p", 2*i), fmt.Sprint("c", i))
	}
	b.push("p9")
	for name, start := range map[string]group.Start{"new": fresh, "from": {From: between}, "all": all} {
		b.register("at once "+name, start)
		var told []group.Seeding
		for {
			sub, far := b.paged(2).contact("in pages "+name, start)
			if sub.ID != 0 {
				break
			}
			told = append(told, far)
		}
		if d := cmp.Diff(b.cursors("at once "+name), b.cursors("in pages "+name)); d != "" {
			t.Errorf("%s (-at once +in pages):\n%s", name, d)
		}
		want := []group.Seeding{{Done: 2}, {Done: 4, Of: 6}}
		if name == "all" {
			want = nil
		}
		if d := cmp.Diff(want, told); d != "" {
			t.Errorf("%s: progress (-want +got):\n%s", name, d)
		}
	}
}

func TestSeeding_NobodyTakesMeanwhile(t *testing.T) {
	t.Parallel()
	b := setup(t).paged(2)
	old := b.fill(5)
	if sub, _ := b.contact("g", fresh); sub.ID != 0 {
		t.Fatal("it is registered")
	}
	// Whoever knows the subscription all the same: from a timeline on which the registration had come further.
	var known group.Ref
	if err := b.pool.QueryRow(t.Context(), `SELECT id, uid FROM queen.subscriptions`).Scan(&known.ID, &known.UID); err != nil {
		t.Fatal(err)
	}
	young := b.push("young", "1")
	_, claims := b.claim(known, 100, append(slices.Clone(old), young)...)
	b.want("claims", verdicts(claims), group.Empty, group.Empty, group.Gone, group.Gone, group.Gone, group.Took)
	if found, _ := b.find(100, group.Search{Subscription: known}); !found[0].Gone {
		t.Errorf("a search finds %+v", found[0])
	}
	var d group.Depth
	if _, _, _, err := b.group.AddDepth(t.Context(), &d, queue.DefaultTenant, "q", new("g"), 0, 100, 0); err != nil || d.Pending != 1 {
		t.Errorf("%d are pending for a group that skips what is there, %v", d.Pending, err)
	}
	if sub, _ := b.register("g", all); sub != known {
		t.Errorf("%v is registered, not %v", sub, known)
	}
	for _, p := range old {
		if at := b.committed(known, p); at != 1 {
			t.Errorf("partition %d: the group begins after %d", p, at)
		}
	}
}

func TestSeeding_WhatIsPushedAfterItIsDelivered(t *testing.T) {
	t.Parallel()
	b := setup(t).paged(2)
	old := b.fill(5)
	b.contact("g", fresh)
	b.push("p0", "behind the page") // must be delivered: its cursor is there
	b.push("p4", "before the page") // may be
	young := b.push("young", "1")
	sub, _ := b.register("g", fresh)
	after := b.push("p4", "after")
	_, claims := b.claim(sub, 100, append(slices.Clone(old), young)...)
	b.want("claims", verdicts(claims), group.Took, group.Empty, group.Empty, group.Empty, group.Took, group.Took)
	if claims[0].First != 2 || claims[4].Last != 3 || claims[4].PartitionID != after || claims[5].First != 0 {
		t.Errorf("%+v", claims)
	}
}

func TestSeeding_GoesOnWhereAKilledSessionHadCome(t *testing.T) {
	t.Parallel()
	b, slow := two(t)
	b, slow = b.paged(2), slow.paged(2)
	b.fill(7)
	slow.contact("g", fresh)
	testkit.Brake(t, b.pool, "slow", "AFTER INSERT", "queen.cursors")
	done := make(chan error, 1)
	go func() {
		_, err := slow.group.Subscribe(t.Context(), queue.DefaultTenant, "q", "g", fresh)
		done <- err
	}()
	testkit.AwaitBlocked(t, b.pool, "slow")
	b.exec(`SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'slow' AND datname = current_database()`)
	if err := <-done; queue.KindOf(err) != queue.KindUnavailable || errors.As(err, new(*group.Seeding)) {
		t.Errorf("the session that was killed: %v", err)
	}
	if at := b.cursors("g"); len(at) != 2 {
		t.Fatalf("cursors %v", at)
	}
	if _, calls := b.register("g", all); calls != 3 || len(b.cursors("g")) != 7 {
		t.Errorf("after %d calls there are %v", calls, b.cursors("g"))
	}
}

func TestSeeding_ManyAtOnce(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.fill(40)
	others := []*bench{b.bystander(b.config(), "one").paged(3), b.bystander(b.config(), "two").paged(3), b.bystander(b.config(), "three").paged(3)}
	subs := make([]group.Ref, len(others))
	var running sync.WaitGroup
	for i, other := range others {
		running.Go(func() {
			for {
				sub, err := other.group.Subscribe(t.Context(), queue.DefaultTenant, "q", "g", fresh)
				if err == nil {
					subs[i] = sub.Ref
					return
				}
				if !errors.As(err, new(*group.Seeding)) {
					t.Error(err)
					return
				}
			}
		})
	}
	running.Wait()
	if subs[0] != subs[1] || subs[1] != subs[2] || subs[0].ID == 0 {
		t.Errorf("registered as %v", subs)
	}
	at := b.cursors("g")
	for partition, committed := range at {
		if committed != 1 {
			t.Errorf("partition %d: the group begins after %d", partition, committed)
		}
	}
	if len(at) != 40 {
		t.Errorf("%d cursors", len(at))
	}
}

func TestSeeding_EndsWithItsGroupOrItsQueue(t *testing.T) {
	t.Parallel()
	for name, end := range map[string]func(b *bench) error{
		"the queue": func(b *bench) error {
			_, err := admin.New(b.pool).Delete(b.Context(), queue.DefaultTenant, "q")
			return err
		},
		"the group": func(b *bench) error {
			_, err := b.group.Delete(b.Context(), queue.DefaultTenant, "g", nil, false)
			return err
		},
		"its positions": func(b *bench) error {
			_, err := b.group.Delete(b.Context(), queue.DefaultTenant, "g", nil, true)
			return err
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := setup(t).paged(2)
			b.fill(5)
			b.contact("g", fresh)
			if err := end(b); err != nil {
				t.Fatal(err)
			}
			there := true
			var err error
			for again := true; again; again = errors.As(err, new(*group.Seeding)) {
				_, there, err = b.group.Rejoin(t.Context(), queue.DefaultTenant, "q", "g", fresh)
			}
			if there != (name != "the queue") || err != nil {
				t.Errorf("there is a queue: %v, %v", there, err)
			}
			sub, calls := b.register("g", fresh)
			want, cursors := 0, 0 // to be had, and written
			switch name {
			case "the queue":
				cursors = 2 // of the old one
			case "the group":
				cursors = 5
			case "its positions":
				want = 5
			}
			if got := b.candidates(sub); len(got) != want || len(b.cursors("g")) != cursors || calls != 1 {
				t.Errorf("%d partitions have work, %d cursors, %d calls", len(got), len(b.cursors("g")), calls)
			}
		})
	}
}

func TestSeeding_WaitsForNobodyButItsOwnPages(t *testing.T) {
	t.Parallel()
	b, slow := two(t)
	b, slow = b.paged(2), slow.paged(2)
	b.fill(5)
	slow.contact("g", fresh)
	release := testkit.Brake(t, b.pool, "slow", "AFTER INSERT", "queen.cursors")
	page := make(chan error, 1)
	go func() {
		_, err := slow.group.Subscribe(t.Context(), queue.DefaultTenant, "q", "g", fresh)
		page <- err
	}()
	testkit.AwaitBlocked(t, b.pool, "slow")
	b.push("made meanwhile", "1") // takes the queue's lock
	other := b.bystander(b.config(), "other").paged(100)
	second := other.subscribing(fresh)
	testkit.AwaitBlocked(t, b.pool, "other")
	release()
	var seeding *group.Seeding
	if err := <-page; !errors.As(err, &seeding) || *seeding != (group.Seeding{Done: 4, Of: 5}) {
		t.Errorf("the page: %v", err)
	}
	if sub := <-second; sub.ID == 0 || len(b.cursors("g")) != 5 {
		t.Errorf("%v, cursors %v", sub, b.cursors("g"))
	}
}

func TestSeeding_OfASubscriptionThatIsChangedKeepsItsStart(t *testing.T) {
	t.Parallel()
	b := setup(t).paged(2)
	b.fill(5)
	b.contact("g", fresh)
	if queues, err := b.group.ChangeSubscription(t.Context(), queue.DefaultTenant, "g", time.Unix(0, 0)); err != nil || len(queues) != 1 {
		t.Fatal(queues, err)
	}
	sub, _ := b.register("g", all)
	if got := b.candidates(sub); len(got) != 0 {
		t.Errorf("there is work in %v", got)
	}
}

func TestSeeding_APinnedPopNeedNotWaitForIt(t *testing.T) {
	t.Parallel()
	b := setup(t).paged(2)
	old := b.fill(5)
	b.contact("g", fresh)
	for i, want := range []int64{1, 1, 1, 1, 1} {
		pinned, found, err := b.group.Pin(t.Context(), queue.DefaultTenant, "q", fmt.Sprint("p", i), "g", all) // its start does not count
		if err != nil || !found || pinned.PartitionID != old[i] {
			t.Fatal(pinned, found, err)
		}
		if at := b.committed(pinned.Ref, old[i]); at != want {
			t.Errorf("partition %d: the group begins after %d", i, at)
		}
	}
	b.push("p4", "after the first pop")
	sub, _ := b.register("g", fresh)
	if got := b.candidates(sub); len(got) != 1 || got[0] != old[4] {
		t.Errorf("there is work in %v", got)
	}
}

func TestSeeding_OfAGroupThatIsMovedFirst(t *testing.T) {
	t.Parallel()
	b := setup(t).paged(2)
	old := b.fill(5)
	epoch := time.Unix(0, 0)
	seek, found, err := b.group.BeginSeek(t.Context(), queue.DefaultTenant, "q", "g", &epoch)
	if err != nil || !found || len(b.cursors("g")) != 0 {
		t.Fatal(found, err, b.cursors("g"))
	}
	if _, _, _, err := b.group.SeekPage(t.Context(), seek, 0, 3); err != nil {
		t.Fatal(err)
	}
	b.push("p4", "more") // must not be skipped by a registration that begins at the beginning
	if sub, calls := b.register("g", fresh); calls != 1 || len(b.candidates(sub)) != 5 {
		t.Errorf("after %d calls there is work in %v", calls, b.candidates(sub))
	}
	if n := b.finish(seek, 3); n != len(old) {
		t.Errorf("%d placed", n)
	}
}

func TestSeeding_IsNoNewsToASeekThatMeetsIt(t *testing.T) {
	t.Parallel()
	b := setup(t).paged(2)
	b.fill(7)
	b.contact("g", fresh)
	if n := b.seek("g", new(time.Unix(0, 0)), 3); n != 7 {
		t.Errorf("%d placed", n)
	}
	sub, calls := b.register("g", fresh)
	if got := b.candidates(sub); calls != 1 || len(got) != 7 {
		t.Errorf("after %d calls there is work in %v", calls, got)
	}
}
