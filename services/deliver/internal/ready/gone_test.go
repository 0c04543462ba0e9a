package ready

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"queen.internal/pkg/store/group"
	"queen.internal/services/deliver/internal/wait"
)

// remake replaces the queue by another one, or by none.
func (d *database) remake(subscription int64) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.subscription = subscription
	d.partitions = map[int64]*partition{}
}

func (d *database) alive() bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.subscription != 0
}

// Whoever was there before a deletion must not undo it: neither parked polls nor pops of many queues.
func TestGone_OnlyAPopOfTheQueueMakesItAgain(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		db := newDatabase(1, 0)
		s := play(t, db, 100, wait.Intervals{Initial: time.Second, Multiplier: 1, Max: time.Second})
		defer s.stop()
		r := s.ring(t)
		poll := parked(t, r.Spot())
		db.remake(0)
		s.index.Changed(orders.Tenant, orders.Queue, "")
		time.Sleep(time.Minute)
		if err := r.Look(t.Context(), r.Ticket()); err != nil {
			t.Fatal(err)
		}
		if db.alive() || len(poll) > 0 {
			t.Fatalf("the queue exists again: %v, the poll was woken: %v", db.alive(), len(poll) > 0)
		}
		if err := r.Search(t.Context(), r.Ticket()); err != nil || !db.alive() {
			t.Errorf("the queue exists: %v (%v)", db.alive(), err)
		}
	})
}

// A search for a discovery that is under way does not answer for a pop of the queue.
func TestGone_APopOfTheQueueDoesNotShareALook(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		db := newDatabase(1, 0)
		s := play(t, db, 100, never)
		defer s.stop()
		r := s.ring(t)
		ticket := r.Ticket()
		release := make(chan struct{})
		db.with(func() { db.hold = func() { <-release } })
		ends := make(chan error, 2)
		go func() { ends <- r.Look(t.Context(), ticket) }()
		synctest.Wait()
		go func() { ends <- r.Search(t.Context(), ticket) }()
		synctest.Wait()
		db.remake(0)
		close(release)
		for range 2 {
			if err := <-ends; err != nil {
				t.Error(err)
			}
		}
		if !db.alive() {
			t.Error("the pop has created no queue")
		}
	})
}

func TestGone_AParkedPollGetsAllOfTheNextQueue(t *testing.T) {
	t.Parallel()
	from := time.Now()
	for name, test := range map[string]struct {
		start, want group.Start
		told        bool
	}{
		"told":          {group.Start{Mode: "new"}, group.Start{Mode: "all"}, true},
		"by itself":     {group.Start{Mode: "new"}, group.Start{Mode: "all"}, false},
		"from its time": {group.Start{From: from}, group.Start{From: from}, true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				db := newDatabase(1, 0)
				s := play(t, db, 100, wait.Intervals{Initial: time.Second, Multiplier: 1, Max: time.Second})
				defer s.stop()
				r := s.index.Ring(orders, test.start)
				if err := r.Search(t.Context(), r.Ticket()); err != nil {
					t.Fatal(err)
				}
				poll := parked(t, r.Spot())
				db.remake(0)
				s.index.Changed(orders.Tenant, orders.Queue, "")
				time.Sleep(time.Minute)
				db.remake(2)
				db.push(7)
				if test.told {
					s.index.Wake(orders.Tenant, orders.Queue, 7, 0)
				}
				<-poll
				if got := r.Take(1, nil); got.Subscription.ID != 2 || !cmp.Equal(got.Partitions, []int64{7}) {
					t.Errorf("took %+v", got)
				}
				if diff := cmp.Diff(test.want, db.start); diff != "" {
					t.Errorf("the group's start:\n%s", diff)
				}
			})
		})
	}
}

// Without a poll that waits, a group that is new to the next queue begins where it says.
func TestGone_WhoComesLaterIsNew(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		db := newDatabase(1, 0)
		s := play(t, db, 100, never)
		defer s.stop()
		s.ring(t)
		db.remake(2)
		r := s.index.Ring(orders, group.Start{Mode: "new"})
		if err := r.Search(t.Context(), r.Ticket()); err != nil || db.start.Mode != "new" {
			t.Errorf("begins with %+v (%v)", db.start, err)
		}
	})
}

func TestGone_ADiscoveryFindsTheNextQueue(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		db := newDatabase(1, 0)
		db.queues = []string{orders.Queue}
		s := play(t, db, 100, never)
		defer s.stop()
		d := s.index.Discovery(orders.Tenant, "ns", "", orders.Group, all)
		defer s.index.Undiscover(d)
		if err := d.Recheck(t.Context()); err != nil {
			t.Fatal(err)
		}
		poll := parked(t, d.Spot())
		db.remake(0)
		s.index.Changed(orders.Tenant, orders.Queue, "")
		synctest.Wait()
		db.remake(2)
		db.push(7)
		s.index.Wake(orders.Tenant, orders.Queue, 7, 0)
		if got := <-poll; got != wait.Woken {
			t.Errorf("the poll ends with %v", got)
		}
	})
}
