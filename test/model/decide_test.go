package model_test

// signal is what an ack says of a message.
type signal int

const (
	completed signal = iota
	retry
	failed
	dead
)

// outcome is what is said of one item of an ack.
type outcome struct {
	Success, Released, Dead, Noop bool
	Error                         string // a word of it
}

// item is one acknowledgment.
type item struct {
	key    string
	signal signal
	reason string
}

const (
	stale        = "lease"
	unresolvable = "unresolv"
	committed    = "committed"
	noConsumer   = "consumer not found"
)

// find is the lowest offset of a key within first..last, or -1.
func (p *partition) find(key string, first, last int) int {
	for i := max(first, 0); i <= min(last, len(p.messages)-1); i++ {
		if p.messages[i].key == key {
			return i
		}
	}
	return -1
}

// ack decides on the items of one call that share a partition and a lease; nil is an ack without one.
func (q *queue) ack(group string, p *partition, l *lease, items []item) []outcome {
	results := make([]outcome, len(items))
	var c *cursor
	if s := q.groups[group]; s != nil {
		c = s.cursors[p]
	}
	if c == nil {
		for i := range results {
			results[i].Error = noConsumer
		}
		return results
	}
	above, live := q.judge(c, p, l, items, results)
	stop, strongest, done := -1, completed, c.committed
	for i, it := range items {
		if live && above[i] >= 0 && it.signal != completed && (stop < 0 || above[i] < stop || above[i] == stop && it.signal > strongest) {
			stop, strongest = above[i], it.signal
		}
	}
	for i, it := range items {
		if live && above[i] >= 0 && it.signal == completed && (stop < 0 || above[i] < stop) {
			done = max(done, above[i])
		}
	}
	released, buried := q.decide(group, p, c, stop, strongest, done, items, above)
	for i := range results {
		if results[i].Success {
			results[i].Released, results[i].Dead = released, buried
		}
	}
	return results
}

// judge finds the messages of an ack and says of each what can be said before the cursor moves.
func (q *queue) judge(c *cursor, p *partition, l *lease, items []item, results []outcome) (above []int, live bool) {
	live = l == nil || c.live && c.lease == l
	last := c.batchEnd
	switch {
	case last >= 0:
	case live:
		last = len(p.messages) - 1
	default: // a lease that was completed says nothing of what comes after
		last = c.committed
	}
	for i, it := range items {
		offset, r := p.find(it.key, c.committed+1, last), &results[i]
		switch {
		case !live && c.completed != l:
			r.Error = stale
		case offset >= 0 && live:
			r.Success = true
		case offset >= 0:
			r.Error = stale
		case p.find(it.key, 0, c.committed) < 0 && live:
			r.Error = unresolvable
		case p.find(it.key, 0, c.committed) < 0:
			r.Error = stale
		case it.signal == completed:
			r.Success, r.Noop = true, true
		default:
			r.Error = committed
		}
		above = append(above, offset)
	}
	return above, live
}

// decide moves the cursor: completions end at done, the lowest other signal stands at stop.
func (q *queue) decide(group string, p *partition, c *cursor, stop int, s signal, done int, items []item, above []int) (released, buried bool) {
	switch {
	case c.batchEnd < 0 || stop < 0: // a nack of what was not delivered has nothing to give back
		released = c.batchEnd >= 0 && done >= c.batchEnd
		if !released {
			c.committed = done
			return false, false
		}
		c.retries = 0
	case s == dead || s == failed && c.retries >= q.retryLimit:
		if buried = s == dead || q.dead1 || q.dead2; buried {
			m := p.messages[stop]
			q.dead = append(q.dead, deadLetter{group, p.name, m.key, m.payload, reasonFor(stop, items, above), c.retries})
		}
		done, c.retries = stop, 0
	case s == failed:
		c.retries++
	}
	if done >= c.batchEnd {
		c.attempt = 0
	}
	c.committed, c.completed = done, c.lease
	c.end()
	return true, buried
}

// reasonFor is the reason that was given for the message, else the first that was given at all.
func reasonFor(stop int, items []item, above []int) string {
	first := ""
	for i, it := range items {
		if it.signal == completed || it.reason == "" {
			continue
		}
		if above[i] == stop {
			return it.reason
		}
		if first == "" {
			first = it.reason
		}
	}
	if first == "" {
		return "Retries exhausted"
	}
	return first
}
