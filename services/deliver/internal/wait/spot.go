package wait

import (
	"container/list"
	"context"
	"time"
)

// Spot is where the polls park that wait for the same work. Its methods are safe for concurrent use.
type Spot struct {
	lot    *Lot
	source Source

	// All below is guarded by the lot's mutex.
	version  uint64    // wakes so far
	parked   list.List // of *Poll, in order of arrival
	empty    int       // rounds of the backstop since the last wake
	checking bool      // a recheck is under way or waits for a worker
	forced   bool      // the next recheck was asked for, and runs even when no poll is parked
	next     time.Time // of the next recheck; zero: none is planned
	due      time.Time // when the source is to be told; zero: never
	place    int       // in the schedule, or unscheduled
}

// Poll is one long poll, which may park several times. The zero value is ready; it belongs to one request.
type Poll struct {
	Halted <-chan struct{} // closed when polls are to be answered without waiting; nil: never

	arrival uint64 // number of its first parking
	wake    chan struct{}
	woken   bool
	element *list.Element
}

// Outcome is why a poll stopped waiting.
type Outcome int

// The outcomes of Park.
const (
	Woken    Outcome = iota // there may be work: look, and park again if not
	TimedOut                // the deadline came
	Drained                 // the process is stopping
	Halted                  // Poll.Halted was closed
	Left                    // the request's context ended: nobody reads the answer
)

// Version is the number of wakes so far. Read it before looking for work and give it to Park.
func (s *Spot) Version() uint64 {
	s.lot.mu.Lock()
	defer s.lot.mu.Unlock()
	return s.version
}

// Parked says whether a poll is parked here.
func (s *Spot) Parked() bool {
	s.lot.mu.Lock()
	defer s.lot.mu.Unlock()
	return s.parked.Len() > 0
}

// Park waits until poll is woken, deadline, draining or Poll.Halted is closed, or ctx ends. It returns Woken at once when a wake came
// after version was read, unless the wait is over anyway. The error is of kind Overloaded: as many polls are parked as
// may be.
func (s *Spot) Park(ctx context.Context, poll *Poll, version uint64, deadline time.Time, draining <-chan struct{}) (Outcome, error) {
	select {
	case <-draining:
		return Drained, nil
	case <-poll.Halted:
		return Halted, nil
	case <-ctx.Done():
		return Left, nil
	default:
	}
	if !time.Now().Before(deadline) {
		return TimedOut, nil
	}
	if changed, err := s.enter(poll, version); changed || err != nil {
		return Woken, err
	}
	timer := time.NewTimer(time.Until(deadline))
	defer timer.Stop()
	outcome := Woken
	select {
	case <-poll.wake:
		return Woken, nil
	case <-timer.C:
		outcome = TimedOut
	case <-draining:
		outcome = Drained
	case <-poll.Halted:
		outcome = Halted
	case <-ctx.Done():
		outcome = Left
	}
	s.leave(poll)
	return outcome, nil
}

func (s *Spot) enter(poll *Poll, version uint64) (changed bool, err error) {
	l := s.lot
	l.mu.Lock()
	defer l.mu.Unlock()
	if s.version != version {
		return true, nil
	}
	// A poll that was woken in vain keeps its place: its client has waited already, and at worst as many are parked
	// beyond the bound as were looking for work when others came.
	if poll.arrival == 0 && l.parked >= l.options.MaxParked {
		return false, l.full()
	}
	l.parked++
	if poll.arrival == 0 {
		l.arrivals++
		poll.arrival = l.arrivals
	}
	poll.woken, poll.wake = false, make(chan struct{})
	s.insert(poll)
	if s.parked.Len() == 1 && !s.checking && !s.forced {
		s.empty = 0
		s.next = time.Now().Add(l.options.Intervals.pause(0))
	}
	l.reschedule(s)
	return false, nil
}

// insert puts poll behind those that arrived before it. A new poll belongs at the end, one that was woken in vain at or
// near the front, so neither search is long.
func (s *Spot) insert(poll *Poll) {
	if last := s.parked.Back(); last == nil || last.Value.(*Poll).arrival < poll.arrival {
		poll.element = s.parked.PushBack(poll)
		return
	}
	e := s.parked.Front()
	for e.Value.(*Poll).arrival < poll.arrival {
		e = e.Next()
	}
	poll.element = s.parked.InsertBefore(poll, e)
}

// leave takes out a poll that ends for a reason of its own, and passes on the wake that it may have got.
func (s *Spot) leave(poll *Poll) {
	l := s.lot
	l.mu.Lock()
	defer l.mu.Unlock()
	if poll.woken {
		s.wake(1)
		return
	}
	s.remove(poll)
	l.reschedule(s)
}

func (s *Spot) remove(poll *Poll) {
	s.parked.Remove(poll.element)
	poll.element = nil
	s.lot.parked--
}

// Wake says that there is work for n more polls. It returns how many parked polls it woke, at most n, those first that
// came first. A poll that is about to park looks again.
func (s *Spot) Wake(n int) int {
	s.lot.mu.Lock()
	defer s.lot.mu.Unlock()
	return s.wake(n)
}

func (s *Spot) wake(n int) int {
	l := s.lot
	s.version++
	s.empty = 0
	woken := 0
	for ; woken < n && s.parked.Len() > 0; woken++ {
		poll := s.parked.Front().Value.(*Poll)
		s.remove(poll)
		poll.woken = true
		close(poll.wake)
	}
	if soon := time.Now().Add(l.options.Intervals.pause(0)); s.next.After(soon) {
		s.next = soon
	}
	l.reschedule(s)
	return woken
}

// Due asks for Source.Due at that time or soon after, once a poll is parked. Of several times given the earliest
// counts; the source gives the next one when it is called.
func (s *Spot) Due(at time.Time) {
	l := s.lot
	l.mu.Lock()
	defer l.mu.Unlock()
	if s.due.IsZero() || at.Before(s.due) {
		s.due = at
		l.reschedule(s)
	}
}

// Recheck asks for a recheck now, whether a poll is parked or not.
func (s *Spot) Recheck() { s.RecheckIn(0) }

// RecheckIn asks for a recheck at that time from now, or before.
func (s *Spot) RecheckIn(pause time.Duration) {
	l := s.lot
	l.mu.Lock()
	defer l.mu.Unlock()
	at := time.Now().Add(pause)
	if s.forced && !s.next.IsZero() && s.next.Before(at) {
		return
	}
	s.forced = true
	if !s.checking { // otherwise another follows the one under way, which may have looked too early
		s.next = at
		l.reschedule(s)
	}
}

// at is the earliest time at which something is to be done here; zero: nothing is. Without a parked poll only a forced
// recheck is worth the work.
func (s *Spot) at() time.Time {
	switch {
	case s.parked.Len() == 0 && s.forced:
		return s.next
	case s.parked.Len() == 0:
		return time.Time{}
	case s.next.IsZero():
		return s.due
	case s.due.IsZero() || s.next.Before(s.due):
		return s.next
	}
	return s.due
}
