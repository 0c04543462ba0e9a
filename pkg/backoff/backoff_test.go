package backoff

import (
	"context"
	"errors"
	"math"
	"testing"
	"testing/synctest"
	"time"
)

func TestNextDoublesUpToMaxWithJitterInTheUpperHalf(t *testing.T) {
	t.Parallel()
	p := Policy{Min: 100 * time.Millisecond, Max: time.Second}
	for attempt, bound := range []time.Duration{100, 200, 400, 800, 1000, 1000, 1000} {
		bound *= time.Millisecond
		distinct := map[time.Duration]bool{}
		for range 200 {
			d := p.Next(attempt)
			if d < bound/2 || d > bound {
				t.Fatalf("attempt %d waits %v, want %v to %v", attempt, d, bound/2, bound)
			}
			distinct[d] = true
		}
		if len(distinct) < 10 {
			t.Errorf("attempt %d draws only %d different waits", attempt, len(distinct))
		}
	}
}

func TestNextStaysWithinBoundsForOddPolicies(t *testing.T) {
	t.Parallel()
	for _, p := range []Policy{
		{}, {Min: time.Second}, {Max: time.Second}, {Min: 2 * time.Second, Max: time.Second}, {Min: 1, Max: math.MaxInt64},
	} {
		for _, attempt := range []int{-1, 0, 1, 62, 63, 64, math.MaxInt32} {
			if d := p.Next(attempt); d < 0 || d > p.Max {
				t.Errorf("%+v waits %v after attempt %d", p, d, attempt)
			}
		}
	}
}

func TestSleepEndsWithItsTimeOrItsContext(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		if err := Sleep(t.Context(), time.Minute); err != nil || time.Since(began) != time.Minute {
			t.Errorf("slept %v, %v", time.Since(began), err)
		}
		stop := errors.New("told to stop")
		ctx, cancel := context.WithCancelCause(t.Context())
		time.AfterFunc(time.Second, func() { cancel(stop) })
		began = time.Now()
		if err := Sleep(ctx, time.Minute); !errors.Is(err, stop) || time.Since(began) != time.Second {
			t.Errorf("cut sleep took %v, %v", time.Since(began), err)
		}
		if err := Sleep(ctx, 0); !errors.Is(err, stop) {
			t.Errorf("sleep on an ended context: %v", err)
		}
	})
}
