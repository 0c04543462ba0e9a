package ready

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"queen.internal/pkg/store/group"
	"queen.internal/services/deliver/internal/wait"
)

func TestTake_WhatMustBeAloneComesFirstAndAlone(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		db := newDatabase(1, 0)
		for id := range int64(4) {
			db.push(id + 1)
		}
		s := play(t, db, 100, never)
		defer s.stop()
		r := s.ring(t)
		taking := r.Take(3, nil)
		result := group.ClaimResult{Clock: time.Now()}
		for _, id := range taking.Partitions {
			verdict := group.Took
			if id == 2 {
				verdict = group.Alone
			}
			result.Claims = append(result.Claims, group.Claim{PartitionID: id, Verdict: verdict, Until: time.Now().Add(time.Hour)})
		}
		r.Return(taking, result, false)
		first := r.Take(3, nil)
		if diff := cmp.Diff([]int64{2}, first.Partitions); diff != "" {
			t.Error(diff)
		}
		returned(r, first, group.Empty, 0)
		if diff := cmp.Diff([]int64{4}, r.Take(3, nil).Partitions); diff != "" {
			t.Error(diff)
		}
	})
}

func TestTake_EndsBeforeWhatMustBeAlone(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		db := newDatabase(1, 0)
		db.push(1)
		db.push(2)
		s := play(t, db, 100, never)
		defer s.stop()
		r := s.ring(t)
		one, two := r.Take(1, nil), r.Take(1, nil)
		returned(r, two, group.Alone, 0)
		returned(r, one, group.Gone, 0)
		db.push(3)
		if err := r.Search(t.Context(), r.Ticket()); err != nil {
			t.Fatal(err)
		}
		var takings [][]int64
		for taking := r.Take(5, nil); len(taking.Partitions) > 0; taking = r.Take(5, nil) {
			takings = append(takings, taking.Partitions)
		}
		if diff := cmp.Diff([][]int64{{2}, {1, 3}}, takings); diff != "" {
			t.Error(diff)
		}
	})
}

func TestReturn_AHeadThatCannotBeFiledRests(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		db := newDatabase(1, 0)
		db.push(1)
		s := play(t, db, 100, never)
		defer s.stop()
		r := s.ring(t)
		returned(r, r.Take(1, nil), group.Exhausted, 0)
		if taking := r.Take(1, nil); len(taking.Partitions) != 0 {
			t.Errorf("offered at once: %v", taking.Partitions)
		}
		time.Sleep(failedPause) // of the bubble's clock
		if taking := r.Take(1, nil); len(taking.Partitions) != 1 {
			t.Error("never offered again")
		}
	})
}

func TestFilling_AsksRarelyWhatTheQueueWants(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		db := newDatabase(1, 0)
		db.minWait = time.Second
		s := play(t, db, 100, never)
		defer s.stop()
		f := s.index.Ring(orders, all).Filling()
		ask := func(want time.Duration, estimates int) {
			t.Helper()
			if got, err := f.MinWait(t.Context()); err != nil || got != want || db.estimates != estimates {
				t.Errorf("%v %v after %d questions", got, err, db.estimates)
			}
		}
		ask(time.Second, 1) // the first contact included
		db.minWait = 0
		ask(time.Second, 1)
		time.Sleep(time.Minute) // Options.Refresh, of the bubble's clock
		ask(0, 2)
		db.subscription++ // the queue is another one
		r := s.index.Ring(orders, all)
		if err := r.Search(t.Context(), r.Ticket()); err != nil {
			t.Fatal(err)
		}
		db.minWait = time.Hour
		ask(time.Hour, 3)
		time.Sleep(time.Minute)
		db.with(func() { db.fail = errors.New("away") })
		if _, err := f.MinWait(t.Context()); !errors.Is(err, db.fail) {
			t.Error(err)
		}
	})
}

func TestFilling_OneEstimateForAllWhoWait(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		db := newDatabase(1, 0)
		db.push(1)
		s := play(t, db, 100, wait.Intervals{Initial: time.Second, Threshold: 1000, Multiplier: 1, Max: time.Second})
		defer s.stop()
		r := s.ring(t)
		f := r.Filling()
		if err := f.Estimate(t.Context()); err != nil || f.Messages() != 1 {
			t.Fatal(f.Messages(), err)
		}
		one, two := parked(t, f.Spot()), parked(t, f.Spot())
		idle := parked(t, r.Spot()) // news is for who has nothing, not for those who wait for more
		time.Sleep(10 * time.Second)
		synctest.Wait()
		if len(one)+len(two)+len(idle) > 0 {
			t.Fatal("woken by nothing")
		}
		estimates := db.estimates
		db.push(2)
		time.Sleep(2 * time.Second)
		synctest.Wait()
		if len(one) != 1 || len(two) != 1 || len(idle) != 1 || f.Messages() != 2 {
			t.Errorf("%d, %d and %d are woken, %d messages", len(one), len(two), len(idle), f.Messages())
		}
		if n := db.estimates - estimates; n > 2 {
			t.Errorf("%d estimates in two rounds", n)
		}
	})
}

func TestFilling_HearsOfMore(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		db := newDatabase(1, 0)
		db.push(1)
		s := play(t, db, 100, never)
		defer s.stop()
		r := s.ring(t)
		f := r.Filling()
		if err := f.Estimate(t.Context()); err != nil {
			t.Fatal(err)
		}
		poll := parked(t, f.Spot())
		db.push(1) // a partition that is queued already, so nobody at the ring's spot is told
		s.index.Wake(orders.Tenant, orders.Queue, 1, 0)
		synctest.Wait()
		if len(poll) != 1 || f.Messages() != 2 {
			t.Errorf("%d woken, %d messages", len(poll), f.Messages())
		}
	})
}
