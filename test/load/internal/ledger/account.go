package ledger

import "sync"

// account is one partition as one group has seen it.
type account struct {
	mu      sync.Mutex
	next    []uint32          // by producer: what comes next; nil until something came
	skipped map[uint16][]span // that were passed over: lost, or late
	Counts
}

// Counts are deliveries of one group, and what was wrong with them.
type Counts struct {
	Delivered  uint64 `json:"delivered"`  // messages, without those that came again
	Duplicates uint64 `json:"duplicates"` // that came again
	Late       uint64 `json:"late"`       // that came after a later one of the same producer and partition
}

func (c *Counts) add(o Counts) {
	c.Delivered += o.Delivered
	c.Duplicates += o.Duplicates
	c.Late += o.Late
}

// enter notes one delivery.
func (a *account) enter(id ID, producers int) {
	if a.next == nil {
		a.next = make([]uint32, producers)
	}
	next := &a.next[id.Producer]
	switch {
	case id.Seq == *next:
		*next++
		a.Delivered++
	case id.Seq > *next:
		if a.skipped == nil {
			a.skipped = map[uint16][]span{}
		}
		a.skipped[id.Producer] = append(a.skipped[id.Producer], span{*next, id.Seq})
		*next = id.Seq + 1
		a.Delivered++
	case a.fill(id):
		a.Delivered++
		a.Late++
	default:
		a.Duplicates++
	}
}

// fill takes a number out of what was passed over; false when it was not.
func (a *account) fill(id ID) bool {
	gaps := a.skipped[id.Producer]
	for i, g := range gaps {
		if id.Seq < g.first || id.Seq >= g.end {
			continue
		}
		rest := append([]span{}, gaps[:i]...)
		if g.first < id.Seq {
			rest = append(rest, span{g.first, id.Seq})
		}
		if id.Seq+1 < g.end {
			rest = append(rest, span{id.Seq + 1, g.end})
		}
		a.skipped[id.Producer] = append(rest, gaps[i+1:]...)
		return true
	}
	return false
}

// Judgement is what one group got of what was sent.
type Judgement struct {
	Counts
	Strange uint64 `json:"strange"` // messages that were not sent, or came altered
	// Lost are acknowledged messages that were not delivered although later ones of their producer and partition were, or
	// although the queue was read to its end. Left are those that were still to come when reading stopped.
	Lost uint64 `json:"lost"`
	Left uint64 `json:"left"`
}

// Faults are what must be zero. With autoAck messages may be late, because the next consumer need not wait for an ack.
func (j Judgement) Faults() uint64 { return j.Lost + j.Late + j.Duplicates + j.Strange }

// Judge compares what was sent with what each group got. drained says that the groups have read the queue to its end.
func (l *Ledger) Judge(drained bool) []Judgement {
	var all []Judgement
	for _, g := range l.groups {
		j := Judgement{Strange: g.strange}
		for partition := range g.partitions {
			a := &g.partitions[partition]
			j.add(a.Counts)
			for producer := range l.sent {
				lost, left := l.missing(a, stream{uint16(producer), uint32(partition)})
				if drained {
					lost, left = lost+left, 0
				}
				j.Lost, j.Left = j.Lost+lost, j.Left+left
			}
		}
		all = append(all, j)
	}
	return all
}

// missing counts the acknowledged messages of a stream that were passed over, and those after the last delivered one.
func (l *Ledger) missing(a *account, s stream) (passed, left uint64) {
	doubtful, next := l.doubtful[s.producer][s], uint32(0)
	if a.next != nil {
		next = a.next[s.producer]
	}
	for _, g := range a.skipped[s.producer] {
		passed += certain(g, doubtful)
	}
	return passed, certain(span{next, l.sent[s.producer][s.partition]}, doubtful)
}

// certain is how many numbers of s lie in none of the doubtful spans, which do not overlap.
func certain(s span, doubtful []span) uint64 {
	if s.end <= s.first {
		return 0
	}
	n := s.end - s.first
	for _, d := range doubtful {
		if first, end := max(d.first, s.first), min(d.end, s.end); first < end {
			n -= end - first
		}
	}
	return uint64(n)
}

// Sent is how many messages were sent, and how many of them nobody knows the fate of.
func (l *Ledger) Sent() (all, doubtful uint64) {
	for producer := range l.sent {
		for _, n := range l.sent[producer] {
			all += uint64(n)
		}
		for _, spans := range l.doubtful[producer] {
			for _, s := range spans {
				doubtful += uint64(s.end - s.first)
			}
		}
	}
	return all, doubtful
}
