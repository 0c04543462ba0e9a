package history

import (
	"cmp"
	"slices"
	"time"
)

type groupKey struct {
	partition Partition
	group     string
}

// grant is what one pop leased, or consumed, of one partition.
type grant struct {
	Call
	lease       string
	autoAck     bool
	attempt     int
	first, last int // offsets
	earliestEnd time.Duration
	latestEnd   time.Duration // forever when it cannot be known
}

const forever = time.Duration(1<<63 - 1)

// commit says that the cursor was at offset or beyond when the call had ended.
type commit struct {
	Call
	offset int
}

// groupHistory is what happened to one group in one partition.
type groupHistory struct {
	grants  []grant // by end
	acks    []*Ack
	commits []commit
	// dealt is, by offset, when the first call began that completed the message or gave it up.
	dealt map[int]time.Duration
	// blind is when the first pop of the group began that was lost, and wild the first of those that consumed what they
	// got: what another pop got is delivered again.
	blind, wild time.Duration
}

func (c *checker) groupOf(partition Partition, group string) *groupHistory {
	key := groupKey{partition, group}
	if c.groups[key] == nil {
		c.groups[key] = &groupHistory{dealt: make(map[int]time.Duration), blind: forever, wild: forever}
	}
	return c.groups[key]
}

func (g *groupHistory) deal(offset int, begin time.Duration) {
	if before, known := g.dealt[offset]; !known || begin < before {
		g.dealt[offset] = begin
	}
}

// sortOut gives each group its part of the history.
func (c *checker) sortOut() {
	extends := make(map[string][]*Extend)
	for i := range c.Extends {
		extends[c.Extends[i].Lease] = append(extends[c.Extends[i].Lease], &c.Extends[i])
	}
	for i := range c.Pops {
		if pop := &c.Pops[i]; !pop.Lost {
			for _, span := range pop.Spans {
				c.addGrant(pop, span, extends[pop.Lease])
			}
		}
	}
	for i := range c.Pops {
		if pop := &c.Pops[i]; pop.Lost {
			for key, g := range c.groups {
				if key.group != pop.Group {
					continue
				}
				g.blind = min(g.blind, pop.Begin)
				if pop.AutoAck {
					g.wild = min(g.wild, pop.Begin)
				}
			}
		}
	}
	for i := range c.Acks {
		c.addAck(&c.Acks[i])
	}
	for _, g := range c.groups {
		slices.SortFunc(g.grants, func(a, b grant) int { return cmp.Compare(a.End, b.End) })
		slices.SortFunc(g.commits, func(a, b commit) int { return cmp.Compare(a.End, b.End) })
		g.cutLeases()
	}
}

// addGrant notes what a pop got of a partition, and how long its lease lasts if nobody ends it.
func (c *checker) addGrant(pop *Pop, span Span, extends []*Extend) {
	if len(span.IDs) == 0 {
		return
	}
	g := c.groupOf(span.Partition, pop.Group)
	first, stored := c.at[span.Partition][span.IDs[0]]
	for i, id := range span.IDs {
		if offset, known := c.at[span.Partition][id]; !known || !stored || offset != first+i {
			c.report(RuleSpan, "%v %s: message %d of %d of the pop from %v to %v is %s, at offset %d (stored: %v), and the first is at %d",
				span.Partition, pop.Group, i, len(span.IDs), pop.Begin, pop.End, id, offset, known, first)
			return
		}
	}
	last := first + len(span.IDs) - 1
	got := grant{Call: pop.Call, lease: pop.Lease, autoAck: pop.AutoAck, attempt: span.Attempt, first: first, last: last}
	if pop.AutoAck {
		got.earliestEnd, got.latestEnd = pop.Begin, pop.End
		g.commits = append(g.commits, commit{pop.Call, last})
		g.deal(last, pop.Begin)
	} else {
		got.earliestEnd, got.latestEnd = pop.Begin+pop.Length-c.Skew, pop.End+pop.Length+c.Skew+c.Late
		for _, x := range extends {
			if x.Lost {
				got.latestEnd = forever
			} else if x.Renewed > 0 {
				got.latestEnd = max(got.latestEnd, x.End+x.Length+c.Skew+c.Late)
			}
			if !x.Lost && x.Renewed == len(pop.Spans) {
				got.earliestEnd = max(got.earliestEnd, x.Begin+x.Length-c.Skew)
			}
		}
	}
	g.grants = append(g.grants, got)
}

// addAck notes what an ack did for certain, and what it may have done.
func (c *checker) addAck(a *Ack) {
	g := c.groupOf(a.Partition, a.Group)
	g.acks = append(g.acks, a)
	stop, completed := 1<<62, -1
	for _, item := range a.Items {
		offset, stored := c.at[a.Partition][item.ID]
		switch {
		case !stored || !a.Lost && !item.OK:
		case item.Status != Completed:
			if !item.Noop {
				stop = min(stop, offset)
			}
		default:
			g.deal(offset, a.Begin)
		}
	}
	if a.Lost {
		for _, item := range a.Items { // may have given up any of them
			if offset, stored := c.at[a.Partition][item.ID]; stored {
				g.deal(offset, a.Begin)
			}
		}
		return
	}
	for _, item := range a.Items {
		if offset, stored := c.at[a.Partition][item.ID]; stored && item.OK && item.Status == Completed && offset < stop {
			completed = max(completed, offset)
		}
	}
	if a.Dead && stop < 1<<62 {
		completed = stop
		g.deal(stop, a.Begin)
	}
	if completed >= 0 {
		g.commits = append(g.commits, commit{a.Call, completed})
	}
}

// cutLeases ends each lease where a call begins that may have ended it.
func (g *groupHistory) cutLeases() {
	byLease := make(map[string]int)
	for i := range g.grants {
		if !g.grants[i].autoAck {
			byLease[g.grants[i].lease] = i
		}
	}
	for _, a := range g.acks {
		if !a.Lost && !a.Released {
			continue
		}
		if a.Lease == "" { // may have ended any
			for i := range g.grants {
				if l := &g.grants[i]; a.Lost || l.Begin <= a.End {
					l.earliestEnd = min(l.earliestEnd, max(a.Begin, l.Begin))
				}
			}
		} else if i, known := byLease[a.Lease]; known {
			g.grants[i].earliestEnd = min(g.grants[i].earliestEnd, a.Begin)
		}
	}
}
