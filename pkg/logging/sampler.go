package logging

import (
	"sync"
	"time"
)

// Sampler keeps one site from flooding the log: at most one line per window. Its zero value with a Window is ready.
type Sampler struct {
	Window time.Duration

	mu         sync.Mutex
	next       time.Time
	suppressed int64
}

// Allow says whether a line may be written now, and how many were not since the last one (the attribute `suppressed`).
func (s *Sampler) Allow(now time.Time) (suppressed int64, ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if now.Before(s.next) {
		s.suppressed++
		return 0, false
	}
	suppressed, s.suppressed = s.suppressed, 0
	s.next = now.Add(s.Window)
	return suppressed, true
}
