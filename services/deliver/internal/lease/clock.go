package lease

import (
	"sync"
	"time"

	"queen.internal/pkg/store/group"
)

const (
	// tolerance is how far a reading may be off the pair before it counts as a leap. It is far above the drift
	// between two readings and far below the shortest lease, one second.
	tolerance = 500 * time.Millisecond

	// drift is the part by which a clock may run faster or slower than ours; the discipline of NTP allows half a thousandth.
	drift = 0.0005

	// defaultHold is how long a leap is kept out before any lease was seen: the lease time that configure gives.
	defaultHold = 300 * time.Second

	// maxHold bounds how long a leap is kept out. One lease of years must not hold the guard up for years; it may be
	// ended early by a leap, which its owner will notice in the answer to the ack.
	maxHold = 24 * time.Hour
)

// Leap is a reading that is off the guarded clock.
type Leap struct {
	By       time.Duration // how far, negative when the clock fell back
	Reading  time.Time
	Accepted bool // the guard gave up the old pair for it
}

// pair is where the database's clock stood at a moment of our own: between low and high.
type pair struct {
	low, high time.Time
	own       time.Time
}

// at moves a pair to a later moment of our own.
func (p pair) at(own time.Time) pair {
	passed := own.Sub(p.own)
	slack := time.Duration(float64(passed) * drift)
	return pair{low: p.low.Add(passed - slack), high: p.high.Add(passed + slack), own: own}
}

// off is how far p lies from q, 0 when they overlap. Both are of the same moment.
func (p pair) off(q pair) time.Duration {
	switch {
	case p.low.After(q.high):
		return p.low.Sub(q.high)
	case q.low.After(p.high):
		return -q.low.Sub(p.high)
	}
	return 0
}

// narrow is what two pairs of the same moment have in common, or q when that is nothing.
func (p pair) narrow(q pair) pair {
	low, high := p.low, p.high
	if q.low.After(low) {
		low = q.low
	}
	if q.high.Before(high) {
		high = q.high
	}
	if high.Before(low) {
		return q
	}
	return pair{low: low, high: high, own: q.own}
}

// Clock guards against leaps of the database's clock.
type Clock struct {
	onLeap func(Leap)

	mu      sync.Mutex
	trusted pair
	settled time.Time // own time from which on there was nothing but the pair: of the first reading, or the end of a leap
	leapt   pair      // the clock as it stands since the leap that is being kept out
	since   time.Time // own time at which that leap was seen; zero: none
	longest time.Duration
}

// NewClock returns a clock without a reading. onLeap is told once of each leap, and once when it is accepted; it is
// called without a lock held.
func NewClock(onLeap func(Leap)) *Clock {
	return &Clock{onLeap: onLeap}
}

// Bounds are the times between which the database can honestly show its own now; none before the first reading. They are
// settled when the pair has stood for as long as a lease lasts, from that reading or from the end of the last leap: until
// then others may have taken another time for right, and what they have leased is not judged by ours.
func (c *Clock) Bounds() group.Bounds {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.trusted.own.IsZero() {
		return group.Bounds{}
	}
	now := c.trusted.at(time.Now())
	return group.Bounds{Floor: now.low, Cap: now.high.Add(tolerance), Settled: c.since.IsZero() && now.own.Sub(c.settled) >= c.hold()}
}

// Observe takes a reading of the database's clock made between two moments of our own.
func (c *Clock) Observe(reading, sent, received time.Time) {
	if reading.IsZero() {
		return
	}
	seen := pair{low: reading, high: reading.Add(received.Sub(sent)), own: received}
	if leap, told := c.observe(seen, reading); told {
		c.onLeap(leap)
	}
}

func (c *Clock) observe(seen pair, reading time.Time) (Leap, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.trusted.own.IsZero() {
		c.trusted, c.settled = seen, seen.own
		return Leap{}, false
	}
	if seen.own.Before(c.trusted.own) {
		seen = seen.at(c.trusted.own) // answers of concurrent calls arrive in any order
	}
	off := seen.off(c.trusted.at(seen.own))
	if off.Abs() <= tolerance {
		c.trusted = c.trusted.at(seen.own).narrow(seen)
		c.end(seen.own)
		return Leap{}, false
	}
	if c.since.IsZero() || seen.off(c.leapt.at(seen.own)).Abs() > tolerance {
		c.leapt, c.since = seen, seen.own
		return Leap{By: off, Reading: reading}, true
	}
	c.leapt = c.leapt.at(seen.own).narrow(seen)
	if seen.own.Sub(c.since) < c.hold() {
		return Leap{}, false
	}
	c.trusted = c.leapt
	c.end(seen.own)
	return Leap{By: off, Reading: reading, Accepted: true}, true
}

// end ends the leap that is being kept out, if there is one.
func (c *Clock) end(own time.Time) {
	if !c.since.IsZero() {
		c.since, c.settled = time.Time{}, own
	}
}

// Granted tells the clock how long a lease lasts that was seen, ours or another's.
func (c *Clock) Granted(length time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.longest = max(c.longest, min(length, maxHold))
}

// hold is how long a leap is kept out.
func (c *Clock) hold() time.Duration {
	if c.longest == 0 {
		return defaultHold
	}
	return c.longest
}
