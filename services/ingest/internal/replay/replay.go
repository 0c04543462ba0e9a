// Package replay makes messages of dead letters again. The payload is opened and, where the destination wants it, sealed
// anew; then the append log moves it, in one transaction with the removal of the dead letter. The package keeps no state
// and starts no goroutine.
package replay

import (
	"context"
	"errors"
	"fmt"

	"github.com/google/uuid"

	"queen.internal/pkg/appendlog"
	"queen.internal/pkg/queue"
	"queen.internal/pkg/seal"
	"queen.internal/pkg/segment"
	"queen.internal/pkg/store/deadletter"
	"queen.internal/pkg/store/log"
)

// Flags asks the database for the flags of queues, in their order.
type Flags func(ctx context.Context, queues []log.Queue) ([]log.Flags, error)

// Mover moves dead letters. It is safe for concurrent use.
type Mover struct {
	Log   *appendlog.Log
	Flags Flags
	Keys  *seal.Keys // open, and seal when they can; nil: neither
}

// Move is what became of a dead letter.
type Move struct {
	Outcome       appendlog.ReplayOutcome
	MessageID     uuid.UUID
	TransactionID string
	Offset        int64
}

// TransactionID is what a dead letter is called as a message. It is derived, so however often a dead letter is replayed
// within the window of the destination, it is there once.
func TransactionID(letter uuid.UUID) string { return "dlq:" + letter.String() }

// Move moves a dead letter to the end of a partition, which is created when it is missing. Errors have a kind; with one of
// kind Unknown it may have been moved, with any other one nothing has changed.
func (m *Mover) Move(ctx context.Context, tenant uuid.UUID, letter *deadletter.Found, to appendlog.Key) (Move, error) {
	flags, err := m.Flags(ctx, []log.Queue{{Tenant: tenant, Name: to.Queue}})
	if err != nil {
		return Move{}, err
	}
	// An envelope that no key opens stays what it is: for all we know a producer wrote it.
	payload, _ := m.Keys.Open(letter.Payload)
	r := &appendlog.Replay{
		Tenant: tenant, Letter: letter.ID, Key: to,
		Message: segment.Message{ID: queue.NewID(), TransactionID: TransactionID(letter.ID), Payload: payload},
	}
	if flags[0].Encryption {
		if err := m.seal(r); err != nil {
			return Move{}, err
		}
	}
	outcome, offset, err := m.Log.Replay(ctx, r)
	if errors.Is(err, appendlog.ErrMustSeal) && !r.Sealed { // encryption came on meanwhile
		if err := m.seal(r); err != nil {
			return Move{}, err
		}
		outcome, offset, err = m.Log.Replay(ctx, r)
	}
	if err != nil {
		return Move{}, err
	}
	return Move{Outcome: outcome, MessageID: r.Message.ID, TransactionID: r.Message.TransactionID, Offset: offset}, nil
}

func (m *Mover) seal(r *appendlog.Replay) error {
	if !m.Keys.CanSeal() {
		return queue.Invalid("queue", fmt.Sprintf("queue %q has encryption on and this server has no key (QUEEN_ENCRYPTION_KEY)", r.Key.Queue))
	}
	r.Message.Payload, r.Sealed = m.Keys.Seal(r.Message.Payload), true
	return nil
}
