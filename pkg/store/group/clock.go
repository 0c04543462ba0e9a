package group

import "time"

// Bounds are the earliest and the latest time that the caller believes the database's clock can show when a call comes
// there; outside of them the clock has leapt. A bound that is zero is none. Settled says that the caller has seen nothing
// else for as long as any lease lasts.
type Bounds struct {
	Floor, Cap time.Time
	Settled    bool
}

// Now is what the procedures compare with when the clock shows reading. They make up for a clock that has fallen where they
// look at a lease that was given before.
func (b Bounds) Now(reading time.Time) time.Time {
	if !b.Cap.IsZero() && b.Cap.Before(reading) {
		return b.Cap
	}
	return reading
}
