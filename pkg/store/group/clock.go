package group

import "time"

// Bounds are the earliest and the latest time that the caller believes the database's clock can show when a call comes
// there. A clock outside of them has leapt; until it is believed, the nearer bound counts as the time. A bound that is zero
// is none.
type Bounds struct{ Floor, Cap time.Time }

// Clamp is what the procedures take for the time when the clock shows reading.
func (b Bounds) Clamp(reading time.Time) time.Time {
	if !b.Cap.IsZero() && b.Cap.Before(reading) {
		reading = b.Cap
	}
	if b.Floor.After(reading) {
		reading = b.Floor
	}
	return reading
}
