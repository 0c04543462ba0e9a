// Package backoff spaces out retries: doubling waits with jitter, and a sleep that a context ends. It keeps no state; the
// caller counts its attempts.
package backoff

import (
	"context"
	"math/rand/v2"
	"time"
)

// Policy bounds the waits between attempts.
type Policy struct {
	Min time.Duration // upper bound of the first wait
	Max time.Duration // upper bound of every wait
}

// Next is how long to wait after the attempt with that number, counting from 0. The bound doubles from Min to Max; the
// wait is drawn from its upper half, so that many callers that failed together do not come back together.
func (p Policy) Next(attempt int) time.Duration {
	bound := p.bound(attempt)
	if bound <= 0 {
		return 0
	}
	half := bound / 2
	return half + rand.N(bound-half+1)
}

func (p Policy) bound(attempt int) time.Duration {
	bound := p.Min
	if bound <= 0 {
		return 0 // doubling would never get anywhere
	}
	for ; attempt > 0 && bound < p.Max; attempt-- {
		if bound > p.Max/2 {
			return p.Max // doubling would pass Max, or overflow
		}
		bound *= 2
	}
	return min(bound, p.Max)
}

// Sleep waits for d. It returns early, with the context's cause, when ctx ends; also when ctx had ended before.
func Sleep(ctx context.Context, d time.Duration) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
