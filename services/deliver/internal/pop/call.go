package pop

import (
	"context"
	"math"
	"time"

	"github.com/google/uuid"

	"queen.internal/pkg/queue"
	"queen.internal/pkg/store/group"
	"queen.internal/pkg/wire"
	"queen.internal/services/deliver/internal/lease"
	"queen.internal/services/deliver/internal/ready"
	"queen.internal/services/deliver/internal/wait"
)

const (
	// maxCandidates bounds the candidates of one claim: a claim holds the cursors it took until it ends.
	maxCandidates = 256

	// uncapped is how many candidates the first claim of a pop without a cap of partitions has.
	uncapped = 64

	// busyPause and busyRounds bound how a pop waits for cursors that another transaction had locked. The ring rests
	// them as long.
	busyPause  = 5 * time.Millisecond
	busyRounds = 3

	// maxSearches bounds how often a pop searches on for what the search before left out, and others took.
	maxSearches = 16

	// maxSettles bounds how often a pop waits for claims of others that may give something back: it could lose the
	// race for it each time.
	maxSettles = 16

	// hiddenRounds is after how many claims that met nothing but delays and windows a pop gives up: a queue may hide
	// any number of partitions.
	hiddenRounds = 4

	// lateAfter is when a pop that has messages stops having rings searched for more.
	lateAfter = 200 * time.Millisecond
)

// call is one pop on its way: what is left of its budget and what it has leased.
type call struct {
	*Engine
	req      *Request
	out      *wire.PopResponse // nil until there is something to deliver: a parked poll holds no buffer
	lease    uuid.UUID         // of every span, uuid.Nil with autoAck
	deadline time.Time
	poll     wait.Poll
	hold     wait.Poll // while it waits for company
	held     bool      // it has done so
	absent   bool      // of a pinned pop: an earlier attempt found no such partition

	unfinished error // a search that goes on while the poll is parked

	batch      int // messages that may still be delivered
	partitions int // that may still be claimed
	bytes      int // of payload that may still be delivered

	claimed []int64 // partitions that spans were taken of
	keys    []group.LeaseKey
	unread  []group.LeaseKey // leased, but their messages could not be read
	spans   []lease.Span     // leased and read
	expires time.Time        // own time at which the last of the leases ends
}

func (e *Engine) begin(req *Request) *call {
	c := &call{
		Engine: e, req: req,
		deadline:   req.Arrived.Add(req.Query.Timeout - margin(req.Query.Timeout)),
		batch:      req.Query.Batch,
		partitions: req.Query.Partitions,
		bytes:      MaxBytes,
		poll:       wait.Poll{Halted: req.Halted},
		hold:       wait.Poll{Halted: req.Halted},
	}
	if !req.Query.AutoAck {
		c.lease = queue.NewID()
	}
	if c.partitions == 0 {
		c.partitions = math.MaxInt32
	}
	return c
}

// end registers what was leased, and gives back what could not be read. It comes before the answer, so whoever knows the
// lease finds it.
func (c *call) end(ctx context.Context) {
	c.o.Leases.Put(c.req.Tenant, c.lease, c.req.Query.Group, c.keys, c.spans, c.expires)
	if len(c.unread) > 0 {
		c.o.Returns.Unread(ctx, c.req.Tenant, c.lease, c.unread)
	}
}

// wants says whether the budget allows another claim.
func (c *call) wants() bool { return c.batch > 0 && c.partitions > 0 && c.bytes > 0 }

// over says whether the call has its answer; otherwise it parks.
func (c *call) over(err error) bool {
	return err != nil || c.delivers() || !c.req.Query.Wait
}

// delivers says whether there are messages in the answer.
func (c *call) delivers() bool { return c.out != nil && c.out.Messages() > 0 }

// answer is what the call comes to. An error counts only when there are no messages to deliver: those are leased to
// this client already.
func (c *call) answer(ctx context.Context, err error) (*wire.PopResponse, error) {
	if !c.delivers() {
		return nil, err
	}
	if err != nil {
		c.o.Logger.WarnContext(ctx, "a pop answers with what it has", "queue", c.req.Queue, "err", err)
	}
	return c.out, nil
}

// drain claims from a ring until the budget is used up or the ring has nothing more. With search, nothing more means
// that a search begun after ticket found nothing more.
func (c *call) drain(ctx context.Context, ring *ready.Ring, ticket uint64, search bool) error {
	var tally tally
	searched, again, settles := !search, 0, 0
	if ring.Doubted() {
		searched = true
		if err := c.search(ctx, ring, ring.Ticket()); err != nil {
			return err
		}
	}
	for c.wants() && ctx.Err() == nil && tally.hidden < hiddenRounds {
		if t := ring.Take(c.width(ring.Queued(), tally.rounds), c.claimed); len(t.Partitions) > 0 {
			claims, err := c.claimRing(ctx, ring, t)
			if err != nil {
				return err
			}
			if tally.add(claims) {
				continue
			}
			return nil // what is left here must be delivered alone: to the next pop
		}
		switch {
		case !searched:
			searched = true
			if err := c.search(ctx, ring, ticket); err != nil || c.unfinished != nil {
				return err
			}
		case tally.busy && tally.pauses < busyRounds:
			tally.busy = false
			tally.pauses++
			pause(ctx, 2*busyPause)
		case search && again < maxSearches && ring.More() && !c.late():
			again++
			ticket, searched = ring.Ticket(), false
		case !c.req.Query.Wait && settles < maxSettles: // a poll that parks is woken instead
			settles++
			if waited, err := ring.Settle(ctx); err != nil || !waited {
				return err
			}
		default:
			return nil
		}
	}
	return nil
}

// search has a ring searched. A discovery creates no queue. A search that takes longer than a call may goes on without a
// poll that waits.
func (c *call) search(ctx context.Context, ring *ready.Ring, ticket uint64) (err error) {
	if c.req.Queue == "" {
		err = ring.Look(ctx, ticket)
	} else {
		err = ring.Search(ctx, ticket)
	}
	if ready.Unfinished(err) && c.req.Query.Wait {
		c.unfinished = err
		ring.Spot().Recheck()
		return nil
	}
	return err
}

// emptyHanded is what a poll is told that was not woken: that some of what it asked for has not been looked at, if so.
func (c *call) emptyHanded(rings ...*ready.Ring) error {
	for _, ring := range rings {
		if c.unfinished != nil && ring.More() {
			return c.unfinished
		}
	}
	return nil
}

// late says that a pop has messages and has taken its time.
func (c *call) late() bool { return c.delivers() && time.Since(c.req.Arrived) > lateAfter }

// tally is what the claims of one draining met.
type tally struct {
	rounds int
	hidden int  // claims that met nothing but delays and windows
	busy   bool // the last claims met a cursor that was locked
	pauses int
}

// add says whether a pop that has messages may find more.
func (t *tally) add(claims []group.Claim) bool {
	t.rounds++
	hidden, alone := len(claims) > 0, len(claims) > 0
	for i := range claims {
		alone = alone && claims[i].Verdict == group.Alone
		hidden = hidden && claims[i].Verdict == group.Deferred
		t.busy = t.busy || claims[i].Verdict == group.Busy
	}
	if hidden {
		t.hidden++
	}
	return !alone
}

// width is how many candidates the next claim has. A pop that wants few partitions takes few, so that others find some;
// where there are plenty it takes some more, which spares a call when the first turn out to be empty, and each claim
// that did not bring enough doubles them.
func (c *call) width(queued, rounds int) int {
	n := c.partitions
	if n == math.MaxInt32 {
		n = min(c.batch, uncapped)
	}
	n += min(3, queued/8)
	return min(n, maxCandidates>>min(rounds, 8)) << min(rounds, 8)
}
