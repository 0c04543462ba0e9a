package ready

import (
	"time"

	"queen.internal/pkg/store/group"
)

const (
	// deadline is how long an append may take from reading its clock to being visible before a search may miss it: four
	// times the limit of a statement. A transaction of somebody else that never ends must not have us walk everything for
	// ever.
	deadline = 2 * time.Minute

	// clockSlack is how far the database's clock may step back without anybody minding; a larger step has everything
	// searched anew. Searches look back further than that, because a step is told by two answers, which take a while each.
	clockSlack = 5 * time.Second
	lookBack   = 2 * clockSlack

	// callBound is longer than any call: of two that overlap, the one that was sent first may read the number last.
	callBound = 10 * time.Second

	// samplePause and maxSamples bound the moments kept. A search that is true of a moment in between begins a little
	// further back than it need.
	samplePause = 100 * time.Millisecond
	maxSamples  = 256
)

// horizon tells from when on there may be writes that a snapshot did not show. An append reads its clock when it has a
// transaction number already. So of a moment at which the next number to be given out was known, a snapshot in which all
// lower numbers had ended says: whatever it does not show was written later, by the database's clock.
type horizon struct {
	samples []sample // by ascending time, and so by ascending number
	latest  time.Time
	heard   time.Time // own time at which latest was known
}

// sample is a moment, and the first transaction number given out after it.
type sample struct {
	at   time.Time
	next int64
}

// add takes a snapshot, which was asked for and answered at these times by our own clock. fell says that the clock, or the order of transactions, is behind what was seen before: then
// nothing known by time counts any more.
func (h *horizon) add(s group.Snapshot, asked, answered time.Time) (fell bool) {
	if s.Asked.Before(h.latest.Add(max(asked.Sub(h.heard), 0) - clockSlack)) {
		h.samples, h.latest, fell = nil, time.Time{}, true
	}
	if h.lost(s) {
		h.samples, fell = nil, true
	}
	if s.Asked.After(h.latest) {
		h.latest, h.heard = s.Asked, answered
	}
	n := len(h.samples)
	if n > 0 && s.Asked.Sub(h.samples[n-1].at) < samplePause {
		return fell
	}
	if n == maxSamples { // every other one is enough
		for i := range maxSamples / 2 {
			h.samples[i] = h.samples[2*i+1]
		}
		h.samples = h.samples[:maxSamples/2]
	}
	h.samples = append(h.samples, sample{s.Asked, s.Next})
	return fell
}

// lost says whether the database has given out fewer transaction numbers than some time ago: a standby that took over
// without the last ones.
func (h *horizon) lost(s group.Snapshot) bool {
	for i := len(h.samples) - 1; i >= 0; i-- {
		if s.Asked.Sub(h.samples[i].at) > callBound {
			return s.Next < h.samples[i].next
		}
	}
	return false
}

// of is from when on writes may be missing in s: exactly its own time when no transaction was under way.
func (h *horizon) of(s group.Snapshot) time.Time {
	earliest := s.Asked.Add(-deadline)
	if s.Next <= s.Oldest {
		return s.Asked
	}
	for i := len(h.samples) - 1; i >= 0; i-- {
		if m := h.samples[i]; m.next <= s.Oldest && m.at.After(earliest) {
			return m.at
		}
	}
	return earliest
}
