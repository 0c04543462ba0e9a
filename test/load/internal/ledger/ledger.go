// Package ledger knows what the load generator sent and judges what came back: whether anything that was acknowledged is
// missing, came out of order, came twice or came altered. It keeps a few bytes for each producer and partition and none
// for a message, because messages carry what is needed: a producer numbers what it sends to a partition from 0, and the
// number is part of the transaction id. Several producers may write to one partition; each one's messages must keep their
// order there, whatever lies between them.
//
// # Concurrency
//
// A producer's numbers belong to the goroutine of that producer until the judgement. What a group was delivered is under
// one lock for each partition; a lease lets only one consumer of a group hold a partition's messages at a time, so who
// takes a batch to the ledger before it acks keeps the order of delivery. Judge is called when both have ended.
package ledger

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	"queen.internal/test/load/internal/payload"
)

// Ledger is the account of one queue.
type Ledger struct {
	run      uint32
	epoch    time.Time
	payloads *payload.Pool
	sent     [][]uint32 // by producer, partition: the next number
	doubtful []map[stream][]span
	groups   []*group
}

type stream struct {
	producer  uint16
	partition uint32
}

// span is the numbers from first to before end.
type span struct{ first, end uint32 }

// New is an empty ledger. Groups are numbered from 0; a queue without groups counts as one.
func New(producers, partitions, groups int, payloads *payload.Pool) (*Ledger, error) {
	if producers < 1 || producers > 1<<16 || partitions < 1 || partitions > 1<<24 || groups < 1 {
		return nil, fmt.Errorf("account for %d producers, %d partitions and %d groups: 1 to 65536, 1 to 16777216, at least 1", producers, partitions, groups)
	}
	l := &Ledger{run: rand.Uint32(), epoch: time.Now(), payloads: payloads}
	for range producers {
		l.sent = append(l.sent, make([]uint32, partitions))
		l.doubtful = append(l.doubtful, map[stream][]span{})
	}
	for range groups {
		l.groups = append(l.groups, &group{partitions: make([]account, partitions)})
	}
	return l, nil
}

// Producers is how many may push.
func (l *Ledger) Producers() int { return len(l.sent) }

// Partitions is how many partitions the queue has.
func (l *Ledger) Partitions() int { return len(l.sent[0]) }

// Groups is how many consumer groups read the queue.
func (l *Ledger) Groups() int { return len(l.groups) }

// Micros is t in the unit of ID.At.
func (l *Ledger) Micros(t time.Time) int64 { return t.Sub(l.epoch).Microseconds() }

// Payloads is what messages carry.
func (l *Ledger) Payloads() *payload.Pool { return l.payloads }

// Next is the id of a producer's next message to a partition.
func (l *Ledger) Next(producer, partition int, at int64) ID {
	id := ID{uint16(producer), uint32(partition), l.sent[producer][partition], at}
	l.sent[producer][partition]++
	return id
}

// AppendID appends id as a transaction id.
func (l *Ledger) AppendID(b []byte, id ID) []byte { return appendID(b, l.run, id) }

// Payload is what the message of that id carries.
func (l *Ledger) Payload(id ID) []byte {
	return l.payloads.At(uint64(id.Producer)*31 + uint64(id.Partition)*17 + uint64(id.Seq))
}

// Doubt notes that nobody knows whether the last n messages of a producer to a partition were stored.
func (l *Ledger) Doubt(producer, partition, n int) {
	s, end := stream{uint16(producer), uint32(partition)}, l.sent[producer][partition]
	l.doubtful[producer][s] = append(l.doubtful[producer][s], span{end - uint32(n), end})
}

// Recognize reads a transaction id and compares the payload it came with. It is false for a message that this ledger did
// not send, or that came altered; such a message is counted against the group.
func (l *Ledger) Recognize(groupNumber int, transactionID, data []byte) (ID, bool) {
	id, ok := parseID(transactionID, l.run)
	if ok && int(id.Producer) < len(l.sent) && int(id.Partition) < l.Partitions() && bytes.Equal(data, l.Payload(id)) {
		return id, true
	}
	l.Strange(groupNumber)
	return ID{}, false
}

// Strange counts a message against the group that cannot be what was sent.
func (l *Ledger) Strange(groupNumber int) {
	g := l.groups[groupNumber]
	g.mu.Lock()
	g.strange++
	g.mu.Unlock()
}

// Deliver enters messages in the order in which a consumer of the group got them, before it acks them.
func (l *Ledger) Deliver(groupNumber int, ids []ID) {
	g := l.groups[groupNumber]
	for len(ids) > 0 {
		a := &g.partitions[ids[0].Partition]
		a.mu.Lock()
		n := 0
		for ; n < len(ids) && ids[n].Partition == ids[0].Partition; n++ {
			a.enter(ids[n], len(l.sent))
		}
		a.mu.Unlock()
		ids = ids[n:]
	}
}

// group is what one consumer group was delivered.
type group struct {
	partitions []account
	mu         sync.Mutex
	strange    uint64 // guarded by mu
}
