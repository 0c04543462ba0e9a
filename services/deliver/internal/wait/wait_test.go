package wait

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"
	"pgregory.net/rapid"

	"queen.internal/pkg/queue"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// source is a Source that notes when it was asked.
type source struct {
	mu       sync.Mutex
	began    time.Time
	rechecks []time.Duration
	dues     []time.Duration
	recheck  func() error
	due      func()
}

func (s *source) Due(time.Time) {
	s.mu.Lock()
	s.dues = append(s.dues, time.Since(s.began))
	s.mu.Unlock()
	if s.due != nil {
		s.due()
	}
}

func (s *source) Recheck(context.Context) error {
	s.mu.Lock()
	s.rechecks = append(s.rechecks, time.Since(s.began))
	s.mu.Unlock()
	if s.recheck != nil {
		return s.recheck()
	}
	return nil
}

// asked is when rechecks and due times came, since the source began or was last restarted.
func (s *source) asked() (rechecks, dues []time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.rechecks), slices.Clone(s.dues)
}

func (s *source) restart() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.began, s.rechecks, s.dues = time.Now(), nil, nil
}

// yard is a running lot with one spot.
type yard struct {
	*Lot
	spot *Spot
	src  *source
	log  *bytes.Buffer
	stop func()
}

var contractIntervals = Intervals{Initial: 100 * time.Millisecond, Threshold: 3, Multiplier: 2, Max: time.Second}

func open(t *testing.T, maxParked int) *yard {
	t.Helper()
	y := &yard{src: &source{began: time.Now()}, log: new(bytes.Buffer)}
	y.Lot = New(Options{MaxParked: maxParked, Workers: 2, Intervals: contractIntervals, Logger: slog.New(slog.NewTextHandler(y.log, nil))})
	y.spot = y.Spot(y.src)
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- y.Run(ctx) }()
	y.stop = sync.OnceFunc(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Errorf("the lot ends with %v", err)
		}
	})
	return y
}

// result is how a poll ended.
type result struct {
	Outcome Outcome
	After   time.Duration
}

// park parks a poll on a goroutine of its own.
func (y *yard) park(ctx context.Context, poll *Poll, timeout time.Duration) <-chan result {
	ended := make(chan result, 1)
	began := time.Now()
	version := y.spot.Version()
	go func() {
		outcome, err := y.spot.Park(ctx, poll, version, time.Now().Add(timeout), nil)
		if err != nil {
			outcome = -1
		}
		ended <- result{outcome, time.Since(began)}
	}()
	synctest.Wait()
	return ended
}

func TestPark_Outcomes(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		y := open(t, 10)
		defer y.stop()
		ctx, cancel := context.WithCancel(t.Context())
		left, timedOut, woken := y.park(ctx, new(Poll), time.Hour), y.park(t.Context(), new(Poll), time.Minute), y.park(t.Context(), new(Poll), time.Hour)
		if y.Parked() != 3 || !y.spot.Parked() {
			t.Errorf("%d parked", y.Parked())
		}
		time.Sleep(time.Second)
		cancel()
		if got := <-left; got != (result{Left, time.Second}) {
			t.Errorf("%+v", got)
		}
		if got := <-timedOut; got != (result{TimedOut, time.Minute}) {
			t.Errorf("%+v", got)
		}
		if n := y.spot.Wake(5); n != 1 {
			t.Errorf("woke %d", n)
		}
		if got := <-woken; got != (result{Woken, time.Minute}) {
			t.Errorf("%+v", got)
		}
		draining := make(chan struct{})
		drained := make(chan Outcome, 1)
		go func() {
			outcome, _ := y.spot.Park(t.Context(), new(Poll), y.spot.Version(), time.Now().Add(time.Hour), draining)
			drained <- outcome
		}()
		synctest.Wait()
		close(draining)
		if got := <-drained; got != Drained {
			t.Errorf("%v", got)
		}
		if y.Parked() != 0 || y.spot.Parked() {
			t.Errorf("%d parked", y.Parked())
		}
	})
}

func TestPark_ReturnsAtOnce(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		y := open(t, 10)
		defer y.stop()
		over, cancel := context.WithCancel(t.Context())
		cancel()
		drained := make(chan struct{})
		close(drained)
		hour := time.Now().Add(time.Hour)
		version := y.spot.Version()
		y.spot.Wake(1) // nobody is parked: who looked before must look again
		for _, test := range []struct {
			ctx      context.Context
			deadline time.Time
			draining chan struct{}
			want     Outcome
		}{
			{t.Context(), hour, nil, Woken},
			{t.Context(), time.Now(), nil, TimedOut},
			{over, hour, nil, Left},
			{t.Context(), hour, drained, Drained},
		} {
			if got, err := y.spot.Park(test.ctx, new(Poll), version, test.deadline, test.draining); got != test.want || err != nil {
				t.Errorf("outcome %v, %v, want %v", got, err, test.want)
			}
		}
	})
}

func TestPark_BoundIsExact(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		y := open(t, 2)
		defer y.stop()
		first, second := y.park(t.Context(), new(Poll), time.Minute), y.park(t.Context(), new(Poll), time.Hour)
		_, err := y.spot.Park(t.Context(), new(Poll), y.spot.Version(), time.Now().Add(time.Hour), nil)
		var full *queue.Error
		if !errors.As(err, &full) || full.Kind != queue.KindOverloaded || full.RetryAfter == 0 {
			t.Errorf("error %v", err)
		}
		<-first
		third := y.park(t.Context(), new(Poll), time.Hour)
		y.spot.Wake(2)
		if (<-second).Outcome != Woken || (<-third).Outcome != Woken {
			t.Error("a poll within the bound was not parked")
		}
	})
}

func TestWake_FirstComeFirstServed(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		y := open(t, 10)
		defer y.stop()
		polls := make([]Poll, 3)
		ended := make([]<-chan result, 3)
		for i := range polls {
			ended[i] = y.park(t.Context(), &polls[i], time.Hour)
		}
		y.spot.Wake(2)
		<-ended[0]
		<-ended[1]
		// Both found nothing: they are before the third again, in their old order.
		ended[1] = y.park(t.Context(), &polls[1], time.Hour)
		ended[0] = y.park(t.Context(), &polls[0], time.Hour)
		for i := range polls {
			if n := y.spot.Wake(1); n != 1 {
				t.Fatalf("woke %d", n)
			}
			<-ended[i]
		}
	})
}

func TestBackstop_PaceIsTheContracts(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		y := open(t, 100)
		defer y.stop()
		for range 50 { // however many polls: one recheck for all
			y.park(t.Context(), new(Poll), 4500*time.Millisecond)
		}
		time.Sleep(10 * time.Second) // the second half without polls
		ms := func(n int) time.Duration { return time.Duration(n) * time.Millisecond }
		longest := []time.Duration{ms(100), ms(100), ms(100), ms(200), ms(400), ms(800), ms(1000), ms(1000)}
		got, _ := y.src.asked()
		if len(got) < len(longest) || len(got) > len(longest)+1 {
			t.Fatalf("looked %d times, at %v", len(got), got)
		}
		var before time.Duration
		for i, most := range longest { // or up to a quarter less, for company
			if pause := got[i] - before; pause > most || pause < most*3/4 {
				t.Errorf("pause %d is %v, want about %v", i, pause, most)
			}
			before = got[i]
		}
	})
}

// Spots at which polls came to park at any time are looked at together once they are idle.
func TestBackstop_IdleSpotsAreLookedAtTogether(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		first := open(t, 1000)
		defer first.stop()
		sources := []*source{first.src}
		for range 99 {
			time.Sleep(7 * time.Millisecond)
			src := &source{began: first.src.began}
			spot := first.Spot(src)
			sources = append(sources, src)
			go func() {
				if _, err := spot.Park(t.Context(), new(Poll), spot.Version(), time.Now().Add(time.Minute), nil); err != nil {
					t.Error(err)
				}
			}()
		}
		first.park(t.Context(), new(Poll), time.Minute)
		time.Sleep(time.Minute)
		moments := map[time.Duration]bool{}
		for _, src := range sources {
			asked, _ := src.asked()
			for _, at := range asked[len(asked)-10:] {
				moments[at.Truncate(time.Millisecond)%time.Second] = true
			}
		}
		if len(moments) > 4 {
			t.Errorf("rechecks are made at %d moments of a second", len(moments))
		}
	})
}

func TestBackstop_AWakeBeginsAnew(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		y := open(t, 10)
		defer y.stop()
		y.park(t.Context(), new(Poll), 2*time.Hour)
		y.park(t.Context(), new(Poll), 2*time.Hour)
		time.Sleep(time.Hour + 50*time.Millisecond)
		y.spot.Wake(1)
		y.src.restart()
		time.Sleep(350 * time.Millisecond)
		if got, _ := y.src.asked(); len(got) != 3 || got[0] > 100*time.Millisecond {
			t.Errorf("rechecks after a wake: %v", got)
		}
		y.spot.Wake(1)
		synctest.Wait()
	})
}

func TestBackstop_ForcedRecheckNeedsNoPoll(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		y := open(t, 10)
		defer y.stop()
		again := true
		y.src.recheck = func() error {
			if again {
				again = false
				y.spot.Recheck() // news during a recheck: it may have looked too early
			}
			return nil
		}
		y.spot.Recheck()
		time.Sleep(time.Hour)
		if got, _ := y.src.asked(); len(got) != 2 {
			t.Errorf("rechecks: %v", got)
		}
	})
}

func TestDue_IsToldOnceAPollIsParked(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		y := open(t, 10)
		defer y.stop()
		y.src.due = func() { y.spot.Wake(1) }
		start := time.Now()
		y.spot.Due(start.Add(20 * time.Millisecond))
		y.spot.Due(start.Add(10 * time.Millisecond))
		y.spot.Due(start.Add(30 * time.Millisecond))
		time.Sleep(time.Second)
		if _, got := y.src.asked(); len(got) != 0 {
			t.Errorf("told at %v without a poll", got)
		}
		if got := <-y.park(t.Context(), new(Poll), time.Hour); got != (result{Woken, 0}) {
			t.Errorf("a poll that comes after the time: %+v", got)
		}
		y.spot.Due(time.Now().Add(15 * time.Millisecond))
		if got := <-y.park(t.Context(), new(Poll), time.Hour); got != (result{Woken, 15 * time.Millisecond}) {
			t.Errorf("a poll that comes before the time: %+v", got)
		}
	})
}

func TestBackstop_LogsWhenItBeginsToFailAndWhenItWorksAgain(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		y := open(t, 10)
		defer y.stop()
		var down atomic.Bool
		down.Store(true)
		y.src.recheck = func() error {
			if down.Load() {
				return errors.New("no database")
			}
			return nil
		}
		y.park(t.Context(), new(Poll), time.Minute)
		time.Sleep(20 * time.Second)
		down.Store(false)
		time.Sleep(time.Minute)
		y.stop() // the log is read below
		lines := strings.Split(strings.TrimSpace(y.log.String()), "\n")
		if len(lines) != 2 || !strings.Contains(lines[0], "no database") || !strings.Contains(lines[1], "works again") {
			t.Errorf("log: %s", y.log)
		}
	})
}

func TestRun_ASlowRecheckHoldsUpNobodyElse(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		y := open(t, 10)
		defer y.stop()
		hang := make(chan struct{})
		y.src.recheck = func() error { <-hang; return nil }
		other := &source{began: time.Now()}
		spot := y.Spot(other)
		other.recheck = func() error { spot.Wake(1); return nil }
		y.park(t.Context(), new(Poll), time.Minute)
		outcome, err := spot.Park(t.Context(), new(Poll), 0, time.Now().Add(time.Minute), nil)
		if outcome != Woken || err != nil {
			t.Errorf("%v, %v", outcome, err)
		}
		time.Sleep(2 * time.Minute)
		if got, _ := y.src.asked(); len(got) != 1 {
			t.Errorf("a spot is rechecked %d times at once", len(got))
		}
		close(hang)
	})
}

// TestWake_IsNeverLost runs random histories: polls leave while wakes come. Every wake that said it woke a poll ends exactly
// one as Woken, or came back because nobody was left.
func TestWake_IsNeverLost(t *testing.T) {
	t.Parallel()
	type step struct {
		wakes      int
		leaves     int // which poll leaves at the same moment
		leaveFirst bool
		settle     bool
	}
	steps := rapid.SliceOfN(rapid.Custom(func(rt *rapid.T) step {
		return step{rapid.IntRange(0, 3).Draw(rt, "wakes"), rapid.IntRange(0, 15).Draw(rt, "leaves"), rapid.Bool().Draw(rt, "first"), rapid.Bool().Draw(rt, "settle")}
	}), 1, 20)
	rapid.Check(t, func(rt *rapid.T) {
		polls, history := rapid.IntRange(1, 16).Draw(rt, "polls"), steps.Draw(rt, "history")
		var fault string
		synctest.Test(t, func(t *testing.T) {
			y := open(t, 1000)
			defer y.stop()
			var granted int
			ended := make(chan Outcome, polls)
			leave := make([]context.CancelFunc, polls)
			for i := range polls {
				var ctx context.Context
				ctx, leave[i] = context.WithCancel(t.Context())
				go func() {
					outcome, _ := y.spot.Park(ctx, new(Poll), 0, time.Now().Add(time.Hour), nil)
					ended <- outcome
				}()
			}
			synctest.Wait()
			for _, s := range history {
				if s.leaveFirst && s.leaves < polls {
					leave[s.leaves]()
				}
				granted += y.spot.Wake(s.wakes)
				if !s.leaveFirst && s.leaves < polls {
					leave[s.leaves]()
				}
				if s.settle {
					synctest.Wait()
				}
			}
			synctest.Wait()
			parked, woken := y.Parked(), 0
			if parked+len(ended) != polls {
				fault = fmt.Sprintf("%d polls: %d parked, %d ended", polls, parked, len(ended))
			}
			for range len(ended) {
				if <-ended == Woken {
					woken++
				}
			}
			if woken > granted || parked > 0 && woken < granted {
				fault = fmt.Sprintf("%d wakes were given, %d polls have one, %d still wait", granted, woken, parked)
			}
			for i := range leave {
				leave[i]()
			}
			synctest.Wait()
			if y.Parked() != 0 {
				fault = fmt.Sprintf("%d parked after all left", y.Parked())
			}
		})
		if fault != "" {
			rt.Fatal(fault)
		}
	})
}

func TestRun_StopsWhileItWorks(t *testing.T) {
	t.Parallel()
	for range 50 {
		y := open(t, 100)
		var polls sync.WaitGroup
		draining := make(chan struct{})
		for range 10 {
			polls.Go(func() {
				_, _ = y.spot.Park(context.Background(), new(Poll), y.spot.Version(), time.Now().Add(time.Hour), draining)
			})
		}
		y.spot.Recheck()
		y.spot.Wake(3)
		y.stop()
		close(draining)
		polls.Wait()
	}
}
