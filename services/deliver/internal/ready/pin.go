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
	p.cursor, p.ref = cursor, subscription
	x.cursors[cursor] = p
}

// Due implements wait.Source.
func (p *Pin) Due(time.Time) { p.spot.Wake(1) }

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
	case answer.found.Gone:
		p.spot.Wake(1)
	case len(answer.found.Candidates) == 0: // or its deliveries are stopped
	case answer.found.Candidates[0].Until.IsZero():
		p.spot.Wake(1)
	default:
		p.spot.Due(answer.due(answer.found.Candidates[0]))
	}
	return nil
}
