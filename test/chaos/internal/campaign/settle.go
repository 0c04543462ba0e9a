package campaign

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"sync"
	"time"
)

// The bounds of what must come back by itself after the last healing. A correct Queen on an idle machine takes a second or
// two, which the verdict tells; what is far beyond these is a stall and not a slow machine.
const (
	backLimit  = 90 * time.Second
	drainLimit = 150 * time.Second
	spoolLimit = 90 * time.Second
	restLimit  = time.Minute
)

// recover waits, under load, until pushes are queued and messages delivered again.
func (r *run) recover(ctx context.Context) {
	healed := time.Now()
	r.journal.Note("everything is healed")
	within := func(limit time.Duration, what string, is func(context.Context) bool) time.Duration {
		ctx, cancel := context.WithDeadline(ctx, healed.Add(limit))
		defer cancel()
		for !is(ctx) {
			if ctx.Err() != nil {
				r.wrong(fmt.Sprintf("liveness: %s within %v", what, limit))
				break
			}
			pause(ctx, 20*time.Millisecond)
		}
		return time.Since(healed)
	}
	r.verdict.Push = within(backLimit, "no push was queued", func(ctx context.Context) bool { return r.queues[0].Canary(ctx) })
	r.verdict.Pop = within(backLimit, "no message was delivered", func(ctx context.Context) bool { return r.queues[0].CanaryDelivered(ctx) })
}

// settle empties the spools and reads all queues to their ends.
func (r *run) settle(ctx context.Context) error {
	begun := time.Now()
	if pending := r.awaitSpools(ctx); pending != 0 {
		r.wrong(fmt.Sprintf("liveness: the spools hold %d messages %v after the last healing", pending, spoolLimit))
	}
	r.verdict.Counts["spool_ms"] = int(time.Since(begun).Milliseconds())
	begun = time.Now()
	limited, cancel := context.WithTimeout(ctx, drainLimit)
	defer cancel()
	var draining sync.WaitGroup
	errs, left := make([]error, len(r.queues)), make([][]string, len(r.queues))
	for i, q := range r.queues {
		draining.Go(func() { left[i], errs[i] = q.Drain(limited, r.stand.DB()) })
	}
	draining.Wait()
	for i, q := range r.queues {
		for _, group := range left[i] {
			r.wrong(fmt.Sprintf("liveness: group %s of %s has not read everything within %v", group, q.Queue, drainLimit))
		}
	}
	r.verdict.Drain = time.Since(begun)
	return errors.Join(append(errs, context.Cause(ctx))...)
}

// awaitSpools returns what the spools still hold in the end; -1 when nobody tells.
func (r *run) awaitSpools(ctx context.Context) (pending int) {
	ctx, cancel := context.WithTimeout(ctx, spoolLimit)
	defer cancel()
	for pending = -1; pending != 0 && ctx.Err() == nil; pause(ctx, 50*time.Millisecond) {
		if b, err := buffers(ctx, r.stand.URL("edge")); err == nil && b.DBHealthy && len(b.Servers) == 2 {
			pending = b.Pending
			r.verdict.Counts["spool_failed"] = b.Failed
		}
	}
	return pending
}

// spoolState is what the edge tells of all ingests.
type spoolState struct {
	Pending, Failed int
	DBHealthy       bool
	Servers         []struct{ Server, Error string }
}

func buffers(ctx context.Context, edge string) (b spoolState, err error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, edge+"/api/v1/status/buffers", http.NoBody)
	if err != nil {
		return b, err
	}
	request.Close = true
	answer, err := http.DefaultClient.Do(request)
	if err != nil {
		return b, err
	}
	defer func() { _ = answer.Body.Close() }()
	text, err := io.ReadAll(answer.Body)
	if err == nil {
		err = json.Unmarshal(text, &b)
	}
	for _, s := range b.Servers {
		if s.Error != "" && err == nil {
			err = fmt.Errorf("%s: %s", s.Server, s.Error)
		}
	}
	return b, err
}

func pause(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
}
