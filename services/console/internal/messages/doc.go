// Package messages finds messages in the log for people: one by its address, or the newest ones of some queues. A message
// has no row, so both are searches; each is bounded, whatever the size of the log, and says where its bounds are.
//
// How far a message has come is read beside it, from cursors and dead letters, by statements of their own: an answer is
// no snapshot, and a message may have moved on between two of them. Nothing is locked and nothing is changed.
package messages

import (
	"queen.internal/pkg/seal"
	"queen.internal/pkg/store/admin"
	"queen.internal/pkg/store/deadletter"
	"queen.internal/pkg/store/inspect"
	"queen.internal/pkg/store/log"
)

// Reader finds messages. It keeps no state and is safe for concurrent use.
type Reader struct {
	Inspect     *inspect.Store
	Log         *log.Store
	DeadLetters *deadletter.Store
	Queues      *admin.Store
	Keys        *seal.Keys // open what was sealed; nil: nothing
}

// opened is a stored payload as people may read it, and whether that is an envelope which no key opens.
func (r *Reader) opened(payload []byte) (data []byte, sealed bool) {
	data, outcome := r.Keys.Open(payload)
	return data, outcome == seal.Unopened
}
