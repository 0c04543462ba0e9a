// Package commit lets acks and pops share commits. What many consumers do at the same time, each message by message, would
// otherwise be two transactions a message, and a transaction costs more than what is done in it.
//
// # What is shared
//
// Acks that complete all of a lease, and claims of a few candidates: they touch few rows, wait for no lock and need no
// second call. In each shared commit (queen.consume) the acks come first. Everything else is done as if there were no sharing:
// wide claims here, other acks by whoever has them. So is what a shared commit left out: an ack that is not the plain case in
// the end, a cursor whose row is locked or does not exist yet, a head that is due for the dead letters.
//
// # When something fails
//
// What one call of a shared commit brings on must not fail the others. When the server refuses the commit, nothing of it was
// done, and each call is made once more by itself. When the answer is lost, all calls end with the error, and nobody knows
// what came of them, as with a call that is made alone: an ack may be repeated, and what was leased is given back by
// expiry.
//
// # Concurrency
//
// The package starts no goroutine; see package rounds for who works. A Committer is shared by all requests.
package commit

import (
	"context"
	"time"

	"github.com/google/uuid"
	"github.com/prometheus/client_golang/prometheus"

	"queen.internal/pkg/store/group"
	"queen.internal/services/deliver/internal/lease"
	"queen.internal/services/deliver/internal/rounds"
)

// Bounds of what goes into a shared commit. A claim above them is made alone, so that none holds up many.
const (
	maxShared     = 512  // leases ended, and candidates tried, in one commit
	maxCandidates = 16   // of a claim that shares
	maxBatch      = 1000 // of a claim that shares: as many segments may have to be measured
)

// Options are what a Committer works with.
type Options struct {
	Groups   *group.Store
	Clock    *lease.Clock
	Parallel int           // shared commits at a time
	Timeout  time.Duration // of one

	Commits prometheus.Counter
	Calls   *prometheus.CounterVec // that shared one, by label kind: ack, claim, refused
}

// Committer makes shared commits.
type Committer struct {
	o                      Options
	rounds                 *rounds.Rounds[*call]
	acks, claims, refusals prometheus.Counter
}

// The classes of calls, in the order in which they are carried out.
const (
	acks = iota
	claims
)

// call is one ack, or one claim, on its way.
type call struct {
	completions []group.Completion
	outcomes    []group.CompletionOutcome

	claim    *group.ClaimRequest
	result   group.ClaimResult
	received time.Time
	clock    group.Bounds

	err   error
	alone bool // the server refused the commit that this was part of
}

// New returns a Committer.
func New(o Options) *Committer {
	c := &Committer{o: o, acks: o.Calls.WithLabelValues("ack"), claims: o.Calls.WithLabelValues("claim"), refusals: o.Calls.WithLabelValues("refused")}
	c.rounds = rounds.New(rounds.Options[*call]{
		Parallel: o.Parallel, Bounds: []int{acks: maxShared, claims: maxShared}, Timeout: o.Timeout, Spare: o.Timeout / 4, Work: c.work,
	})
	return c
}

// Complete ends the leases of one ack, which all are of one tenant. Those whose outcome is Undecided are left as they were,
// for the caller to ack by itself. Errors have a kind; then nothing is known.
func (c *Committer) Complete(ctx context.Context, tenant uuid.UUID, completions []group.Completion) ([]group.CompletionOutcome, error) {
	a := &call{completions: completions}
	if err := c.rounds.Do(ctx, tenant, acks, len(completions), a); err != nil {
		return nil, group.CallError("ack", err)
	}
	if a.alone {
		return make([]group.CompletionOutcome, len(completions)), nil
	}
	return a.outcomes, a.err
}

// Claimed is the answer to a claim.
type Claimed struct {
	group.ClaimResult           // its clock is what the verdicts took for the time
	Settled           bool      // as in group.Bounds
	Received          time.Time // own time
}

// Claim makes a claim, whose Clock is set here. What it says of group.Store.Claim holds.
func (c *Committer) Claim(ctx context.Context, tenant uuid.UUID, req *group.ClaimRequest) (Claimed, error) {
	a := &call{claim: req, alone: true}
	if len(req.Partitions) <= maxCandidates && req.Batch <= maxBatch {
		a.alone = false
		if err := c.rounds.Do(ctx, tenant, claims, len(req.Partitions), a); err != nil {
			return Claimed{}, group.CallError("claim", err)
		}
	}
	switch {
	case a.alone:
		c.claimAlone(ctx, a)
	case a.err == nil:
		req.Clock = c.o.Clock.Bounds()
		a.result, a.err = c.o.Groups.Finish(ctx, req, a.result)
	}
	if a.err != nil {
		return Claimed{}, a.err
	}
	out := Claimed{ClaimResult: a.result, Settled: a.clock.Settled, Received: a.received}
	out.Clock = a.clock.Now(out.Clock)
	return out, nil
}

func (c *Committer) claimAlone(ctx context.Context, a *call) {
	sent := time.Now()
	a.clock = c.o.Clock.Bounds()
	a.claim.Clock = a.clock
	a.result, a.err = c.o.Groups.Claim(ctx, *a.claim)
	a.received = time.Now()
	c.o.Clock.Observe(a.result.Clock, sent, a.received)
}

// work makes one shared commit.
func (c *Committer) work(ctx context.Context, calls []*call) {
	var completions []group.Completion
	var wanted []*group.ClaimRequest
	for _, a := range calls {
		completions = append(completions, a.completions...)
		if a.claim != nil {
			wanted = append(wanted, a.claim)
		}
	}
	sent, clock := time.Now(), c.o.Clock.Bounds()
	done, err := c.o.Groups.Consume(ctx, clock, completions, wanted)
	received := time.Now()
	c.o.Commits.Inc()
	c.acks.Add(float64(len(calls) - len(wanted)))
	c.claims.Add(float64(len(wanted)))
	if err != nil {
		alone := group.Refused(err)
		if alone {
			c.refusals.Add(float64(len(calls)))
		}
		err = group.CallError("consume", err)
		for _, a := range calls {
			a.alone, a.err = alone, err
		}
		return
	}
	for _, a := range calls {
		if n := len(a.completions); n > 0 {
			a.outcomes, done.Completions = done.Completions[:n:n], done.Completions[n:]
			continue
		}
		a.result, done.Claims = done.Claims[0], done.Claims[1:]
		a.received, a.clock = received, clock
		c.o.Clock.Observe(a.result.Clock, sent, received)
	}
}
