package ready

import (
	"math/rand/v2"
	"time"

	"github.com/google/uuid"

	"queen.internal/services/deliver/internal/wait"
)

// missedJitter spreads what several processes do when all of them miss the same news.
const missedJitter = 20 * time.Millisecond

// Missed says that news of the queues for which covers is true may have been missed. Where polls wait it is looked for
// soon; other pops look by themselves.
func (x *Index) Missed(covers func(tenant uuid.UUID, queue string) bool) {
	x.mu.Lock()
	var spots []*wait.Spot
	for key, interest := range x.queues {
		if !covers(key.tenant, key.queue) {
			continue
		}
		for r := range interest.rings {
			spots = append(spots, r.spot)
		}
		for p := range interest.pins {
			spots = append(spots, p.spot)
		}
	}
	for _, d := range x.discoveries { // it takes from rings at whose own spots nobody waits
		spots = append(spots, d.spot)
	}
	x.mu.Unlock()
	in := time.Duration(rand.Int64N(int64(missedJitter)))
	for _, spot := range spots {
		if spot.Parked() {
			spot.RecheckIn(in)
		}
	}
}

// Configured says that a queue was configured or deleted: it may belong to a discovery now, and hold polls longer.
func (x *Index) Configured(tenant uuid.UUID, queue string, deleted bool) {
	if deleted {
		x.Changed(tenant, queue, "")
	}
	x.mu.Lock()
	var spots []*wait.Spot
	for _, d := range x.discoveries {
		if d.key.tenant == tenant {
			spots = append(spots, d.spot)
		}
	}
	x.mu.Unlock()
	for _, spot := range spots {
		spot.RecheckIn(0)
	}
}
