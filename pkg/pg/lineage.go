package pg

import (
	"fmt"
	"sync"
)

// Lineage is what the pools of one process know together of their server: which database cluster it is, and on which
// timeline. Its methods are safe for concurrent use.
type Lineage struct {
	changed func()

	mu       sync.Mutex
	pools    []*generation // of every pool opened with it; a process opens a few and keeps them
	system   int64         // identifier of the cluster, 0 before the first connection
	timeline int64         // highest one seen of that cluster
}

// NewLineage returns a Lineage that has seen no server. changed is called when another cluster than before is met, or a newer
// timeline: after a failover, which may have lost the last commits. It comes before any statement of a pool reaches the new
// server, on the goroutine that connects and under a lock, so it must neither block nor use a pool. Nil: nobody is told.
func NewLineage(changed func()) *Lineage {
	if changed == nil {
		changed = func() {}
	}
	return &Lineage{changed: changed}
}

// Timeline is the one of the server last connected to; 0 before the first connection, and where the server hides it.
func (l *Lineage) Timeline() int64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.timeline
}

// join makes g the generation of one more pool.
func (l *Lineage) join(g *generation) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.pools = append(l.pools, g)
}

// observe takes the timeline of a new connection of g's pool that was made in generation born, and returns the generation
// it belongs to. A primary of an older timeline is one that did not notice a failover: it would accept writes that are
// lost when somebody repairs it. A cluster restored from a dump has another identifier and starts afresh. The connections
// of the older timeline, in all pools, go with the first of the newer one.
func (l *Lineage) observe(g *generation, born, system, timeline int64) (int64, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.system == system && timeline < l.timeline {
		return born, fmt.Errorf("%w (%d after %d)", errOldTimeline, timeline, l.timeline)
	}
	newer := l.system != 0 && (l.system != system || timeline > l.timeline)
	l.system, l.timeline = system, timeline
	if !newer {
		return born, nil
	}
	for _, pool := range l.pools {
		pool.advance()
	}
	l.changed()
	return born + 1, nil
}
