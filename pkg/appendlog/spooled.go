package appendlog

import (
	"context"
	"fmt"
	"time"

	"github.com/google/uuid"

	"queen.internal/pkg/pg"
	"queen.internal/pkg/queue"
	"queen.internal/pkg/segment"
	"queen.internal/pkg/store/log"
)

// maxReplayRounds bounds the calls for one batch of a spool: some find duplicates, some a queue that is created again.
const maxReplayRounds = 12

// Spooled is messages of one partition that were kept outside of the database, in one or in several records. Other than in
// any group, transaction ids of different records may be the same.
type Spooled struct {
	Group
	First, Last int64         // sequences of the records in their spool
	Age         time.Duration // of the oldest record
	// Tag is that of an append which may have committed all of the messages; Attempted says that there was one. Then there
	// is one record.
	Tag       int64
	Attempted bool
}

// Replayed is what became of records. Without an error either they are settled, their messages being in the log once; or
// something is to be done first, and nothing of them was written.
type Replayed struct {
	Settled      bool
	SettledUpTo  int64 // records up to this sequence were settled before, the others can come again without them; 0: none
	QueueDeleted bool  // since the oldest record was spooled; the others may be younger
	Repeats      bool  // transaction ids are the same and the queue does not deduplicate: the records have to come one by one
	Err          error // as of Append
}

// Spool is where the records of a call come from: one spool, by its id.
type Spool = uuid.UUID

// ReplaySpooled appends groups, whose keys are distinct, and notes in the same transaction which records they were, so that
// none is appended twice, whatever the queue's window. Whatever the errors, it can be repeated.
func (l *Log) ReplaySpooled(ctx context.Context, spool Spool, groups []Spooled) []Replayed {
	ctx, cancel := context.WithTimeoutCause(ctx, budget, errTooSlow)
	defer cancel()
	u := unspool{flush: flush{log: l, results: make([]Result, len(groups))}, spool: spool, groups: groups, replayed: make([]Replayed, len(groups))}
	for i := range groups {
		p := newPending(i, &groups[i].Group)
		p.attempted, p.tag = groups[i].Attempted, groups[i].Tag
		u.open = append(u.open, p)
	}
	u.run(ctx)
	for i := range u.results {
		if u.replayed[i].Err == nil {
			u.replayed[i].Err = u.results[i].Err
		}
	}
	return u.replayed
}

// unspool is the state of one ReplaySpooled.
type unspool struct {
	flush
	spool    uuid.UUID
	groups   []Spooled
	replayed []Replayed
}

func (u *unspool) run(ctx context.Context) {
	for range maxReplayRounds {
		if len(u.open) == 0 {
			return
		}
		if u.look(ctx); len(u.open) == 0 {
			return
		}
		if u.locate(ctx); len(u.open) == 0 {
			return
		}
		placed, err := u.send(ctx)
		switch {
		case err == nil:
			u.settle(placed)
		case len(u.open) > 1 && isolates(err):
			u.oneByOne(ctx)
			return
		default:
			u.fail(u.open, err)
		}
	}
	u.fail(u.open, queue.Unavailable("the queues of a spool change all the time", pg.RetryAfter, fmt.Errorf("replay: not settled after %d calls", maxReplayRounds)))
}

func (u *unspool) oneByOne(ctx context.Context) {
	open := u.open
	for _, p := range open {
		u.open = []*pending{p}
		u.run(ctx)
	}
	u.open = nil
}

// look closes the groups whose queues were deleted since, before anything creates those anew, and leaves out what is a
// repetition within a group.
func (u *unspool) look(ctx context.Context) {
	var asked []*pending
	var queues []log.Queue
	var ages []time.Duration
	for _, p := range u.open {
		if p.partition.ID != 0 {
			continue // asked before; and the procedure asks again
		}
		asked, queues, ages = append(asked, p), append(queues, log.Queue{Tenant: p.key.Tenant, Name: p.key.Queue}), append(ages, u.groups[p.group].Age)
	}
	if len(asked) == 0 {
		return
	}
	found, err := u.log.store.Waiting(ctx, queues, ages)
	if err != nil {
		u.fail(asked, err)
		return
	}
	for i, p := range asked {
		r := &u.replayed[p.group]
		switch first := firsts(p.messages); {
		case found[i].Deleted:
			r.QueueDeleted = true
		case len(first) == len(p.messages):
		case found[i].Deduplicates:
			// They would be committed at one time, so all but the first are within any window.
			p.all = first
			p.restart()
		default:
			r.Repeats = true
		}
	}
	u.keep(func(p *pending) bool { return !u.replayed[p.group].QueueDeleted && !u.replayed[p.group].Repeats })
}

// firsts are the messages without those whose transaction id came before.
func firsts(messages []segment.Message) []segment.Message {
	seen, kept := make(map[string]bool, len(messages)), make([]segment.Message, 0, len(messages))
	for i := range messages {
		if id := messages[i].TransactionID; !seen[id] {
			seen[id] = true
			kept = append(kept, messages[i])
		}
	}
	return kept
}

func (u *unspool) send(ctx context.Context) ([]log.Placed, error) {
	var targets []log.Target
	var runs []log.Run
	check := false
	for _, p := range u.open {
		s := &u.groups[p.group]
		targets = append(targets, log.Target{Partition: p.partition, First: s.First, Last: s.Last, Age: s.Age})
		runs = append(runs, p.runs...)
		check = check || p.attempted
	}
	ctx, cancel := context.WithTimeout(ctx, appendDeadline)
	defer cancel()
	placed, err := u.log.store.AppendSpooled(ctx, u.spool, targets, runs, check)
	if log.Unknown(err) {
		return nil, &queue.Error{Kind: queue.KindUnknown, RetryAfter: pg.RetryAfter, Err: err, Message: "PostgreSQL did not confirm the commit"}
	}
	return placed, pg.Wrap("replay a spool", err)
}

// settle takes the verdicts of one call and announces what it committed.
func (u *unspool) settle(placed []log.Placed) {
	verdicts, refused := make(map[int64]*log.Placed, len(placed)), false
	for i := range placed {
		verdicts[placed[i].Partition] = &placed[i]
		refused = refused || placed[i].Verdict == log.Settled || placed[i].Verdict == log.QueueDeleted
	}
	var announcements []Announcement
	closed := map[*pending]bool{}
	for _, p := range u.open {
		v, r := verdicts[p.partition.ID], &u.replayed[p.group]
		switch {
		case v == nil && refused: // not tried
		case v == nil, v.Verdict == log.Gone:
			u.evict(p)
		case v.Verdict == log.Duplicates:
			p.without(v.Positions)
			p.attempted = false
			p.prepare()
		case v.Verdict == log.MustSeal:
			r.Err, closed[p] = fmt.Errorf("replay to %q: %w", p.key.Queue, ErrMustSeal), true
		case v.Verdict == log.QueueDeleted:
			r.QueueDeleted, closed[p] = true, true
		case v.Verdict == log.Settled:
			r.Settled, closed[p] = v.Base >= u.groups[p.group].Last, true
			r.SettledUpTo = v.Base
		case v.Verdict == log.Noted:
			r.Settled, closed[p] = true, true
		case v.Verdict == log.Appended, v.Verdict == log.Found:
			r.Settled, closed[p] = true, true
			announcements = append(announcements, Announcement{Key: p.key, Partition: p.partition.ID, LastOffset: v.Base + int64(len(p.messages)) - 1})
			if v.Verdict == log.Appended {
				u.log.memory.learn(p.partition, v, p.runs)
			}
		default:
			// Of a newer schema. Whatever it means, it must not be taken for a success.
			r.Err, closed[p] = fmt.Errorf("replay to %q: verdict %d is not known to this version", p.key.Queue, v.Verdict), true
		}
	}
	if len(announcements) > 0 {
		u.log.announce(announcements)
	}
	u.keep(func(p *pending) bool { return !closed[p] && u.results[p.group].Err == nil })
}
