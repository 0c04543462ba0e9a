package history

import (
	"cmp"
	"slices"
	"sort"
	"time"
)

// checkLeases looks for two leases that were certainly both live.
func (c *checker) checkLeases(key groupKey, g *groupHistory) {
	for i := range g.grants {
		a := &g.grants[i]
		for j := i + 1; j < len(g.grants) && g.grants[j].End < a.earliestEnd; j++ {
			if b := &g.grants[j]; a.End < b.earliestEnd {
				c.report(RuleLease, "%v %s: %d..%d was leased by a pop from %v to %v until at least %v, and %d..%d by one from %v to %v",
					key.partition, key.group, a.first, a.last, a.Begin, a.End, a.earliestEnd, b.first, b.last, b.Begin, b.End)
			}
		}
	}
}

// checkStale looks for acks that were carried out under a lease that had certainly ended.
func (c *checker) checkStale(key groupKey, g *groupHistory) {
	byLease := make(map[string]*grant)
	byBegin := slices.Clone(g.grants)
	slices.SortFunc(byBegin, func(a, b grant) int { return cmp.Compare(a.Begin, b.Begin) })
	// soonest is the first end of any grant from a place on.
	soonest := make([]time.Duration, len(byBegin)+1)
	soonest[len(byBegin)] = forever
	for i := len(byBegin) - 1; i >= 0; i-- {
		soonest[i] = min(soonest[i+1], byBegin[i].End)
	}
	for i := range g.grants {
		byLease[g.grants[i].lease] = &g.grants[i]
	}
	for _, a := range g.acks {
		l := byLease[a.Lease]
		if a.Lost || l == nil || a.Lease == "" || !slices.ContainsFunc(a.Items, func(i AckItem) bool { return i.OK && !i.Noop }) {
			continue
		}
		if a.Begin > l.latestEnd {
			c.report(RuleStale, "%v %s: an ack at %v went through, its lease ended at %v at the latest", key.partition, key.group, a.Begin, l.latestEnd)
		}
		next := sort.Search(len(byBegin), func(i int) bool { return byBegin[i].Begin > l.End })
		if soonest[next] < a.Begin {
			c.report(RuleStale, "%v %s: an ack at %v went through, another had got a lease by %v", key.partition, key.group, a.Begin, soonest[next])
		}
	}
}

// checkCompletions looks for deliveries of what had been dealt with when the pop began.
func (c *checker) checkCompletions(key groupKey, g *groupHistory) {
	byBegin := slices.Clone(g.grants)
	slices.SortFunc(byBegin, func(a, b grant) int { return cmp.Compare(a.Begin, b.Begin) })
	done, next := -1, 0
	for _, d := range byBegin {
		for ; next < len(g.commits) && g.commits[next].End < d.Begin; next++ {
			done = max(done, g.commits[next].offset)
		}
		if d.first <= done {
			c.report(RuleRedelivery, "%v %s: a pop at %v delivers offset %d, and everything up to %d was dealt with", key.partition, key.group, d.Begin, d.first, done)
		}
	}
}

// checkHeads looks for spans that start where the cursor cannot have been.
func (c *checker) checkHeads(key groupKey, g *groupHistory) {
	byBegin := slices.Clone(g.grants)
	slices.SortFunc(byBegin, func(a, b grant) int { return cmp.Compare(a.Begin, b.Begin) })
	head, next := 0, 0
	for _, d := range byBegin {
		for ; next < len(g.grants) && g.grants[next].End < d.Begin; next++ {
			head = max(head, g.grants[next].first)
		}
		if d.first < head {
			c.report(RuleHead, "%v %s: a pop at %v starts at offset %d, one before it at %d", key.partition, key.group, d.Begin, d.first, head)
		}
		begun, dealt := g.dealt[d.first-1]
		if d.first > 0 && (!dealt || begun > d.End) && g.wild > d.End {
			c.report(RuleHead, "%v %s: a pop at %v starts at offset %d, and nobody had dealt with the message before", key.partition, key.group, d.Begin, d.first)
		}
	}
}

// checkFirstDeliveries looks for messages that were delivered before the one before them.
func (c *checker) checkFirstDeliveries(key groupKey, g *groupHistory) {
	type seen struct{ begin, end time.Duration } // the first of each, of all deliveries
	messages := make([]seen, len(c.Log[key.partition]))
	for i := range messages {
		messages[i] = seen{forever, forever}
	}
	for _, d := range g.grants {
		for offset := d.first; offset <= d.last; offset++ {
			m := &messages[offset]
			m.begin, m.end = min(m.begin, d.Begin), min(m.end, d.End)
		}
	}
	for offset := 1; offset < len(messages); offset++ {
		if end := messages[offset].end; end != forever && messages[offset-1].begin > end && g.wild > end {
			c.report(RuleFirst, "%v %s: offset %d was delivered by %v, the one before not before %v", key.partition, key.group, offset, end, messages[offset-1].begin)
		}
	}
}

// checkAttempts looks at the numbers of the deliveries that start at the same message.
func (c *checker) checkAttempts(key groupKey, g *groupHistory) {
	heads := make(map[int][]grant)
	for _, d := range g.grants { // by end
		if !d.autoAck {
			heads[d.first] = append(heads[d.first], d)
		} else if d.attempt != 1 {
			c.report(RuleAttempt, "%v %s: a pop at %v consumed as delivery %d", key.partition, key.group, d.Begin, d.attempt)
		}
	}
	for head, deliveries := range heads {
		numbers := make(map[int]bool)
		for _, d := range deliveries {
			if numbers[d.attempt] {
				c.report(RuleAttempt, "%v %s: two deliveries from offset %d have the number %d", key.partition, key.group, head, d.attempt)
			}
			numbers[d.attempt] = true
			if d.attempt < 1 || d.attempt > len(deliveries) && g.blind == forever {
				c.report(RuleAttempt, "%v %s: delivery %d of %d from offset %d", key.partition, key.group, d.attempt, len(deliveries), head)
			}
		}
		byBegin := slices.Clone(deliveries)
		slices.SortFunc(byBegin, func(a, b grant) int { return cmp.Compare(a.Begin, b.Begin) })
		highest, next := 0, 0
		for _, d := range byBegin {
			for ; next < len(deliveries) && deliveries[next].End < d.Begin; next++ {
				highest = max(highest, deliveries[next].attempt)
			}
			if d.attempt < highest {
				c.report(RuleAttempt, "%v %s: a pop at %v is delivery %d from offset %d, after delivery %d", key.partition, key.group, d.Begin, d.attempt, head, highest)
			}
		}
	}
}

// checkDrained looks for what the groups that have read everything have not dealt with.
func (c *checker) checkDrained() {
	for partition, entries := range c.Log {
		for _, group := range c.Drained {
			done := -1
			if g := c.groups[groupKey{partition, group}]; g != nil {
				for _, commit := range g.commits {
					done = max(done, commit.offset)
				}
			}
			if g := c.groups[groupKey{partition, group}]; g != nil && done < len(entries)-1 {
				if _, dealt := g.dealt[len(entries)-1]; dealt || g.wild != forever {
					continue // the answer to what ended it was lost
				}
			}
			if done < len(entries)-1 {
				c.report(RuleDrained, "%v %s: drained, but only up to offset %d of %d", partition, group, done, len(entries)-1)
			}
		}
	}
}
