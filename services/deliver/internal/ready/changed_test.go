package ready

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"queen.internal/pkg/queue"
	"queen.internal/services/deliver/internal/wait"
)

func TestChanged_WakesThePollsOfAGroupThatWasMadeAnew(t *testing.T) {
	t.Parallel()
	for name, group := range map[string]string{"the group": orders.Group, "every group": ""} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				db := newDatabase(1, 0)
				s := play(t, db, 100, never)
				defer s.stop()
				r := s.ring(t)
				poll := parked(t, r.Spot())
				db.subscription = 2 // deleted, and made again by somebody
				db.push(7)          // nobody says so
				s.index.Changed(orders.Tenant, orders.Queue, group)
				if got := <-poll; got != wait.Woken {
					t.Fatalf("the poll ends with %v", got)
				}
				if got := r.Take(1, nil); got.Subscription.ID != 2 || !cmp.Equal(got.Partitions, []int64{7}) {
					t.Errorf("took %+v", got)
				}
			})
		})
	}
}

func TestChanged_IsNoNewsForOthers(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		db := newDatabase(1, 0)
		s := play(t, db, 100, never)
		defer s.stop()
		r := s.ring(t)
		poll := parked(t, r.Spot())
		pin := s.index.Pin(orders.Tenant, orders.Queue, "p", orders.Group)
		defer s.index.Unpin(pin)
		pinned := parked(t, pin.Spot())
		before := db.searches.Load()
		s.index.Changed(orders.Tenant, orders.Queue, "another")
		s.index.Changed(orders.Tenant, "another", "")
		s.index.Changed(queue.NewID(), orders.Queue, "")
		time.Sleep(time.Second)
		if db.searches.Load() != before || len(poll)+len(pinned) > 0 {
			t.Error("others looked for work")
		}
		s.index.Changed(orders.Tenant, orders.Queue, "")
		if got := <-pinned; got != wait.Woken {
			t.Errorf("the poll of one partition ends with %v", got)
		}
		db.push(1)
		s.index.Wake(orders.Tenant, orders.Queue, 1, 0)
		<-poll
	})
}

func TestChanged_MakesNoContactInTheNameOfNobody(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		db := newDatabase(1, 0)
		s := play(t, db, 100, never)
		defer s.stop()
		r := s.ring(t)
		s.index.Release(r) // its last pop is over
		before := db.subscribes.Load()
		s.index.Changed(orders.Tenant, orders.Queue, orders.Group)
		time.Sleep(time.Second)
		if err := r.Recheck(t.Context()); err != nil || db.subscribes.Load() != before { // asked for by the pop, and late
			t.Errorf("a group that nobody pops with was registered: %v", err)
		}
		if s.ring(t); db.subscribes.Load() == before {
			t.Error("the next pop has not made sure of its subscription")
		}
	})
}
