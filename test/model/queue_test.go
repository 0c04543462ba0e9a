package model_test

import "fmt"

// message is one stored message.
type message struct{ id, key, payload string }

// partition is one partition. Its uid is known once something of it was delivered.
type partition struct {
	queue    *queue
	name     string
	uid      string
	messages []message
	number   int // partitions of a queue are numbered in the order of their creation, from 1
}

// cursor is where a group stands in a partition. Offsets are -1 where there is none.
type cursor struct {
	committed, batchEnd int
	lease, completed    *lease
	live                bool
	head, attempt       int
	retries             int
	deliveredEnd, alone int
}

func newCursor(committed int) *cursor {
	return &cursor{committed: committed, batchEnd: -1, head: -1, deliveredEnd: -1}
}

// lease is one lease that a pop gave, by the number that histories are told with.
type lease struct {
	number int
	id     string
}

// subscription is what a queue knows of a group.
type subscription struct {
	registered bool
	paused     bool
	newest     int // partition known when the group came, -1: not noted
	cursors    map[*partition]*cursor
}

// deadLetter is what became of a message that a group gave up.
type deadLetter struct {
	Group, Partition, Key, Payload, Reason string
	Retries                                int
}

// queue is one queue and its options.
type queue struct {
	name          string
	retryLimit    int
	dead1, dead2  bool // deadLetterQueue, dlqAfterMaxRetries
	deliveryLimit int
	window        int // of dedup, in seconds: 0 or longer than any history
	created       int // partitions so far
	partitions    []*partition
	groups        map[string]*subscription
	dead          []deadLetter
	paused        bool
}

func newQueue(name string) *queue {
	return &queue{name: name, retryLimit: 3, dead1: true, dead2: true, window: 3600, groups: make(map[string]*subscription)}
}

func (q *queue) partition(name string) *partition {
	for _, p := range q.partitions {
		if p.name == name {
			return p
		}
	}
	return nil
}

// provide is the partition of that name, made if need be.
func (q *queue) provide(name string) *partition {
	if p := q.partition(name); p != nil {
		return p
	}
	q.created++
	p := &partition{queue: q, name: name, number: q.created}
	q.partitions = append(q.partitions, p)
	return p
}

// group is what the queue knows of a group; a new one has no cursors.
func (q *queue) group(name string) *subscription {
	s := q.groups[name]
	if s == nil {
		s = &subscription{newest: -1, cursors: make(map[*partition]*cursor)}
		q.groups[name] = s
	}
	return s
}

// register is a group's contact by a pop of the whole queue.
func (q *queue) register(name, mode string) {
	s := q.group(name)
	if s.registered {
		return
	}
	s.registered, s.newest = true, q.created
	if mode == "all" || name == queueMode {
		return // a missing cursor is at the start
	}
	for _, p := range q.partitions {
		if s.cursors[p] == nil {
			s.cursors[p] = newCursor(len(p.messages) - 1)
		}
	}
}

// pin is a group's contact by a pop of one partition; nil when there is no such partition.
func (q *queue) pin(group, name, mode string) *partition {
	p := q.partition(name)
	s := q.groups[group]
	switch {
	case p == nil && (s == nil || s.newest < 0):
		q.group(group).newest = q.created // what comes later is not backlog
		return nil
	case p == nil:
		return nil
	}
	s = q.group(group)
	if s.registered || s.cursors[p] != nil {
		return p
	}
	s.cursors[p] = newCursor(-1)
	if mode != "all" && group != queueMode && (s.newest < 0 || p.number <= s.newest) {
		s.cursors[p] = newCursor(len(p.messages) - 1)
	}
	return p
}

const queueMode = "__QUEUE_MODE__"

// has says whether the group may find something in the partition: at which offset, and for the how-manieth time.
func (q *queue) has(group string, p *partition) (first, attempt int, can bool) {
	s := q.groups[group]
	if s == nil {
		return 0, 0, false
	}
	c := s.cursors[p]
	may := !q.paused && !s.paused
	if c == nil {
		return 0, 1, may && len(p.messages) > 0
	}
	first, attempt = c.committed+1, 1
	switch {
	case c.head == first:
		attempt = c.attempt + 1
	case q.deliveryLimit > 0 && first <= max(c.deliveredEnd, c.batchEnd):
		attempt = 2 // it lay behind a head that was delivered
	}
	return first, attempt, may && !c.live && first < len(p.messages)
}

// again says whether the next delivery of the partition goes alone.
func (q *queue) again(attempt int) bool { return q.deliveryLimit > 0 && attempt > 1 }

// exhausted says whether the next message must be given up instead of being delivered.
func (q *queue) exhausted(group string, p *partition) bool {
	first, attempt, can := q.has(group, p)
	c := q.groups[group].cursors[p]
	return can && c != nil && q.again(attempt) && c.head == first && c.attempt >= q.deliveryLimit && c.alone > 0
}

// giveUp is the end of an exhausted head.
func (q *queue) giveUp(group string, p *partition) {
	c := q.groups[group].cursors[p]
	first := c.committed + 1
	if q.dead1 || q.dead2 {
		reason := fmt.Sprintf("delivered %d times and not completed (deliveryLimit %d)", c.attempt, q.deliveryLimit)
		q.dead = append(q.dead, deadLetter{group, p.name, p.messages[first].key, p.messages[first].payload, reason, c.retries})
	}
	c.end()
	c.committed, c.retries, c.attempt, c.alone = first, 0, 0, 0
}

// end ends what is on record of a delivery.
func (c *cursor) end() {
	c.deliveredEnd = max(c.deliveredEnd, c.batchEnd)
	c.lease, c.live, c.batchEnd = nil, false, -1
}

// take is a delivery of first..last under a lease, or without one for a group that consumes at once.
func (q *queue) take(group string, p *partition, last int, l *lease) {
	first, attempt, _ := q.has(group, p)
	s := q.groups[group]
	if s.cursors[p] == nil {
		s.cursors[p] = newCursor(-1)
	}
	c := s.cursors[p]
	alone := 0
	if q.again(attempt) {
		alone = 1
		if c.head == first {
			alone = c.alone + 1
		}
	}
	c.end()
	if l == nil {
		*c = cursor{committed: last, batchEnd: -1, head: -1, completed: c.completed, deliveredEnd: c.deliveredEnd}
		return
	}
	c.batchEnd, c.lease, c.live, c.head, c.attempt, c.alone = last, l, true, first, attempt, alone
}
