package ready

import (
	"context"
	"math/rand/v2"
	"time"

	"queen.internal/pkg/store/group"
)

// sweep walks all partitions of all rings, a page of any ring at a time, until ctx ends. It is the floor under everything:
// what no write, no lease and no announcement leads to is found by it some day.
func (x *Index) sweep(ctx context.Context) {
	rest := x.options.Sweep
	if rest == 0 {
		return
	}
	for {
		pause := time.NewTimer(rest*3/4 + rand.N(rest/2)) // not all processes at once
		select {
		case <-pause.C:
		case <-ctx.Done():
			pause.Stop()
			return
		}
		if rings := x.all(); len(rings) > 0 {
			rings[rand.IntN(len(rings))].sweep(ctx)
		}
	}
}

// sweep looks at one page of the ring's partitions. Its errors are those of searches, which tell them.
func (r *Ring) sweep(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, r.index.options.Timeout)
	defer cancel()
	r.mu.Lock()
	idle := r.known.IsZero() || r.paused // nothing is known yet, or a walk over all comes anyway
	search := group.Search{Subscription: r.subscription.Ref, From: r.swept}
	r.mu.Unlock()
	if idle {
		return
	}
	answer, err := r.index.finder.find(ctx, search)
	r.mu.Lock()
	defer r.mu.Unlock()
	if err != nil || answer.found.Gone || answer.found.Paused || r.subscription.Ref != search.Subscription || r.known.IsZero() {
		return
	}
	if r.swept = answer.found.To; answer.found.End {
		r.swept = group.Position{}
	}
	if _, fit := r.offer(answer, false); !fit {
		r.lost = true
	}
}
