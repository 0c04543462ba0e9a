package ready

import "queen.internal/services/deliver/internal/wait"

// FailedOver says that another server has taken over, perhaps without the last commits. Whatever is remembered may be of a
// timeline that is lost, also what a subscription's number stands for; it is found out anew, from whether the queues and
// groups exist to where they have work, and all that wait look again. It does not block.
func (x *Index) FailedOver() {
	x.finder.failedOver()
	x.mu.Lock()
	rings := make(map[*Ring]bool, len(x.rings)) // whether it is in use
	for _, r := range x.rings {
		rings[r] = r.users > 0
	}
	var spots []*wait.Spot
	for _, p := range x.pins {
		p.tried = p.tried.Add(-contactPause)
		spots = append(spots, p.spot)
	}
	for _, d := range x.discoveries {
		spots = append(spots, d.spot)
	}
	x.mu.Unlock()
	for r, used := range rings {
		r.mu.Lock()
		r.reset(r.subscription)
		r.mu.Unlock()
		r.changed(used)
	}
	for _, spot := range spots {
		spot.Recheck()
	}
}

// failedOver forgets the moments that were told apart by transaction numbers of another timeline.
func (f *finder) failedOver() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.horizon.samples = nil
}
