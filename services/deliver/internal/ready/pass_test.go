package ready

import (
	"fmt"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"queen.internal/pkg/store/group"
	"queen.internal/services/deliver/internal/wait"
)

// drained has a pop take and consume everything.
func (s *scene) drained(t *testing.T, r *Ring) (ids []int64) {
	t.Helper()
	for {
		if err := r.Search(t.Context(), r.Ticket()); err != nil {
			t.Fatal(err)
		}
		taking := r.Take(1000, nil)
		if len(taking.Partitions) == 0 {
			return ids
		}
		result := group.ClaimResult{Clock: time.Now()}
		for _, id := range slices.Sorted(slices.Values(taking.Partitions)) {
			verdict := group.Empty
			if s.db.consume(id) {
				verdict = group.Took
				ids = append(ids, id)
			}
			result.Claims = append(result.Claims, group.Claim{PartitionID: id, Verdict: verdict})
		}
		r.Return(taking, result, true)
	}
}

// consume takes all of a partition.
func (d *database) consume(id int64) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	p := d.at(id)
	had := p.messages > 0
	p.messages = 0
	d.change(p)
	return had
}

// lease has another process lease a partition; zero ends the lease.
func (d *database) lease(id int64, length time.Duration) {
	d.mu.Lock()
	defer d.mu.Unlock()
	p := d.at(id)
	if p.leased = (time.Time{}); length > 0 {
		p.leased = time.Now().Add(length)
	}
	d.change(p)
}

// walks is how many partitions a step has the searches walk.
func (d *database) walks(step func()) int64 {
	before := d.walked.Load()
	step()
	return d.walked.Load() - before
}

func TestSearch_WalksOnlyWhatWasWrittenSince(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		db := newDatabase(1, 0)
		const partitions = 3000
		for id := range int64(partitions) {
			db.push(id + 1)
		}
		s := play(t, db, 10_000, never)
		defer s.stop()
		r := s.index.Ring(orders, all)
		if got := len(s.drained(t, r)); got != partitions {
			t.Fatalf("found %d partitions", got)
		}
		idle := func() { time.Sleep(time.Minute); s.drained(t, r) }
		idle() // looks once more at what was written about when the search before began
		time.Sleep(time.Minute)
		db.push(7)
		if n := db.walks(func() {
			if got := s.drained(t, r); !cmp.Equal(got, []int64{7}) {
				t.Errorf("found %v", got)
			}
		}); n > 10 {
			t.Errorf("walked %d partitions for one that was written", n)
		}
		idle()
		if n := db.walks(idle); n > 0 {
			t.Errorf("walked %d partitions when nothing was written", n)
		}
	})
}

func TestSearch_LooksAtAllAfterCursorsWereMovedOrTheClockFell(t *testing.T) {
	t.Parallel()
	for name, upset := range map[string]func(*database){
		"moved": func(d *database) { d.moves++ },
		"fell":  func(d *database) { d.skew = -time.Minute },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				db := newDatabase(1, 0)
				db.push(1)
				s := play(t, db, 100, never)
				defer s.stop()
				r := s.index.Ring(orders, all)
				s.drained(t, r)
				time.Sleep(time.Hour)
				s.drained(t, r)
				db.mu.Lock()
				db.at(1).messages = 1 // and no write says so
				upset(db)
				db.mu.Unlock()
				if got := s.drained(t, r); !cmp.Equal(got, []int64{1}) {
					t.Errorf("found %v", got)
				}
			})
		})
	}
}

func TestSearch_KnowsLeasesOfOthersAndSeesThemEnd(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		db := newDatabase(1, 0)
		db.push(1)
		db.push(2)
		db.lease(1, time.Hour)
		db.lease(2, time.Hour)
		s := play(t, db, 100, never)
		defer s.stop()
		r := s.ring(t)
		if r.Queued() != 0 {
			t.Fatal("leased partitions are offered")
		}
		time.Sleep(30 * time.Minute)
		db.lease(1, 0) // and nobody says so
		if err := r.Search(t.Context(), r.Ticket()); err != nil {
			t.Fatal(err)
		}
		if got := r.Take(10, nil).Partitions; !cmp.Equal(got, []int64{1}) {
			t.Errorf("after a lease was given back: %v", got)
		}
		time.Sleep(30*time.Minute + 2*time.Millisecond)
		if got := r.Take(10, nil).Partitions; !cmp.Equal(got, []int64{2}) {
			t.Errorf("after a lease has expired: %v", got)
		}
	})
}

func TestSearch_FindsAgainWhatHadNoRoom(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		db := newDatabase(1, 0)
		s := play(t, db, 10, never)
		defer s.stop()
		r := s.ring(t)
		for id := range int64(10) { // leased by others, as claims find out
			db.push(id + 1)
			db.lease(id+1, time.Hour)
			s.index.Wake(orders.Tenant, orders.Queue, id+1, 0)
		}
		returned(r, r.Take(10, nil), group.Leased, time.Hour)
		db.push(11)
		s.index.Wake(orders.Tenant, orders.Queue, 11, 0) // takes the place of one
		returned(r, r.Take(1, nil), group.Empty, 0)
		db.consume(11)
		for id := range int64(10) {
			db.lease(id+1, 0)
		}
		if got := s.drained(t, r); len(got) != 10 {
			t.Errorf("found %v", got)
		}
	})
}

func TestFinder_ManyRingsAskTogether(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		db := newDatabase(1, 0)
		s := play(t, db, 100, never)
		defer s.stop()
		var rings []*Ring
		for i := range 200 {
			r := s.index.Ring(Key{Tenant: orders.Tenant, Queue: fmt.Sprint("q", i), Group: "g"}, all)
			if err := r.Search(t.Context(), r.Ticket()); err != nil {
				t.Fatal(err)
			}
			rings = append(rings, r)
		}
		before := db.searches.Load()
		db.slow = time.Millisecond
		var asking sync.WaitGroup
		for _, r := range rings {
			asking.Go(func() {
				if err := r.Recheck(t.Context()); err != nil {
					t.Error(err)
				}
			})
		}
		asking.Wait()
		if calls := db.searches.Load() - before; calls > 4 {
			t.Errorf("%d rings made %d calls", len(rings), calls)
		}
	})
}

func TestHorizon_BeginsBeforeWhatWasUnderWay(t *testing.T) {
	t.Parallel()
	start := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	at := func(seconds int, oldest, next int64) group.Snapshot {
		return group.Snapshot{Asked: start.Add(time.Duration(seconds) * time.Second), Oldest: oldest, Next: next}
	}
	var h horizon
	for i, step := range []struct {
		snapshot group.Snapshot
		want     int // seconds
		fell     bool
	}{
		{at(0, 10, 10), 0, false},    // nothing under way
		{at(10, 10, 15), 0, false},   // 10 began after the first moment
		{at(20, 12, 30), 0, false},   // 12 may have begun before the second
		{at(30, 15, 40), 10, false},  // everything from before the second has ended
		{at(200, 15, 90), 80, false}, // one that never ends counts for two minutes
		{at(201, 95, 95), 201, false},
		{at(198, 95, 95), 198, false}, // an answer that was overtaken
		{at(150, 96, 96), 150, true},
		{at(170, 90, 90), 170, true}, // a database that has lost transactions
	} {
		if fell := h.add(step.snapshot, time.Time{}, time.Time{}); fell != step.fell {
			t.Errorf("step %d: fell %v", i, fell)
		}
		if got := h.of(step.snapshot).Sub(start); got != time.Duration(step.want)*time.Second {
			t.Errorf("step %d: writes may be missing from %v on, want %ds", i, got, step.want)
		}
	}
	for i := range 10 * maxSamples {
		h.add(at(1000+i, 100, 200), time.Time{}, time.Time{})
	}
	if len(h.samples) > maxSamples {
		t.Errorf("%d moments are kept", len(h.samples))
	}
}

func TestDoubt_EachSearchWalksOverEverything(t *testing.T) {
	t.Parallel()
	for _, doubt := range []bool{true, false} {
		synctest.Test(t, func(t *testing.T) {
			db := newDatabase(1, 0)
			db.push(1)
			s := play(t, db, 100, never)
			defer s.stop()
			s.index.options.Doubt = doubt // nothing has looked at it yet
			r := s.index.Ring(orders, all)
			s.drained(t, r)
			time.Sleep(time.Hour)
			s.drained(t, r) // its lease has ended
			db.mu.Lock()
			db.at(1).messages = 1 // and no write says so
			db.mu.Unlock()
			if err := r.Search(t.Context(), r.Ticket()); err != nil {
				t.Fatal(err)
			}
			if found := r.Queued() == 1; found != doubt || r.Doubted() != doubt {
				t.Errorf("doubt %v: found %v", doubt, found)
			}
		})
	}
}

func TestSweep_FindsWhatNothingLeadsTo(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		db := newDatabase(1, 0)
		db.sweep = time.Minute
		db.push(1)
		s := play(t, db, 100, never)
		defer s.stop()
		r := s.index.Ring(orders, all)
		s.drained(t, r)
		time.Sleep(time.Hour)
		s.drained(t, r)
		poll := parked(t, r.Spot())
		db.mu.Lock()
		db.at(1).messages = 1 // and no write says so
		db.mu.Unlock()
		if outcome := <-poll; outcome != wait.Woken || r.Queued() != 1 {
			t.Errorf("the poll ends with %v", outcome)
		}
	})
}
