package ready

import (
	"testing"
	"testing/synctest"
	"time"

	"queen.internal/pkg/queue"
	"queen.internal/services/deliver/internal/wait"
)

// wide is a queue of so many partitions, each page of which takes ten seconds to look at.
func wide(partitions int64) *database {
	db := newDatabase(1, 0)
	for id := range partitions {
		db.at(id + 1)
	}
	db.hold = func() { time.Sleep(9 * time.Second) } // no page ends at the very time at which a search must
	return db
}

func TestSearch_ThatTakesLongerThanACallMayIsGoneOnWithForWhoWaits(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		const partitions = 20 * walkLimit
		db := wide(partitions)
		db.push(partitions)
		s := play(t, db, 1000, never)
		defer s.stop()
		r := s.index.Ring(orders, all)
		begun, version := time.Now(), r.Spot().Version()
		err := r.Search(t.Context(), r.Ticket())
		if !Unfinished(err) || queue.KindOf(err) != queue.KindUnavailable || time.Since(begun) > time.Minute+time.Second {
			t.Fatalf("after %s: %v", time.Since(begun), err)
		}
		r.Spot().Recheck()
		outcome, err := r.Spot().Park(t.Context(), new(wait.Poll), version, begun.Add(time.Hour), nil)
		if outcome != wait.Woken || err != nil || time.Since(begun) > 5*time.Minute {
			t.Errorf("the poll ends with %v, %v after %s", outcome, err, time.Since(begun))
		}
		if got := r.Take(1, nil).Partitions; len(got) != 1 || got[0] != partitions {
			t.Errorf("takes %v", got)
		}
		if walked := db.walked.Load(); walked > partitions+5*walkLimit { // a page that was asked for when the time was over is asked for again
			t.Errorf("walked %d partitions", walked)
		}
	})
}

func TestSearch_NobodyWaitsForIsNotGoneOnWith(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		db := wide(20 * walkLimit)
		s := play(t, db, 1000, never)
		defer s.stop()
		r := s.index.Ring(orders, all)
		if err := r.Search(t.Context(), r.Ticket()); !Unfinished(err) {
			t.Fatal(err)
		}
		r.Spot().Recheck()
		time.Sleep(time.Hour)
		if walked := db.walked.Load(); walked > 15*walkLimit {
			t.Errorf("walked %d partitions", walked)
		}
		var err error
		for searches := 0; ; searches++ {
			if err = r.Search(t.Context(), r.Ticket()); !Unfinished(err) || searches > 5 {
				break
			}
		}
		if err != nil || r.More() {
			t.Errorf("%v, more: %v", err, r.More())
		}
	})
}

func TestSearch_ThatHasFoundSomethingKeepsNobodyWaiting(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		db := wide(20 * walkLimit)
		db.push(7)
		s := play(t, db, 1000, never)
		defer s.stop()
		r := s.index.Ring(orders, all)
		if err := r.Search(t.Context(), r.Ticket()); err != nil {
			t.Fatal(err)
		}
		if got, walked := r.Take(1, nil).Partitions, db.walked.Load(); len(got) != 1 || got[0] != 7 || walked != walkLimit || !r.More() {
			t.Errorf("takes %v after %d partitions, more: %v", got, walked, r.More())
		}
	})
}
