package mesh

import (
	"sync"
	"time"

	"github.com/google/uuid"
)

// Bounds of what waits for the sender. Beyond them hints are dropped, and the receivers see a hole in the sequence.
const (
	maxPending      = 1 << 16 // hints
	maxPendingBytes = 8 << 20 // of names, which are held until they are sent
	maxConfigs      = 1 << 12
)

type queueKey struct {
	tenant uuid.UUID
	queue  string
}

type cursorKey struct {
	partition int64
	group     string
}

// said is what was last said of a cursor, or of a partition.
type said struct {
	news   News
	offset int64
	lease  time.Duration
}

// then is what is left to say when another thing is said. The newer one counts; but those who say that a cursor is free
// may overtake each other, and then the higher offset is the newer, and messages that are left must not be passed over in
// silence.
func (s said) then(next said) said {
	switch {
	case s.news == next.news:
		next.offset = max(s.offset, next.offset)
	case s.news == Freed && next.news == Drained && next.offset <= s.offset:
		return s
	}
	return next
}

// batch is what the sender takes at once: hints by queue, coalesced.
type batch struct {
	queues  map[queueKey]map[cursorKey]said
	configs map[queueKey]bool // deleted
	skipped bucketSet         // something of these sequences was dropped
	hints   int
	bytes   int
}

// pending collects between two rounds of the sender. Adding takes a mutex under which nobody waits for anything.
type pending struct {
	mu   sync.Mutex
	open bool // a sender is connected; without one there is nobody to keep hints for
	now  batch
}

// add keeps hints and says how many it dropped.
func (p *pending) add(hints []Hint) (dropped int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	var last queueKey
	var cursors map[cursorKey]said
	for i := range hints {
		h := &hints[i]
		key := queueKey{h.Tenant, h.Queue}
		if !p.open || p.now.hints >= maxPending || p.now.bytes >= maxPendingBytes {
			p.now.skipped.add(bucketOf(h.Tenant, h.Queue))
			dropped++
			continue
		}
		if cursors == nil || key != last {
			last, cursors = key, p.now.cursors(key)
		}
		cursor := cursorKey{h.Partition, h.Group}
		now := said{h.News, h.Offset, h.Lease}
		if before, known := cursors[cursor]; known {
			now = before.then(now)
		} else {
			p.now.hints++
			p.now.bytes += len(h.Group)
		}
		cursors[cursor] = now
	}
	return dropped
}

func (b *batch) cursors(key queueKey) map[cursorKey]said {
	cursors := b.queues[key]
	if cursors == nil {
		if b.queues == nil {
			b.queues = map[queueKey]map[cursorKey]said{}
		}
		cursors = map[cursorKey]said{}
		b.queues[key] = cursors
		b.bytes += len(key.queue)
	}
	return cursors
}

// change keeps a queue change; false: it was dropped.
func (p *pending) change(key queueKey, deleted bool) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.open || len(p.now.configs) >= maxConfigs {
		p.now.skipped.add(configBucket)
		return false
	}
	if p.now.configs == nil {
		p.now.configs = map[queueKey]bool{}
	}
	p.now.configs[key] = deleted
	return true
}

// take empties it.
func (p *pending) take() batch {
	p.mu.Lock()
	defer p.mu.Unlock()
	taken := p.now
	p.now = batch{}
	return taken
}

// setOpen begins or ends keeping. What waits at the end is dropped; the number is returned.
func (p *pending) setOpen(open bool) (dropped int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.open = open
	if open {
		return 0
	}
	for key := range p.now.queues {
		p.now.skipped.add(bucketOf(key.tenant, key.queue))
	}
	if len(p.now.configs) > 0 {
		p.now.skipped.add(configBucket)
	}
	dropped = p.now.hints + len(p.now.configs)
	p.now = batch{skipped: p.now.skipped}
	return dropped
}

func (p *pending) isOpen() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.open
}

func (p *pending) depth() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.now.hints
}
