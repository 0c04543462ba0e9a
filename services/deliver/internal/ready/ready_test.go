package ready

import (
	"context"
	"errors"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"queen.internal/pkg/queue"
	"queen.internal/pkg/store/group"
	"queen.internal/services/deliver/internal/wait"
)

var all = group.Start{Mode: "all"}

// ring is the scene's ring, searched once.
func (s *scene) ring(t *testing.T) *Ring {
	t.Helper()
	r := s.index.Ring(orders, all)
	if err := r.Search(t.Context(), r.Ticket()); err != nil {
		t.Fatal(err)
	}
	return r
}

// returned gives a taking back with one verdict for all.
func returned(r *Ring, taking Taking, verdict group.Verdict, until time.Duration) {
	result := group.ClaimResult{Clock: time.Now()}
	for _, id := range taking.Partitions {
		result.Claims = append(result.Claims, group.Claim{PartitionID: id, Verdict: verdict, Until: time.Now().Add(until)})
	}
	r.Return(taking, result, false)
}

// parked is a poll that waits at a spot; it yields the outcome.
func parked(t *testing.T, spot *wait.Spot) <-chan wait.Outcome {
	t.Helper()
	ended := make(chan wait.Outcome, 1)
	version := spot.Version()
	go func() {
		outcome, err := spot.Park(t.Context(), new(wait.Poll), version, time.Now().Add(999*time.Hour), nil)
		if err != nil {
			t.Error(err)
		}
		ended <- outcome
	}()
	synctest.Wait()
	return ended
}

func TestSearch_OneUnderWayIsTooOldForWhoComesLater(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		db := newDatabase(1, 0)
		s := play(t, db, 100, never)
		defer s.stop()
		release := make(chan struct{})
		db.with(func() { db.hold = func() { <-release } })
		r := s.index.Ring(orders, all)
		ends := make(chan error, 4)
		ask := func(ticket uint64) {
			go func() { ends <- r.Search(t.Context(), ticket) }()
			synctest.Wait()
		}
		first := r.Ticket()
		ask(first)
		ask(first)      // may share the first
		ask(r.Ticket()) // came while the first was under way
		ask(r.Ticket())
		release <- struct{}{}
		synctest.Wait()
		if len(ends) != 2 || db.searches.Load() != 2 {
			t.Fatalf("after one search %d have their answer, %d were begun", len(ends), db.searches.Load())
		}
		release <- struct{}{}
		synctest.Wait()
		if len(ends) != 4 || db.searches.Load() != 2 {
			t.Errorf("after two searches %d have their answer, %d were begun", len(ends), db.searches.Load())
		}
		for range 4 {
			if err := <-ends; err != nil {
				t.Error(err)
			}
		}
	})
}

func TestSearch_GoesOnWhenItsRequestIsGone(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		db := newDatabase(1, 0)
		db.push(7)
		s := play(t, db, 100, never)
		defer s.stop()
		release := make(chan struct{})
		db.with(func() { db.hold = func() { <-release } })
		r := s.index.Ring(orders, all)
		gone, cancel := context.WithCancel(t.Context())
		led, followed := make(chan error, 1), make(chan error, 1)
		ticket := r.Ticket()
		go func() { led <- r.Search(gone, ticket) }()
		synctest.Wait()
		go func() { followed <- r.Search(gone, r.Ticket()) }()
		synctest.Wait()
		cancel()
		if err := <-followed; !errors.Is(err, context.Canceled) {
			t.Errorf("who waited ends with %v", err)
		}
		close(release)
		if err := <-led; err != nil {
			t.Errorf("who searched ends with %v", err)
		}
		if got := r.Take(1, nil).Partitions; !cmp.Equal(got, []int64{7}) {
			t.Errorf("took %v", got)
		}
	})
}

func TestSearch_FailsForAllWhoWait(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		db := newDatabase(1, time.Millisecond)
		db.with(func() { db.fail = queue.Unavailable("no database", time.Second, nil) })
		s := play(t, db, 100, never)
		defer s.stop()
		r := s.index.Ring(orders, all)
		ends := make(chan error, 3)
		ticket := r.Ticket()
		for range 3 {
			go func() { ends <- r.Search(t.Context(), ticket) }()
		}
		for range 3 {
			if err := <-ends; queue.KindOf(err) != queue.KindUnavailable {
				t.Errorf("search ends with %v", err)
			}
		}
		db.with(func() { db.fail = nil })
		if err := r.Search(t.Context(), r.Ticket()); err != nil {
			t.Error(err)
		}
	})
}

func TestSearch_PagesThroughMoreThanARingHolds(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		db := newDatabase(1, 0)
		const partitions = 2*walkLimit + 345
		for id := range int64(partitions) {
			db.push(id + 1)
		}
		s := play(t, db, 300, never)
		defer s.stop()
		r := s.index.Ring(orders, all)
		seen := map[int64]bool{}
		for {
			id := s.attempt(t.Context(), r, r.Ticket(), true, 1, time.Hour)
			if id == 0 {
				break
			}
			if seen[id] {
				t.Fatalf("partition %d was taken twice", id)
			}
			seen[id] = true
			if len(seen) == 1 && (!r.More() || s.index.Stats().More != 1) {
				t.Error("the ring does not say that there is more")
			}
		}
		if len(seen) != partitions {
			t.Errorf("%d of %d partitions were found", len(seen), partitions)
		}
	})
}

func TestSearch_FollowsASubscriptionThatWasMadeAnew(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		db := newDatabase(1, 0)
		db.push(1)
		s := play(t, db, 100, never)
		defer s.stop()
		r := s.ring(t)
		old := r.Take(1, nil)
		db.subscription = 2
		if err := r.Search(t.Context(), r.Ticket()); err != nil {
			t.Fatal(err)
		}
		fresh := r.Take(1, nil)
		if fresh.Subscription.ID != 2 || !cmp.Equal(fresh.Partitions, []int64{1}) {
			t.Errorf("took %+v", fresh)
		}
		returned(r, old, group.Gone, 0) // of the old subscription: says nothing about the new one
		returned(r, fresh, group.Took, time.Hour)
		s.index.Freed(1, 1, 0)
		if got := r.Take(1, nil).Partitions; got != nil {
			t.Errorf("news of the old subscription gave %v", got)
		}
		s.index.Freed(2, 1, 0)
		if got := r.Take(1, nil).Partitions; !cmp.Equal(got, []int64{1}) {
			t.Errorf("news of the new subscription gave %v", got)
		}
	})
}

func TestSearch_AsksAnewAfterGone(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		db := newDatabase(1, 0)
		db.push(1)
		s := play(t, db, 100, never)
		defer s.stop()
		r := s.ring(t)
		returned(r, r.Take(1, nil), group.Gone, 0)
		before := db.subscribes.Load()
		if err := r.Search(t.Context(), r.Ticket()); err != nil || db.subscribes.Load() != before+1 {
			t.Errorf("%v, %d contacts", err, db.subscribes.Load()-before)
		}
	})
}

func TestReturn_VerdictsSayWhenAPartitionIsOfferedAgain(t *testing.T) {
	t.Parallel()
	const never = -1
	tests := map[string]struct {
		verdict group.Verdict
		until   time.Duration
		again   time.Duration
	}{
		"leased by us":     {group.Took, time.Minute, time.Minute + time.Millisecond},
		"leased by others": {group.Leased, time.Minute, time.Minute + time.Millisecond},
		"hidden":           {group.Deferred, time.Minute, time.Minute + time.Millisecond},
		"locked":           {group.Busy, 0, busyPause},
		"empty":            {group.Empty, 0, never},
		"gone":             {group.Gone, 0, never},
		"claim failed":     {0, 0, failedPause},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				db := newDatabase(1, 0)
				db.push(1)
				s := play(t, db, 100, wait.Intervals{Initial: 100 * time.Hour, Multiplier: 1, Max: 100 * time.Hour})
				defer s.stop()
				r := s.ring(t)
				taking := r.Take(1, nil)
				if test.verdict == 0 {
					r.Return(taking, group.ClaimResult{}, false)
				} else {
					returned(r, taking, test.verdict, test.until)
				}
				if test.again == never {
					if stats := s.index.Stats(); stats.Queued+stats.Later != 0 {
						t.Errorf("%+v", stats)
					}
					return
				}
				began := time.Now()
				if <-parked(t, r.Spot()) != wait.Woken || time.Since(began) != test.again {
					t.Errorf("a parked poll is woken after %s", time.Since(began))
				}
				if got := r.Take(5, nil).Partitions; !cmp.Equal(got, []int64{1}) {
					t.Errorf("took %v", got)
				}
			})
		})
	}
}

func TestReturn_UntriedPartitionsKeepTheirPlace(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		db := newDatabase(1, 0)
		for id := range int64(5) {
			db.push(id + 1)
		}
		s := play(t, db, 100, never)
		defer s.stop()
		r := s.ring(t)
		taking := r.Take(4, nil)
		r.Return(taking, group.ClaimResult{Clock: time.Now(), Claims: []group.Claim{{PartitionID: 1, Verdict: group.Took}}}, true)
		if got := r.Take(9, nil).Partitions; !cmp.Equal(got, []int64{2, 3, 4, 5, 1}) {
			t.Errorf("took %v", got)
		}
	})
}

func TestReturn_NewsDuringAClaimIsNotLost(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		verdict group.Verdict
		queued  int
	}{
		"empty":            {group.Empty, 1},
		"leased by others": {group.Leased, 1},
		"leased by us":     {group.Took, 0}, // the news is older than the lease
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				db := newDatabase(1, 0)
				db.push(1)
				s := play(t, db, 100, never)
				defer s.stop()
				r := s.ring(t)
				taking := r.Take(1, nil)
				s.index.Wake(orders.Tenant, orders.Queue, 1, 0)
				if got := r.Take(1, nil).Partitions; got != nil {
					t.Errorf("%v was offered twice", got)
				}
				returned(r, taking, test.verdict, time.Hour)
				if got := r.Queued(); got != test.queued {
					t.Errorf("%d queued", got)
				}
			})
		})
	}
}

func TestTake_LeavesWhatIsExceptedInItsPlace(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		db := newDatabase(1, 0)
		for id := int64(1); id <= 4; id++ {
			db.push(id)
		}
		s := play(t, db, 100, never)
		defer s.stop()
		r := s.ring(t)
		if got := r.Take(1, []int64{1, 2, 3, 4}).Partitions; len(got) != 0 {
			t.Errorf("took %v of nothing", got)
		}
		if got := r.Take(2, []int64{1, 3}).Partitions; !cmp.Equal(got, []int64{2, 4}) {
			t.Errorf("took %v", got)
		}
		if got := r.Take(2, nil).Partitions; !cmp.Equal(got, []int64{1, 3}) {
			t.Errorf("then took %v", got)
		}
	})
}

func TestSearch_ThatOverlapsAClaim(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		before  bool // the claim began before the search
		verdict group.Verdict
		during  bool // it returned while the search was under way
		queued  int
	}{
		"an empty verdict may be older than the search":         {true, group.Empty, false, 1},
		"a lease seen before may be over":                       {true, group.Leased, true, 1},
		"a lease seen since is newer than what the search says": {false, group.Leased, true, 0},
		"so is a lease that was taken":                          {false, group.Took, true, 0},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				db := newDatabase(1, 0)
				db.push(1)
				s := play(t, db, 100, never)
				defer s.stop()
				r := s.ring(t)
				var taking Taking
				if test.before {
					taking = r.Take(1, nil)
					time.Sleep(time.Millisecond)
				}
				release, ended := make(chan struct{}), make(chan error, 1)
				db.with(func() { db.hold = func() { <-release } })
				go func() { ended <- r.Search(t.Context(), r.Ticket()) }()
				synctest.Wait()
				time.Sleep(time.Millisecond)
				if !test.before {
					taking = r.Take(1, nil)
				}
				if test.during {
					returned(r, taking, test.verdict, time.Hour)
				}
				close(release)
				if err := <-ended; err != nil {
					t.Fatal(err)
				}
				if !test.during {
					returned(r, taking, test.verdict, time.Hour)
				}
				if got := r.Queued(); got != test.queued {
					t.Errorf("%d queued, want %d", got, test.queued)
				}
			})
		})
	}
}

func TestSearch_TriesHiddenPartitionsSeldomUnlessAPopAsks(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		db := newDatabase(1, 0)
		db.push(1)
		s := play(t, db, 100, never)
		defer s.stop()
		r := s.ring(t)
		hide := func() {
			t.Helper()
			taking := r.Take(1, nil)
			if len(taking.Partitions) != 1 {
				t.Fatal("the partition is not offered")
			}
			returned(r, taking, group.Deferred, time.Hour)
		}
		recheck := func(queued int) {
			t.Helper()
			if err := r.Recheck(t.Context()); err != nil {
				t.Fatal(err)
			}
			if got := r.Queued(); got != queued {
				t.Errorf("%d queued, want %d", got, queued)
			}
		}
		hide()
		time.Sleep(deferredPause / 2)
		recheck(0)
		time.Sleep(deferredPause / 2)
		recheck(1)
		hide()
		time.Sleep(time.Millisecond)
		if err := r.Search(t.Context(), r.Ticket()); err != nil || r.Queued() != 1 {
			t.Errorf("a pop's search: %d queued, %v", r.Queued(), err)
		}
	})
}

func TestFreed_WakesWhoWaitsForThatPartitionFirst(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		db := newDatabase(1, 0)
		db.push(1)
		s := play(t, db, 100, never)
		defer s.stop()
		r := s.ring(t)
		returned(r, r.Take(1, nil), group.Took, time.Hour)
		pin := s.index.Pin(orders.Tenant, orders.Queue, "one", orders.Group)
		pin.Known(group.Ref{ID: 1}, 1)
		pinned, wild := parked(t, pin.Spot()), parked(t, r.Spot())
		s.index.Freed(1, 1, 0)
		synctest.Wait()
		if len(pinned) != 1 || len(wild) != 0 {
			t.Errorf("woken: %d pinned, %d of the ring", len(pinned), len(wild))
		}
		s.index.Unpin(pin)
		s.index.Freed(1, 1, 0)
		synctest.Wait()
		if len(wild) != 1 || r.Queued() != 1 {
			t.Errorf("woken: %d of the ring", len(wild))
		}
	})
}

func TestWake_ReachesOnlyWhoTakesFromTheQueue(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		db := newDatabase(1, 0)
		db.queues = []string{"orders"}
		s := play(t, db, 100, never)
		defer s.stop()
		ring := s.ring(t)
		unknown := s.index.Pin(orders.Tenant, orders.Queue, "not yet there", orders.Group)
		elsewhere := s.index.Pin(orders.Tenant, orders.Queue, "another", orders.Group)
		elsewhere.Known(group.Ref{ID: 1}, 2)
		discovery := s.index.Discovery(orders.Tenant, "orders", "", "other group", all)
		if err := discovery.Discover(t.Context()); err != nil {
			t.Fatal(err)
		}
		for _, r := range discovery.Rings() {
			if err := r.Search(t.Context(), r.Ticket()); err != nil {
				t.Fatal(err)
			}
		}
		ended := map[string]<-chan wait.Outcome{
			"ring": parked(t, ring.Spot()), "unknown": parked(t, unknown.Spot()), "elsewhere": parked(t, elsewhere.Spot()), "discovery": parked(t, discovery.Spot()),
		}
		s.index.Wake(queue.NewID(), orders.Queue, 1, 0)
		s.index.Wake(orders.Tenant, "mail", 1, 0)
		s.index.Wake(orders.Tenant, orders.Queue, 1, 0)
		synctest.Wait()
		for name, want := range map[string]int{"ring": 1, "unknown": 1, "elsewhere": 0, "discovery": 1} {
			if len(ended[name]) != want {
				t.Errorf("%s: %d woken", name, len(ended[name]))
			}
		}
		elsewhere.Spot().Wake(1)
		<-ended["elsewhere"]
	})
}

func TestDiscovery_TakesFromQueuesThatComeLater(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		db := newDatabase(1, 0)
		s := play(t, db, 100, wait.Intervals{Initial: time.Second, Multiplier: 1, Max: time.Second})
		defer s.stop()
		d := s.index.Discovery(orders.Tenant, "orders", "", "g", all)
		poll := parked(t, d.Spot())
		db.mu.Lock()
		db.queues = []string{"orders", "orders.paid"}
		db.mu.Unlock()
		db.push(1)
		if <-poll != wait.Woken {
			t.Error("the poll was not woken")
		}
		if got := len(d.Rings()); got != 2 {
			t.Errorf("%d rings", got)
		}
		r := d.Rings()[0]
		s.index.Undiscover(d)
		r.Kick() // the discovery has ended: nobody is woken
		if len(r.listeners) != 0 || len(d.Rings()) != 0 {
			t.Errorf("%d listeners, %d rings after the end", len(r.listeners), len(d.Rings()))
		}
		synctest.Wait()
	})
}

func TestRun_DropsRingsThatNobodyUses(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		db := newDatabase(1, 0)
		db.push(1)
		s := play(t, db, 100, never)
		defer s.stop()
		r := s.ring(t)
		time.Sleep(time.Hour)
		if got := s.index.Stats(); got.Rings != 1 {
			t.Errorf("a ring in use: %+v", got)
		}
		s.index.Release(r)
		time.Sleep(4 * time.Minute)
		if again := s.index.Ring(orders, all); again != r {
			t.Error("a ring was dropped too early")
		}
		s.index.Release(r)
		time.Sleep(10 * time.Minute)
		if got := s.index.Stats(); got.Rings != 0 || len(s.index.subscriptions) != 0 || len(s.index.queues) != 0 {
			t.Errorf("an unused ring: %+v", got)
		}
		s.index.Freed(1, 1, 0)
		s.index.Wake(orders.Tenant, orders.Queue, 1, 0)
	})
}

func TestTake_BusyRingsAreSearchedAllTheSame(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		db := newDatabase(1, 0)
		db.push(1)
		s := play(t, db, 100, never)
		defer s.stop()
		r := s.ring(t)
		before := db.searches.Load()
		db.push(2) // nobody announces it, and the ring is never empty
		for range 50 {
			time.Sleep(10 * time.Second)
			taking := r.Take(1, nil)
			if taking.Partitions[0] == 2 {
				if got := db.searches.Load() - before; got != 1 {
					t.Errorf("%d searches", got)
				}
				return
			}
			r.Return(taking, group.ClaimResult{Clock: time.Now(), Claims: []group.Claim{{PartitionID: 1, Verdict: group.Took}}}, true)
		}
		t.Error("the partition that nobody announced is never offered")
	})
}

func TestLine_LosesAndRepeatsNobody(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		var l line
		var model []*entry
		for id := range rapid.Int64Range(0, 60).Draw(t, "steps") {
			switch n := (&entry{id: id}); rapid.IntRange(0, 4).Draw(t, "step") {
			case 0:
				l.pushFront(n)
				model = slices.Insert(model, 0, n)
			case 1, 2:
				l.pushBack(n)
				model = append(model, n)
			case 3:
				if len(model) > 0 {
					l.remove(l.front)
					model = model[1:]
				}
			default:
				if len(model) > 0 {
					at := rapid.IntRange(0, len(model)-1).Draw(t, "place")
					l.remove(model[at])
					model = slices.Delete(model, at, at+1)
				}
			}
			var forth, back []*entry
			for n := l.front; n != nil; n = n.after {
				forth = append(forth, n)
			}
			for n := l.back; n != nil; n = n.before {
				back = append(back, n)
			}
			slices.Reverse(back)
			if !slices.Equal(forth, model) || !slices.Equal(back, model) || l.length != len(model) {
				t.Fatalf("forth %d, back %d, length %d, want %d", len(forth), len(back), l.length, len(model))
			}
		}
	})
}
