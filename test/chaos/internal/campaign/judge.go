package campaign

import (
	"context"
	"fmt"
	"path/filepath"
	"slices"
	"time"

	"queen.internal/test/chaos/internal/fault"
	"queen.internal/test/chaos/internal/judge"
	"queen.internal/test/chaos/internal/load"
	"queen.internal/test/history"
)

// What is promised while the database's clock is moved (docs/reliability.md): a lease may end half a second early, which is
// by how much the guard of deliver trusts a clock that differs from its own, and lasts for a while longer when the clock moves
// again before deliver has made up its mind about the move before.
const (
	clockEarly = 520 * time.Millisecond
	clockLate  = 10 * time.Second
)

// judge looks at everything.
func (r *run) judge(ctx context.Context, before map[string]judge.Resources) error {
	for _, q := range r.queues {
		if err := r.judgeQueue(ctx, q); err != nil {
			return err
		}
	}
	for _, crash := range r.stand.Crashes() {
		r.wrong("crash: " + crash)
	}
	r.wrong(r.awaitRest(ctx, before)...)
	loud, err := judge.Loud(r.stand.Stack.Dir())
	r.wrong(loud...)
	r.judgeWork()
	return err
}

// judgeQueue compares what the clients of a queue saw with what is stored.
func (r *run) judgeQueue(ctx context.Context, q *load.Queue) error {
	h := q.History()
	if slices.ContainsFunc(r.Faults, func(f fault.Fault) bool { return f.Needs.Clock }) {
		h.Skew, h.Late = clockEarly, clockLate
	}
	log, wrong, err := history.ReadLog(ctx, r.stand.DB(), q.Queue)
	if err != nil {
		return err
	}
	h.Log = log
	for _, v := range append(wrong, history.Check(h)...) {
		r.wrong(q.Name + ": " + v.String())
	}
	for _, text := range q.Altered() {
		r.wrong(q.Name + ": payload: " + text)
	}
	letters, findings, err := judge.Letters(ctx, r.stand.DB(), q.Queue, q.RetryLimit, h)
	for _, text := range findings {
		r.wrong(q.Name + ": " + text)
	}
	r.verdict.Counts["letters"] += letters
	r.count(h)
	return err
}

// awaitRest waits until no process holds more than before.
func (r *run) awaitRest(ctx context.Context, before map[string]judge.Resources) (wrong []string) {
	for begun := time.Now(); time.Since(begun) < restLimit && ctx.Err() == nil; pause(ctx, 200*time.Millisecond) {
		sessions, err := judge.Sessions(ctx, r.stand.DB())
		if wrong = append(judge.Grown(before, judge.Hold(ctx, r.stand)), sessions...); len(wrong) == 0 && err == nil {
			return nil
		}
	}
	return wrong
}

// count is what the verdict tells of a history.
func (r *run) count(h *history.History) {
	counts := r.verdict.Counts
	for _, entries := range h.Log {
		counts["stored"] += len(entries)
	}
	for i := range h.Pushes {
		for _, item := range h.Pushes[i].Items {
			if item.Status != "" {
				counts[item.Status]++
			}
		}
	}
	for i := range h.Pops {
		for _, span := range h.Pops[i].Spans {
			counts["delivered"] += len(span.IDs)
			if span.Attempt > 1 {
				counts["redelivered"] += len(span.IDs)
			}
		}
	}
	for i := range h.Acks {
		for _, item := range h.Acks[i].Items {
			if item.OK && !item.Noop {
				counts["acked"]++
			}
		}
	}
}

// judgeWork says what the run has not shown.
func (r *run) judgeWork() {
	operations := 0
	for _, kind := range []string{"push", "pop", "ack", "extend"} {
		operations += r.journal.Count(kind, "ok")
		r.verdict.Counts["unknown"] += r.journal.Count(kind, "unknown")
	}
	r.verdict.Counts["operations"] = operations
	if operations < r.Floor {
		r.lack(fmt.Errorf("%d operations were answered, %d are wanted", operations, r.Floor))
	}
	for name, t := range r.verdict.Faults {
		if t.Doses == 0 || t.Met < t.Doses {
			r.lack(fmt.Errorf("%s: %d of %d doses met work (%s)", name, t.Met, t.Doses, filepath.Join(r.Dir, "history.jsonl")))
		}
	}
}
