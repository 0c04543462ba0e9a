package outage

import (
	"time"

	"queen.internal/pkg/appendlog"
)

// bar is a partition whose next record cannot be brought although the database answers: it is refused, or nothing can be set
// aside, or its spool cannot be read.
type bar struct {
	since  time.Time
	passed bool // new pushes have gone past it
}

// route says which groups go to the database and which to the spool.
func (g *Guard) route(groups []appendlog.Group, held bool) (direct, spooled []int) {
	var passing []appendlog.Key
	g.mu.Lock()
	pending, now := g.pendingMessages() > 0, time.Now()
	for i := range groups {
		key := groups[i].Key
		var src *source
		if pending {
			src = g.holder(key)
		}
		switch {
		case held || g.down:
			spooled = append(spooled, i)
		case src == nil:
			direct = append(direct, i)
		case g.overdue(src, key, now):
			if b := g.barOf(key); !b.passed {
				b.passed, passing = true, append(passing, key)
				g.counters.Passed++
			}
			direct = append(direct, i)
		default:
			spooled = append(spooled, i)
		}
	}
	g.mu.Unlock()
	for _, key := range passing {
		g.o.Logger.Warn("pushes go past records of the spool that cannot be replayed", "queue", key.Queue, "partition", key.Partition)
	}
	return direct, spooled
}

// holder is the first source that has records of a partition, nil when there is none. The caller holds the mutex.
func (g *Guard) holder(key appendlog.Key) *source {
	for _, src := range g.sources {
		if src.pending[key] > 0 {
			return src
		}
	}
	return nil
}

// overdue says that the next record of a partition, in src, was in the way for long enough. The caller holds the mutex.
func (g *Guard) overdue(src *source, key appendlog.Key, now time.Time) bool {
	if g.o.BarrierMax <= 0 {
		return false
	}
	b := g.barred[key]
	return b != nil && !b.since.IsZero() && now.Sub(b.since) >= g.o.BarrierMax ||
		!src.blocked.IsZero() && now.Sub(src.blocked) >= g.o.BarrierMax
}

// barOf is the bar of a partition, one without a time if it has none. The caller holds the mutex.
func (g *Guard) barOf(key appendlog.Key) *bar {
	b := g.barred[key]
	if b == nil {
		b = &bar{}
		g.barred[key] = b
	}
	return b
}

// obstruct notes that the next record of a partition is in the way.
func (g *Guard) obstruct(key appendlog.Key) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if b := g.barOf(key); b.since.IsZero() {
		b.since = time.Now()
	}
}

// block notes whether a source gives nothing more.
func (g *Guard) block(src *source, blocked bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	switch {
	case !blocked:
		src.blocked = time.Time{}
	case src.blocked.IsZero():
		src.blocked = time.Now()
	}
}

// unbar lets all times begin anew, since nothing is tried for a while. The caller holds the mutex.
func (g *Guard) unbar() {
	clear(g.barred)
	for _, src := range g.sources {
		src.blocked = time.Time{}
	}
}
