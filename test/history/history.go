package history

import (
	"fmt"
	"time"
)

// Call is when a call was made, on one monotonic clock. Of a lost one End is when the client gave up.
type Call struct {
	Begin, End time.Duration
	Lost       bool // there was no answer
}

// Partition names a partition of a queue.
type Partition struct{ Queue, Name string }

// The statuses that Check tells apart. Others are taken for calls that stored nothing and promise nothing.
const (
	Queued    = "queued"
	Buffered  = "buffered" // stored later, or never if another call of the key is stored before
	Duplicate = "duplicate"
	Completed = "completed"
)

// Push is one request.
type Push struct {
	Call
	// Server is the process that answered: one life of it. Empty when that is not known.
	Server string
	Items  []PushItem
}

// PushItem is one message of a push and its result.
type PushItem struct {
	Partition  Partition
	Key        string // the transaction id
	ID, Status string // of the result
}

// Pop is one answered or lost pop; answers without messages need not be noted.
type Pop struct {
	Call
	Group   string
	Lease   string
	Length  time.Duration // of the lease
	AutoAck bool
	Spans   []Span
}

// Span is what a pop delivered of one partition, by message id, in order.
type Span struct {
	Partition Partition
	Attempt   int
	IDs       []string
}

// Ack is what one call acknowledged of one partition under one lease, which is empty for an ack without a lease.
type Ack struct {
	Call
	Group     string
	Partition Partition
	Lease     string
	Items     []AckItem
	Released  bool // the lease ended
	Dead      bool // the lowest message that was not completed was given up
}

// AckItem is one message of an ack and its result. OK says that it was carried out, Noop that there was nothing to do.
type AckItem struct {
	ID, Status string
	OK, Noop   bool
}

// Extend is one renewal of a lease by Length from its moment on; Renewed is how many partitions it renewed.
type Extend struct {
	Call
	Lease   string
	Length  time.Duration
	Renewed int
}

// Entry is one stored message.
type Entry struct{ ID, Key string }

// History is everything that was seen. Dead letters and completions are its only ways of moving a cursor: nothing seeks,
// deletes or expires.
type History struct {
	Pushes  []Push
	Pops    []Pop
	Acks    []Ack
	Extends []Extend
	// Log is the messages of each partition by offset.
	Log map[Partition][]Entry
	// Drained names the groups that have read everything, and been answered so.
	Drained []string
	// Skew is by how much the server's clock may have drifted from the recorder's while a lease lasted. Late comes on top of
	// it for how long a lease may have been valid: the server's clock was set back meanwhile.
	Skew, Late time.Duration
}

// Violation is something that no correct broker can have answered.
type Violation struct{ Rule, Text string }

func (v Violation) String() string { return v.Rule + ": " + v.Text }

// The rules.
const (
	RuleLog        = "log"        // what is told and what is stored are the same
	RuleOrder      = "order"      // a push that was answered comes before one that began later
	RuleServer     = "server"     // of one process the same holds for pushes that it buffered
	RuleDedup      = "dedup"      // a key is stored once, and known to others only then
	RuleSpan       = "span"       // a claim delivers consecutive messages
	RuleLease      = "lease"      // one live lease for a partition and a group
	RuleStale      = "stale"      // a lease that has ended acknowledges nothing
	RuleFirst      = "first"      // first deliveries come in order
	RuleRedelivery = "redelivery" // what was completed is not delivered any more
	RuleHead       = "head"       // spans start behind a message that was dealt with, and never lower than before
	RuleAttempt    = "attempt"    // deliveries from one head are numbered
	RuleDrained    = "drained"    // a group that has read everything has dealt with everything
)

// checker collects what is wrong.
type checker struct {
	*History
	at     map[Partition]map[string]int // message id -> offset
	groups map[groupKey]*groupHistory
	wrong  []Violation
}

func (c *checker) report(rule, format string, args ...any) {
	c.wrong = append(c.wrong, Violation{rule, fmt.Sprintf(format, args...)})
}

// Check returns everything that is wrong for certain, rule by rule.
func Check(h *History) []Violation {
	c := &checker{History: h, at: make(map[Partition]map[string]int), groups: make(map[groupKey]*groupHistory)}
	for partition, entries := range h.Log {
		c.at[partition] = make(map[string]int, len(entries))
		for offset, e := range entries {
			c.at[partition][e.ID] = offset
		}
	}
	c.checkKeys()
	c.checkOrder()
	c.checkServers()
	c.sortOut()
	for key, g := range c.groups {
		c.checkLeases(key, g)
		c.checkStale(key, g)
		c.checkCompletions(key, g)
		c.checkHeads(key, g)
		c.checkFirstDeliveries(key, g)
		c.checkAttempts(key, g)
	}
	c.checkDrained()
	return c.wrong
}
