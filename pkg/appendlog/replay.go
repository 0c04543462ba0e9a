package appendlog

import (
	"context"
	"errors"
	"fmt"

	"github.com/google/uuid"

	"queen.internal/pkg/pg"
	"queen.internal/pkg/queue"
	"queen.internal/pkg/segment"
	"queen.internal/pkg/store/log"
)

// Replay is a dead letter that becomes a message again.
type Replay struct {
	Tenant, Letter uuid.UUID
	Key            Key // where the message goes; it may be another queue of the tenant, and need not exist
	Message        segment.Message
	Sealed         bool // as in Group
}

// ReplayOutcome is what became of a replay that has no error.
type ReplayOutcome int

// The outcomes.
const (
	Moved            ReplayOutcome = iota + 1 // the message is in the log and the dead letter is gone
	AlreadyInLog                              // a message with its transaction id is there; nothing has changed
	NoSuchDeadLetter                          // it has left before; nothing has changed
)

// Replay appends the message and removes the dead letter in one transaction. offset is the message's when it was moved.
// Errors have a kind, or are ErrMustSeal; with one of kind Unknown both may have happened, with any other one neither has.
func (l *Log) Replay(ctx context.Context, r *Replay) (outcome ReplayOutcome, offset int64, err error) {
	f := flush{log: l, results: make([]Result, 1)}
	defer func() { l.tell(f.created) }()
	p := newPending(0, &Group{Key: r.Key, Messages: []segment.Message{r.Message}, Sealed: r.Sealed})
	f.open = []*pending{p}
	for {
		if f.locate(ctx); f.results[0].Err != nil {
			return 0, 0, f.results[0].Err
		}
		placed, found, err := l.replay(ctx, r, &p.runs[0])
		if err != nil {
			return 0, 0, err
		}
		switch {
		case !found || placed.Verdict == log.Gone:
			if f.evict(p); f.results[0].Err != nil {
				return 0, 0, f.results[0].Err
			}
		case placed.Verdict == log.Duplicates:
			return AlreadyInLog, 0, nil
		case placed.Verdict == log.MustSeal:
			return 0, 0, fmt.Errorf("replay to %q: %w", r.Key.Queue, ErrMustSeal)
		case placed.Verdict == log.LetterGone:
			return NoSuchDeadLetter, 0, nil
		case placed.Verdict == log.Appended, placed.Verdict == log.Found:
			l.announce([]Announcement{{Key: r.Key, Partition: p.partition.ID, LastOffset: placed.Base}})
			l.memory.learn(p.partition, &placed, p.runs)
			return Moved, placed.Base, nil
		default:
			// Of a newer schema. Whatever it means, it must not be taken for a success.
			return 0, 0, fmt.Errorf("replay to %q: verdict %d is not known to this version", r.Key.Queue, placed.Verdict)
		}
	}
}

// replay makes the call; when it surely did not commit, or may have, it is repeated once.
func (l *Log) replay(ctx context.Context, r *Replay, run *log.Run) (log.Placed, bool, error) {
	run.Voucher = l.memory.voucher(run.Partition, []log.Run{*run})
	placed, found, err := l.replayOnce(ctx, r, run, false)
	if err == nil || !pg.Transient(err) || log.Contended(err) {
		return placed, found, pg.Wrap("replay", err)
	}
	unknown := log.Unknown(err)
	if ctx.Err() != nil && !unknown {
		return placed, found, pg.Wrap("replay", err)
	}
	// The client that may have left does not take the question back.
	placed, found, second := l.replayOnce(context.WithoutCancel(ctx), r, run, unknown)
	switch {
	case second == nil && (found || !unknown):
		return placed, found, nil
	case unknown || log.Unknown(second):
		return placed, found, &queue.Error{
			Kind: queue.KindUnknown, RetryAfter: pg.RetryAfter, Err: errors.Join(err, second),
			Message: "PostgreSQL did not confirm the commit; the dead letter may have been moved",
		}
	}
	return placed, found, pg.Wrap("replay", errors.Join(err, second))
}

func (l *Log) replayOnce(ctx context.Context, r *Replay, run *log.Run, checkTag bool) (log.Placed, bool, error) {
	ctx, cancel := context.WithTimeout(ctx, appendDeadline)
	defer cancel()
	return l.store.Replay(ctx, r.Tenant, r.Letter, run, checkTag)
}
