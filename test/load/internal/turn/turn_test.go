package turn

import (
	"context"
	"errors"
	"math"
	"testing"
	"testing/synctest"
	"time"
)

// near allows for the three digits that a histogram keeps.
func near(got, want float64) bool { return math.Abs(got-want) <= want*0.002+0.001 }

func TestFilledShowsWhatACallerAtThatPaceWouldHaveWaited(t *testing.T) {
	t.Parallel()
	m := NewMeter()
	m.measuring.Store(true)
	r := m.Recorder()
	for range 900 {
		r.Filled(Push, time.Millisecond, 10*time.Millisecond)
	}
	r.Filled(Push, time.Second, 10*time.Millisecond) // in whose time 99 more calls were due
	got := timesOf(m.merged())["push"]
	if got.Count != 1000 || !near(got.P50, 1) || !near(got.P99, 900) || !near(got.Max, 1000) {
		t.Errorf("%+v", got)
	}
}

func TestTookLeavesTheStallASingleValue(t *testing.T) {
	t.Parallel()
	m := NewMeter()
	m.measuring.Store(true)
	one, two := m.Recorder(), m.Recorder()
	for range 998 {
		one.Took(Ack, time.Millisecond)
	}
	two.Took(Ack, time.Second)
	two.Took(Ack, 2*time.Hour) // longer than what is told apart
	two.Took(Pop, -time.Second)
	got := timesOf(m.merged())
	if a := got["ack"]; a.Count != 1000 || !near(a.P99, 1) || !near(a.Max, 3_600_000) {
		t.Errorf("%+v", a)
	}
	if p := got["pop"]; p.Count != 1 || p.Max != 0 {
		t.Errorf("%+v", p)
	}
	if _, found := got["push"]; found {
		t.Error("a time nobody took")
	}
}

func TestOnlyTheWindowCounts(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var ticks []Tick
		plan := Plan{Warmup: 2 * time.Second, Duration: 10 * time.Second, Progress: func(tick Tick) { ticks = append(ticks, tick) }}
		figures, err := Run(t.Context(), plan, func(ctx context.Context, m *Meter) error {
			r := m.Recorder()
			m.Add(Calls, 1)                   // the warm-up begins
			time.Sleep(50 * time.Millisecond) // no call ends at the very moment when the window opens or closes
			for ctx.Err() == nil {
				time.Sleep(100 * time.Millisecond)
				m.Add(Pushed, 5)
				m.Add(Calls, 1)
				r.Took(Push, 100*time.Millisecond)
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
		if !near(figures.Pushed, 50) || !near(figures.Calls, 10) || figures.Popped != 0 || figures.Latencies["push"].Count != 100 {
			t.Errorf("%+v", figures)
		}
		if len(ticks) != 10 || !near(ticks[4].Pushed, 50) {
			t.Errorf("%+v", ticks)
		}
	})
}

func TestWorkThatFailsEndsTheTurn(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		broken := errors.New("no server")
		start := time.Now()
		_, err := Run(t.Context(), Plan{Duration: time.Hour}, func(_ context.Context, m *Meter) error {
			m.Add(Calls, 1)
			time.Sleep(time.Second)
			return broken
		})
		if !errors.Is(err, broken) || time.Since(start) > time.Minute {
			t.Errorf("%v after %v", err, time.Since(start))
		}
		ctx, cancel := context.WithCancelCause(t.Context())
		cancel(broken)
		if _, err := Run(ctx, Plan{Duration: time.Hour}, func(ctx context.Context, _ *Meter) error { <-ctx.Done(); return nil }); !errors.Is(err, broken) {
			t.Error(err)
		}
	})
}

func TestWarmUpBeginsWithTheFirstAnswer(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		start := time.Now()
		figures, err := Run(t.Context(), Plan{Warmup: time.Second, Duration: time.Second}, func(ctx context.Context, m *Meter) error {
			time.Sleep(time.Minute)
			m.Add(Calls, 1)
			<-ctx.Done()
			return nil
		})
		if err != nil || time.Since(start) != 62*time.Second || figures.Seconds != 1 {
			t.Errorf("%+v after %v (%v)", figures, time.Since(start), err)
		}
	})
}

func TestCallsThatFailAreCountedAndTheFirstIsTold(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		figures, err := Run(t.Context(), Plan{Duration: time.Second}, func(ctx context.Context, m *Meter) error {
			m.Fail(errors.New("first"))
			m.Fail(errors.New("second"))
			m.Add(Calls, 1)
			<-ctx.Done()
			return nil
		})
		if err != nil || figures.Failed != 2 || figures.Problem != "first" {
			t.Errorf("%+v (%v)", figures, err)
		}
	})
}
