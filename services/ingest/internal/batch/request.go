package batch

import (
	"container/list"

	"github.com/google/uuid"

	"queen.internal/pkg/appendlog"
	"queen.internal/pkg/queue"
	"queen.internal/pkg/segment"
)

// messageCost is about what a message takes in memory besides its bytes, from the body's item to the answer.
const messageCost = 256

// request is one Push. The schedule's lock guards everything but done.
type request struct {
	entries []entry
	results []appendlog.Result // written once per entry, read after done is closed
	open    int                // entries without result
	cost    int64
	gone    error         // why it was withdrawn, nil while its client listens
	done    chan struct{} // closed, by whoever answers the last entry
}

// entry is one group of a request, the atom of scheduling.
type entry struct {
	request  *request
	index    int // of its group in the request
	key      appendlog.Key
	messages []segment.Message
	hashes   []uuid.UUID // of the transaction ids, in their order
	bytes    int
	sealed   bool          // its payloads are encrypted
	alone    bool          // was refused in company: next time it goes by itself
	place    *list.Element // in its partition's list while it waits, else nil
}

// newRequest does the work per message that needs no lock.
func newRequest(groups []appendlog.Group) *request {
	r := &request{
		entries: make([]entry, len(groups)),
		results: make([]appendlog.Result, len(groups)),
		open:    len(groups),
		done:    make(chan struct{}),
	}
	for i, g := range groups {
		e := &r.entries[i]
		*e = entry{request: r, index: i, key: g.Key, messages: g.Messages, sealed: g.Sealed, hashes: make([]uuid.UUID, len(g.Messages))}
		for j := range g.Messages {
			m := &g.Messages[j]
			e.hashes[j] = queue.TransactionHash(m.TransactionID)
			e.bytes += m.Size()
		}
	}
	r.cost = Cost(groups)
	return r
}

// Cost is what a request with these groups counts against Options.QueuedBytes.
func Cost(groups []appendlog.Group) int64 {
	var cost int64
	for _, g := range groups {
		cost += messageCost
		for i := range g.Messages {
			cost += messageCost + int64(g.Messages[i].Size())
		}
	}
	return cost
}
