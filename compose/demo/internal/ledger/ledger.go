package ledger

import (
	"sync"
	"time"
)

// Ledger is safe for concurrent use. It starts no goroutine.
type Ledger struct {
	mu         sync.Mutex
	groups     []Group
	index      map[string]int // of groups
	partitions map[string]*partition
	stored     int
	already    int
	changes    int
	closed     bool
	done       chan struct{} // closed by changed, once
	now        func() time.Time
	firstPush  time.Time
	lastPush   time.Time
}

type partition struct {
	sent   int
	stored set
	groups []progress
}

// progress is what one group saw of one partition.
type progress struct {
	delivered, acked set
	last             int // highest sequence delivered, -1 before the first
}

// Group is the account of one consumer group.
type Group struct {
	Name        string
	Delivered   int // messages, each counted once
	Redelivered int // deliveries beyond the first
	OutOfOrder  int
	Altered     int
	Unknown     int
	Acked       int
	Missing     int // pushed and not acknowledged
	LastAck     time.Time
	FirstAgain  time.Time // first redelivery
}

// Totals are the accounts at one moment.
type Totals struct {
	Messages   int // pushed and confirmed by the broker
	Already    int // answered as duplicates of an earlier run
	Partitions int
	FirstPush  time.Time
	LastPush   time.Time
	Groups     []Group
}

// New returns a ledger for the named groups. now is the clock the rates are taken from.
func New(now func() time.Time, groups ...string) *Ledger {
	l := &Ledger{index: map[string]int{}, partitions: map[string]*partition{}, done: make(chan struct{}), now: now}
	for i, name := range groups {
		l.groups = append(l.groups, Group{Name: name})
		l.index[name] = i
	}
	return l
}

// Send gives out the next sequence of a partition.
func (l *Ledger) Send(name string) int {
	l.mu.Lock()
	defer l.mu.Unlock()
	p := l.partitions[name]
	if p == nil {
		p = &partition{groups: make([]progress, len(l.groups))}
		for i := range p.groups {
			p.groups[i].last = -1
		}
		l.partitions[name] = p
	}
	if l.firstPush.IsZero() {
		l.firstPush = l.now()
	}
	p.sent++
	return p.sent - 1
}

// Stored says that the broker confirmed a message; from now on every group owes its acknowledgment.
func (l *Ledger) Stored(name string, sequence int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	p := l.partitions[name]
	if !p.stored.add(sequence) {
		return
	}
	l.stored++
	l.lastPush = l.now()
	for i := range l.groups {
		if !p.groups[i].acked.has(sequence) {
			l.groups[i].Missing++
		}
	}
	l.changed()
}

// Already says that the broker knew a message from an earlier run; nobody owes it.
func (l *Ledger) Already() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.already++
	l.changed()
}

// Delivered says that a group's worker got a message; intact, that the payload is the one that was sent.
func (l *Ledger) Delivered(group, name string, sequence int, intact bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	defer l.changed()
	g, p := l.at(group, name, sequence)
	if p == nil {
		g.Unknown++
		return
	}
	if !intact {
		g.Altered++
	}
	if !p.delivered.add(sequence) {
		if g.Redelivered == 0 {
			g.FirstAgain = l.now()
		}
		g.Redelivered++
		return
	}
	g.Delivered++
	if sequence < p.last {
		g.OutOfOrder++
	}
	p.last = max(p.last, sequence)
}

// Acked says that the broker confirmed a group's acknowledgment of a message.
func (l *Ledger) Acked(group, name string, sequence int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	g, p := l.at(group, name, sequence)
	if p == nil || !p.acked.add(sequence) {
		return
	}
	g.Acked++
	g.LastAck = l.now()
	if l.partitions[name].stored.has(sequence) {
		g.Missing--
	}
	l.changed()
}

// at is the account of a group and its progress in a partition, which is nil for a message that was never sent.
func (l *Ledger) at(group, name string, sequence int) (*Group, *progress) {
	i := l.index[group]
	p := l.partitions[name]
	if p == nil || sequence < 0 || sequence >= p.sent {
		return &l.groups[i], nil
	}
	return &l.groups[i], &p.groups[i]
}

// Close says that nothing more will be pushed.
func (l *Ledger) Close() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.closed = true
	l.changed()
}

// Done is closed as soon as the ledger is closed and no group owes an acknowledgment.
func (l *Ledger) Done() <-chan struct{} { return l.done }

// changed counts an event and closes done when it was the last one.
func (l *Ledger) changed() {
	l.changes++
	if !l.closed {
		return
	}
	for _, g := range l.groups {
		if g.Missing > 0 {
			return
		}
	}
	select {
	case <-l.done:
	default:
		close(l.done)
	}
}

// Changes counts everything that was heard; a number that stands still means that nothing happens.
func (l *Ledger) Changes() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.changes
}

// Totals is the state of all accounts.
func (l *Ledger) Totals() Totals {
	l.mu.Lock()
	defer l.mu.Unlock()
	return Totals{
		Messages: l.stored, Already: l.already, Partitions: len(l.partitions), FirstPush: l.firstPush, LastPush: l.lastPush,
		Groups: append([]Group(nil), l.groups...),
	}
}

// Faults counts what must not have happened. Lost messages count only once nothing more is expected to come.
func (t Totals) Faults(lost bool) int {
	n := 0
	for _, g := range t.Groups {
		n += g.OutOfOrder + g.Altered + g.Unknown
		if lost {
			n += g.Missing
		}
	}
	return n
}
