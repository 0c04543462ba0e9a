package ready

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"queen.internal/pkg/store/group"
	"queen.internal/services/deliver/internal/wait"
)

// pause stops or resumes what the model gives out: a search finds nothing meanwhile.
func (d *database) pause(paused bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.paused = paused
}

// However much is pushed, a ring that knows of the pause offers nothing.
func TestPause_NewsIsNoReasonToTry(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		db := newDatabase(1, 0)
		db.push(1)
		s := play(t, db, 100, never)
		defer s.stop()
		r := s.ring(t)
		taking := r.Take(1, nil)
		db.pause(true)
		s.index.Wake(orders.Tenant, orders.Queue, 1, 0) // while it is taken
		returned(r, taking, group.Paused, 0)
		poll := parked(t, r.Spot())
		for id := range int64(10) {
			db.push(id + 1)
			s.index.Wake(orders.Tenant, orders.Queue, id+1, 0)
			s.index.Freed(1, id+1, 0)
		}
		if err := r.Search(t.Context(), r.Ticket()); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		if got := r.Take(10, nil).Partitions; len(got) != 0 || len(poll) != 0 {
			t.Errorf("offers %v, the poll was woken: %v", got, len(poll) > 0)
		}
		db.pause(false)
		s.index.Changed(orders.Tenant, orders.Queue, orders.Group)
		if got := <-poll; got != wait.Woken {
			t.Errorf("the poll ends with %v", got)
		}
		if got := r.Take(10, nil).Partitions; len(got) != 10 {
			t.Errorf("after the pause it offers %v", got)
		}
	})
}

// A resume that nobody tells is found by the backstop, and by whoever pops.
func TestPause_EndsWithTheFirstSearchThatFindsSomething(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		db := newDatabase(1, 0)
		db.push(1)
		s := play(t, db, 100, wait.Intervals{Initial: time.Second, Multiplier: 1, Max: time.Second})
		defer s.stop()
		r := s.ring(t)
		db.pause(true)
		returned(r, r.Take(1, nil), group.Paused, 0)
		poll := parked(t, r.Spot())
		time.Sleep(time.Minute)
		if len(poll) != 0 {
			t.Error("the poll was woken during the pause")
		}
		db.pause(false)
		<-poll
		db.push(2)
		s.index.Wake(orders.Tenant, orders.Queue, 2, 0)
		if got := r.Take(2, nil).Partitions; !cmp.Equal(got, []int64{1, 2}) {
			t.Errorf("took %v", got)
		}
	})
}

// A claim that began before the resume says what is no longer so.
func TestPause_ALateVerdictDoesNotOutliveTheResume(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		db := newDatabase(1, 0)
		db.push(1)
		s := play(t, db, 100, never)
		defer s.stop()
		r := s.ring(t)
		late := r.Take(1, nil)
		s.index.Changed(orders.Tenant, orders.Queue, "")
		synctest.Wait()
		poll := parked(t, r.Spot())
		returned(r, late, group.Paused, 0)
		if got := <-poll; got != wait.Woken {
			t.Errorf("the poll ends with %v", got)
		}
		if got := r.Take(1, nil).Partitions; !cmp.Equal(got, []int64{1}) {
			t.Errorf("took %v", got)
		}
	})
}
