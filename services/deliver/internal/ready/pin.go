package ready

import (
	"context"
	"time"

	"github.com/google/uuid"

	"queen.internal/pkg/store/group"
	"queen.internal/services/deliver/internal/wait"
)

// pinKey names a partition as one group pops it.
type pinKey struct {
	tenant                  uuid.UUID
	queue, partition, group string
}

// contactPause is how long the backstop takes an empty answer at its word before it has a poll try: the partition may be
// another one by now.
const contactPause = 10 * time.Second

// Pin is where the polls park that want one partition and no other. There is nothing to remember about it: a claim of
// one row tells all, so the backstop wakes one poll, which tries, once the partition has something or may be another one.
type Pin struct {
	key   pinKey
	index *Index
	spot  *wait.Spot

	// Guarded by the index's mutex.
	users  int
	cursor cursorKey // zero until it is known that the partition exists
	ref    group.Ref // the subscription
	tried  time.Time // when the backstop last had a poll try
	rests  time.Time // a lease is known to last until then; zero: none is
	offset int64     // highest offset that was heard of
	peers  peers     // other processes whose polls took this partition
}

// Pin returns the pin of a partition and a group. It must be given back by Unpin.
func (x *Index) Pin(tenant uuid.UUID, queue, partition, group string) *Pin {
	key := pinKey{tenant, queue, partition, group}
	x.mu.Lock()
	defer x.mu.Unlock()
	p := x.pins[key]
	if p == nil {
		p = &Pin{key: key, index: x}
		p.spot = x.lot.Spot(p)
		x.pins[key] = p
		x.interest(queueKey{tenant, queue}).pins[p] = struct{}{}
	}
	p.users++
	return p
}

// Unpin gives back a pin; without users it is forgotten.
func (x *Index) Unpin(p *Pin) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if p.users--; p.users > 0 {
		return
	}
	delete(x.pins, p.key)
	x.lose(queueKey{p.key.tenant, p.key.queue}, nil, p)
	if x.cursors[p.cursor] == p {
		delete(x.cursors, p.cursor)
	}
}

// Spot is where polls of this partition park.
func (p *Pin) Spot() *wait.Spot { return p.spot }

// Known notes which cursor the pin means.
func (p *Pin) Known(subscription group.Ref, partition int64) {
	cursor := cursorKey{subscription.ID, partition}
	x := p.index
	x.mu.Lock()
	defer x.mu.Unlock()
	if p.cursor == cursor {
		return
	}
	if x.cursors[p.cursor] == p {
		delete(x.cursors, p.cursor)
	}
	p.rests, p.offset = time.Time{}, unknownOffset
	p.cursor, p.ref = cursor, subscription
	x.cursors[cursor] = p
}

// Took notes what a pop of the partition has taken, and tells peers. clock is the one that the claim went by.
func (p *Pin) Took(claim *group.Claim, consumed bool, clock time.Time) {
	if !consumed {
		p.rest(time.Now().Add(claim.Until.Sub(clock) + time.Millisecond))
	}
	p.index.tell(Key{p.key.tenant, p.key.queue, p.key.group}, claim, consumed, clock)
}

// pushed says that the partition has got messages. One poll tries, unless that would be in vain or is a peer's turn.
func (p *Pin) pushed(offset int64) {
	now := time.Now()
	p.index.mu.Lock()
	p.offset = max(p.offset, offset)
	resting := now.Before(p.rests)
	first := p.peers.goesFirst(p.index.options.Self, p.cursor.partition, now)
	p.index.mu.Unlock()
	switch {
	case resting:
	case first:
		p.spot.Wake(1)
	default:
		p.spot.Due(now.Add(minPause))
	}
}

// freed says that a lease has ended, or that nothing known counts any more. It is true when a poll tries.
func (p *Pin) freed() bool {
	p.index.mu.Lock()
	p.rests = time.Time{}
	p.index.mu.Unlock()
	return p.spot.Wake(1) > 0
}

// drained says that a lease has ended which left nothing past the offset committed.
func (p *Pin) drained(committed int64) bool {
	p.index.mu.Lock()
	p.rests = time.Time{}
	more := p.offset > committed
	p.index.mu.Unlock()
	return more && p.spot.Wake(1) > 0
}

// leased says that a peer took the partition, for so long.
func (p *Pin) leased(peer string, length time.Duration) {
	now := time.Now()
	p.index.mu.Lock()
	p.peers.note(peer, now)
	p.index.mu.Unlock()
	if length > 0 {
		p.rest(now.Add(min(length, believedFor)))
	}
}

// rest notes until when a lease lasts. A poll tries when it has ended.
func (p *Pin) rest(until time.Time) {
	p.index.mu.Lock()
	p.rests = until
	p.index.mu.Unlock()
	p.spot.Due(until)
}

// Due implements wait.Source.
func (p *Pin) Due(now time.Time) {
	p.index.mu.Lock()
	rests := p.rests
	p.index.mu.Unlock()
	if now.Before(rests) {
		p.spot.Due(rests)
		return
	}
	p.spot.Wake(1)
}

// Recheck implements wait.Source.
func (p *Pin) Recheck(ctx context.Context) error {
	x, now := p.index, time.Now()
	x.mu.Lock()
	partition, ref := p.cursor.partition, p.ref
	try := partition == 0 || now.Sub(p.tried) >= contactPause
	if try {
		p.tried = now
	}
	x.mu.Unlock()
	if try {
		p.spot.Wake(1)
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, x.options.Timeout)
	defer cancel()
	answer, err := x.finder.find(ctx, group.Search{
		Subscription: ref, From: group.WrittenSince(now.Add(farAway)), Since: now.Add(farAway), Known: []int64{partition},
	})
	switch {
	case err != nil:
		return err
	case len(answer.found.Candidates) == 0 && !answer.found.Gone: // or its deliveries are stopped
	case answer.found.Gone || answer.found.Candidates[0].Until.IsZero():
		p.freed()
	default:
		p.rest(answer.due(answer.found.Candidates[0]))
	}
	return nil
}
