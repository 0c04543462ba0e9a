package mesh

import (
	"time"

	"github.com/google/uuid"
	"github.com/zeebo/xxh3"
)

// Hint says that something has happened to a partition or to a cursor, mostly that there may be work. It is never proof of
// anything; whoever receives it asks the database.
type Hint struct {
	Tenant    uuid.UUID
	Queue     string
	Partition int64  // 0: every partition of the queue
	Group     string // whose cursor; empty: every group
	News      News
	Offset    int64         // what it means depends on News
	Lease     time.Duration // of Leased: how long it lasts from now, in whole milliseconds
}

// News is what has happened.
type News uint8

// The news. All but Ready are of one cursor.
const (
	Ready    News = iota // messages up to Offset were appended, or cursors were moved
	Freed                // a lease has ended at the cursor Offset, and there are messages past it
	Drained              // a lease has ended at the cursor Offset, and there is nothing past it
	Leased               // messages from Offset on were leased
	Consumed             // messages up to Offset were delivered without a lease
	Declined             // the publisher would be the first to take messages, up to Offset, and has nobody to give them to
	newsEnd
)

// buckets is how many subjects hints are spread over. Each process listens only to those in which it has a ring.
const buckets = 256

// configBucket is the sequence that numbers changes of queues; it is no subject of hints.
const configBucket = buckets

// sequences is how many independent sequences a publisher has.
const sequences = buckets + 1

// bucketOf is where hints of a queue travel. All processes must agree, so it is part of the wire.
func bucketOf(tenant uuid.UUID, queue string) int {
	var room [128]byte
	return int(xxh3.Hash(append(append(room[:0], tenant[:]...), queue...)) % buckets)
}

// bucketSet is a set of sequences, the one of queue changes included.
type bucketSet [5]uint64

func (s *bucketSet) add(bucket int) { s[bucket/64] |= 1 << (bucket % 64) }

func (s *bucketSet) remove(bucket int) { s[bucket/64] &^= 1 << (bucket % 64) }

func (s *bucketSet) has(bucket int) bool { return s[bucket/64]&(1<<(bucket%64)) != 0 }

func (s *bucketSet) empty() bool { return *s == bucketSet{} }

// Cause is why something may have been missed.
type Cause string

// The causes of a Gap.
const (
	CauseLost      Cause = "lost"      // a publisher's sequence has a hole
	CauseNewPeer   Cause = "new peer"  // it may have published before it was heard
	CausePeerDown  Cause = "peer down" // it may have committed something and died before it said so
	CauseReconnect Cause = "reconnect" // this process was cut off
)

// Gap says that hints or queue changes of a peer may have been missed.
type Gap struct {
	Peer  string // server id; empty: any of them
	Cause Cause
	all   bool
	set   bucketSet
}

// Covers says whether hints of this queue may be among what was missed.
func (g Gap) Covers(tenant uuid.UUID, queue string) bool {
	return g.all || g.set.has(bucketOf(tenant, queue))
}

// Config says whether queue changes may be among what was missed.
func (g Gap) Config() bool { return g.all || g.set.has(configBucket) }
