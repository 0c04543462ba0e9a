package appendlog

import (
	"context"
	"errors"
	"time"

	"github.com/google/uuid"
	lru "github.com/hashicorp/golang-lru/v2"

	"queen.internal/pkg/queue"
	"queen.internal/pkg/segment"
	"queen.internal/pkg/store/log"
)

const (
	// appendDeadline bounds one server call, from the moment it has a connection.
	appendDeadline = 5 * time.Second
	// budget bounds all calls of one Append: the wait for a connection, and that deadline.
	budget = 6 * time.Second
)

// errTooSlow ends the context of calls whose budget is used up.
var errTooSlow = errors.New("the time for it is used up")

// cachedPartitions bounds the ids kept: about 200 bytes each with their names.
const cachedPartitions = 100_000

// Key names a partition as clients do.
type Key = log.Key

// Group is messages for one partition, in order. Their transaction ids are distinct.
type Group struct {
	Key      Key
	Messages []segment.Message
	Sealed   bool // every payload is encrypted; a queue that wants it takes no others
}

// ErrMustSeal is the result of a group that is not sealed while its queue has encryption on. Nothing of it was stored;
// sealed, it can be appended.
var ErrMustSeal error = &queue.Error{Kind: queue.KindInvalid, Field: "payload", Message: "the queue takes encrypted payloads only"}

// Outcome is what became of one message: it is stored under MessageID, or the message that has its transaction id is.
// The id of an original that can no longer be read is all zero.
type Outcome struct {
	Duplicate bool
	Buffered  bool // it waits outside of the database; a Log never says so, those before it may
	MessageID uuid.UUID
}

// Result is what became of one group: one outcome per message, or an error that has a kind. With an error of kind
// Unknown the group may have been appended, with any other one it was not.
type Result struct {
	Outcomes []Outcome
	Err      error
	Attempt  *Attempt // with an error of kind Unknown
}

// Attempt is what may have been committed: all messages of a group that have no outcome, or none. They stand at the given
// places; the others are duplicates, whose outcomes count.
type Attempt struct {
	Tag    int64
	Places []int
}

// Announcement says that a partition has committed messages up to LastOffset.
type Announcement struct {
	Key        Key
	Partition  int64
	LastOffset int64
}

// Log appends. Make it with New.
type Log struct {
	store    *log.Store
	ids      *lru.Cache[Key, log.Partition]
	memory   *memory
	announce func([]Announcement)
	doubts   bool // nothing that is remembered is believed
	created  func(tenant uuid.UUID, queue string)
}

// New returns a Log on store. announce is called after each commit, in the committing call, so it must not block; nil
// announces nothing.
func New(store *log.Store, announce func([]Announcement)) *Log {
	ids, err := lru.New[Key, log.Partition](cachedPartitions)
	if err != nil {
		panic(err) // a constant, positive size
	}
	if announce == nil {
		announce = func([]Announcement) {}
	}
	return &Log{store: store, ids: ids, memory: newMemory(), announce: announce, created: func(uuid.UUID, string) {}}
}

// OnQueue says who is told of each queue that a call has created, at the end of the call: what it has appended by then is
// found. It must not block. Call it before the first append.
func (l *Log) OnQueue(created func(tenant uuid.UUID, queue string)) { l.created = created }

// tell ends a call that may have created queues. Several partitions of one may have been made at once.
func (l *Log) tell(created []log.Queue) {
	told := make(map[log.Queue]bool, len(created))
	for _, q := range created {
		if !told[q] {
			told[q] = true
			l.created(q.Tenant, q.Name)
		}
	}
}

// NewForgetful is New for a Log that remembers nothing: it looks partitions up on each append and vouches for none of
// them, so the procedure looks at the whole window. Outcomes are the same.
func NewForgetful(store *log.Store, announce func([]Announcement)) *Log {
	l := New(store, announce)
	l.doubts, l.memory.off = true, true
	return l
}

// known is a partition that was looked up before.
func (l *Log) known(key Key) (log.Partition, bool) {
	if l.doubts {
		return log.Partition{}, false
	}
	return l.ids.Get(key)
}

// Remembered is how many transaction hashes this process can vouch for.
func (l *Log) Remembered() int { return l.memory.size() }

// Forget drops what is remembered of the database: another server may have taken over without the last commits. Nothing
// depends on it, since the database checks whatever follows from a memory, but one of a timeline that is lost is of no use.
func (l *Log) Forget() {
	l.ids.Purge()
	l.memory.forget()
}

// Append appends groups, whose keys are distinct, and returns their results in the same order. It takes at most six
// seconds.
func (l *Log) Append(ctx context.Context, groups []Group) []Result {
	ctx, cancel := context.WithTimeoutCause(ctx, budget, errTooSlow)
	defer cancel()
	f := flush{log: l, results: make([]Result, len(groups))}
	for i := range groups {
		f.results[i].Outcomes = make([]Outcome, len(groups[i].Messages))
		if len(groups[i].Messages) > 0 {
			f.open = append(f.open, newPending(i, &groups[i]))
		}
	}
	f.run(ctx)
	l.tell(f.created)
	return f.results
}
