package ready

import (
	"maps"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/google/uuid"

	"queen.internal/services/deliver/internal/wait"
)

// missedJitter spreads what several processes do when all of them miss the same news.
const missedJitter = 20 * time.Millisecond

// Missed says that news of the queues for which covers is true may have been missed. It is looked for soon where polls
// wait or are about to: one that has just looked hears of nothing until it is parked.
func (x *Index) Missed(covers func(tenant uuid.UUID, queue string) bool) {
	x.mu.Lock()
	var spots []*wait.Spot
	users := make(map[*Ring]int)
	for key, interest := range x.queues {
		if !covers(key.tenant, key.queue) {
			continue
		}
		for r := range interest.rings {
			users[r] = r.users
		}
		for p := range interest.pins {
			spots = append(spots, p.spot)
		}
	}
	for _, d := range x.discoveries { // it takes from rings at whose own spots nobody waits
		spots = append(spots, d.spot)
	}
	x.mu.Unlock()
	for r, n := range users {
		if r.awaited(n) {
			spots = append(spots, r.spot)
		}
	}
	in := time.Duration(rand.Int64N(int64(missedJitter)))
	for _, spot := range spots {
		spot.RecheckIn(in)
	}
}

// Configured says that a queue was configured or deleted: it may belong to a discovery now, and hide less.
func (x *Index) Configured(tenant uuid.UUID, queue string, deleted bool) {
	if deleted {
		x.Changed(tenant, queue, "")
	}
	x.mu.Lock()
	var rings []*Ring
	if i := x.queues[queueKey{tenant, queue}]; i != nil {
		rings = slices.Collect(maps.Keys(i.rings))
	}
	var spots []*wait.Spot
	for _, d := range x.discoveries {
		if d.key.tenant == tenant {
			spots = append(spots, d.spot)
		}
	}
	x.mu.Unlock()
	for _, r := range rings {
		r.configured()
	}
	for _, spot := range spots {
		spot.RecheckIn(0)
	}
}
