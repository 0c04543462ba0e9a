package appendlog

import (
	"context"
	"errors"
	"time"

	"queen.internal/pkg/backoff"
	"queen.internal/pkg/pg"
	"queen.internal/pkg/queue"
	"queen.internal/pkg/store/group"
	"queen.internal/pkg/store/log"
)

// maxAttempts bounds how often one bundle is sent while others are in its way. A connection that breaks is worth one
// repetition only.
const maxAttempts = 5

// betweenAttempts is short: whoever was in the way has mostly gone by the time that the error is here.
var betweenAttempts = backoff.Policy{Min: 10 * time.Millisecond, Max: 200 * time.Millisecond}

// bundle is the state of one Transact.
type bundle struct {
	log   *Log
	acks  *group.Store
	clock func() group.Bounds
	open  []*pending
	sent  group.Bundle

	created []log.Queue // not told yet
}

func newBundle(l *Log, acks *group.Store, t *Transaction) *bundle {
	b := &bundle{log: l, acks: acks, clock: t.Clock, sent: group.Bundle{
		ID: t.ID, Tenant: t.Tenant, Fingerprint: t.Fingerprint, MessageIDs: t.MessageIDs, Acks: t.Acks, Accepted: t.Accepted,
	}}
	for i := range t.Groups {
		b.open = append(b.open, newPending(i, &t.Groups[i]))
	}
	return b
}

// locate gives every group its partition and its runs, in a transaction of its own.
func (b *bundle) locate(ctx context.Context) error {
	var lacking []*pending
	var keys []Key
	for _, p := range b.open {
		if p.partition.ID != 0 {
			continue
		}
		if known, ok := b.log.known(p.key); ok {
			p.place(known)
			continue
		}
		lacking, keys = append(lacking, p), append(keys, p.key)
	}
	if len(lacking) == 0 {
		return nil
	}
	found, created, err := b.log.ensure(ctx, keys)
	b.created = append(b.created, created...)
	if err != nil {
		return err
	}
	for i, p := range lacking {
		b.log.ids.Add(p.key, found[i])
		p.place(found[i])
	}
	return nil
}

// send makes the call until it is answered. Every repetition is safe, because the first thing that the call does is to look
// whether an earlier one with its id has committed.
func (b *bundle) send(ctx context.Context) (group.BundleResult, error) {
	b.sent.Runs = b.sent.Runs[:0]
	for _, p := range b.open {
		p.runs[0].Voucher = b.log.memory.voucher(p.partition, p.runs)
		b.sent.Runs = append(b.sent.Runs, p.runs...)
	}
	var met []error
	unknown, broken := false, 0
	for attempt := range maxAttempts {
		result, err := b.once(ctx)
		if err == nil {
			return result, nil
		}
		met = append(met, err)
		unknown = unknown || log.Unknown(err)
		if !log.Contended(err) {
			broken++
		}
		if !pg.Transient(err) || broken > 1 || ctx.Err() != nil {
			break
		}
		if log.Contended(err) && backoff.Sleep(ctx, betweenAttempts.Next(attempt)) != nil {
			break
		}
	}
	err := errors.Join(met...)
	if unknown {
		return group.BundleResult{}, &queue.Error{
			Kind: queue.KindUnknown, RetryAfter: pg.RetryAfter, Err: err,
			Message: "PostgreSQL did not confirm the commit; the transaction may have been carried out",
		}
	}
	return group.BundleResult{}, pg.Wrap("transact", err)
}

func (b *bundle) once(ctx context.Context) (group.BundleResult, error) {
	ctx, cancel := context.WithTimeout(ctx, appendDeadline)
	defer cancel()
	b.sent.Clock = b.clock()
	return b.acks.Transact(ctx, &b.sent)
}

func (b *bundle) supply(ctx context.Context, result *group.BundleResult) (supplied bool, err error) {
	ctx, cancel := context.WithTimeout(ctx, appendDeadline)
	defer cancel()
	return b.acks.Supply(ctx, &b.sent, result)
}

// committed announces, and remembers what this process has written.
func (b *bundle) committed(ctx context.Context, result *group.BundleResult) {
	var announcements []Announcement
	places := make(map[int64]*pending, len(b.open))
	for _, p := range b.open {
		places[p.partition.ID] = p
	}
	for i, partition := range result.Record.Partitions {
		// Of a repetition, a partition may be another one by now.
		if p := places[partition]; p != nil {
			announcements = append(announcements, Announcement{Key: p.key, Partition: partition, LastOffset: result.Record.LastOffsets[i]})
		}
	}
	if len(announcements) > 0 {
		b.log.announce(announcements)
	}
	var unknown []unseen
	for i := range result.Placed {
		v := &result.Placed[i]
		p := places[v.Partition]
		if after, read := b.log.memory.learn(p.partition, v, p.runs); read {
			unknown = append(unknown, unseen{p.partition, after, v.CreatedAt.Add(-generation)})
		}
	}
	b.log.catchUp(ctx, unknown)
}
