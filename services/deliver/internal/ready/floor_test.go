package ready

import (
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"

	"queen.internal/pkg/store/group"
	"queen.internal/services/deliver/internal/wait"
)

// soon is a backstop that looks every second.
var soon = wait.Intervals{Initial: time.Second, Multiplier: 1, Max: time.Second}

func TestRecheck_WakesForWhatWasLeft(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		db := newDatabase(1, 0)
		for id := range int64(3) {
			db.push(id + 1)
		}
		s := play(t, db, 100, soon)
		defer s.stop()
		r := s.ring(t)
		time.Sleep(time.Minute)
		if err := r.Search(t.Context(), r.Ticket()); err != nil {
			t.Fatal(err)
		}
		returned(r, r.Take(1, nil), group.Deferred, time.Hour) // a pop gives up after this one
		poll := parked(t, r.Spot())
		time.Sleep(2 * time.Second)
		synctest.Wait()
		if len(poll) != 1 {
			t.Error("a poll sleeps beside partitions that nobody has tried")
		}
		r.Spot().Wake(1)
	})
}

func TestChanged_HasHiddenPartitionsTriedAgain(t *testing.T) {
	t.Parallel()
	for name, hide := range map[string]func(r *Ring, change func()){
		"rests": func(r *Ring, change func()) {
			returned(r, r.Take(1, nil), group.Deferred, time.Hour)
			time.Sleep(time.Millisecond)
			change()
		},
		"is being tried": func(r *Ring, change func()) {
			taking := r.Take(1, nil)
			time.Sleep(time.Millisecond)
			change()
			returned(r, taking, group.Deferred, time.Hour)
		},
	} {
		for who, change := range map[string]func(*Index){
			"moved":      func(x *Index) { x.Changed(orders.Tenant, orders.Queue, orders.Group) },
			"configured": func(x *Index) { x.Configured(orders.Tenant, orders.Queue, false) },
		} {
			t.Run(name+" "+who, func(t *testing.T) {
				t.Parallel()
				synctest.Test(t, func(t *testing.T) {
					db := newDatabase(1, 0)
					db.push(1)
					s := play(t, db, 100, never)
					defer s.stop()
					r := s.ring(t)
					time.Sleep(time.Hour)
					poll := parked(t, r.Spot())
					hide(r, func() { change(s.index); synctest.Wait() })
					synctest.Wait()
					if len(poll) != 1 || r.Queued() != 1 {
						t.Errorf("%d polls were woken for %d partitions", len(poll), r.Queued())
					}
					r.Spot().Wake(1)
				})
			})
		}
	}
}

func TestSearch_EndsWhileCursorsAreMoved(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		db := newDatabase(1, 0)
		for id := range int64(3 * walkLimit) {
			db.at(id + 1).written = time.Now()
		}
		db.at(3 * walkLimit).messages = 1
		s := play(t, db, 100, never)
		defer s.stop()
		db.with(func() {
			db.hold = func() {
				if db.searches.Load() < 20 {
					db.with(func() { db.moves++ }) // a seek turns its pages as fast as the walk
				}
			}
		})
		r := s.index.Ring(orders, all)
		if err := r.Search(t.Context(), r.Ticket()); err != nil {
			t.Fatal(err)
		}
		if got := r.Take(1, nil).Partitions; !cmp.Equal(got, []int64{3 * walkLimit}) {
			t.Errorf("found %v", got)
		}
		if db.searches.Load() > 6 {
			t.Errorf("%d pages were walked", db.searches.Load())
		}
		db.with(func() { db.hold = nil }) // the seek is done, and its last page was missed by the walk
		db.at(7).messages = 1
		db.with(func() { db.moves++ })
		time.Sleep(time.Hour)
		if got := s.drained(t, r); !slices.Contains(got, 7) {
			t.Errorf("found %v after the cursors were moved", got)
		}
	})
}

func TestMissed_HasARingSearchedWhoseOnlyPollIsAboutToPark(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		db := newDatabase(1, 0)
		s := play(t, db, 100, never)
		defer s.stop()
		r := s.ring(t)
		version := r.Spot().Version() // it has looked
		db.push(1)                    // and nobody says so
		s.index.Missed(func(uuid.UUID, string) bool { return true })
		time.Sleep(missedJitter)
		synctest.Wait()
		if r.Spot().Version() == version {
			t.Error("a poll would sleep beside work that was missed")
		}
		s.index.Release(r)
		before := db.searches.Load()
		s.index.Missed(func(uuid.UUID, string) bool { return true })
		time.Sleep(missedJitter)
		synctest.Wait()
		if db.searches.Load() != before {
			t.Error("a ring that nobody uses is searched")
		}
	})
}

func TestHorizon_TellsAStepBackByWhereTheClockShouldBe(t *testing.T) {
	t.Parallel()
	start := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	for name, c := range map[string]struct {
		asked time.Duration // by our own clock, an hour after the answer before
		clock time.Duration // of the database, since then
		fell  bool
	}{
		"as it should be":       {time.Hour, time.Hour, false},
		"a little behind":       {time.Hour, time.Hour - clockSlack, false},
		"behind, but after all": {time.Hour, time.Hour - clockSlack - time.Second, true},
		"overtaken":             {-time.Second, -clockSlack, false},
		"ahead":                 {time.Hour, 2 * time.Hour, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			own := start.Add(12 * time.Hour) // any other clock
			var h horizon
			if h.add(group.Snapshot{Asked: start, Oldest: 10, Next: 10}, own, own) {
				t.Error("fell at once")
			}
			next := group.Snapshot{Asked: start.Add(c.clock), Oldest: 20, Next: 20}
			if fell := h.add(next, own.Add(c.asked), own.Add(c.asked)); fell != c.fell {
				t.Errorf("fell %v", fell)
			}
		})
	}
}
