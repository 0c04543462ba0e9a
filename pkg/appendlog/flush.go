package appendlog

import (
	"context"
	"errors"
	"fmt"

	"queen.internal/pkg/pg"
	"queen.internal/pkg/queue"
	"queen.internal/pkg/store/log"
)

// maxEvictions bounds how often one group follows a queue that is deleted and created again under it.
const maxEvictions = 5

// flush is the state of one Append.
type flush struct {
	log     *Log
	results []Result
	open    []*pending
	created []log.Queue // not told yet
}

func (f *flush) run(ctx context.Context) {
	// Each round either closes groups or learns which of their partitions are locked: then the next one waits. When the
	// wait was in vain, one more round takes what is free and the rest is given up, so the time is bounded however many
	// partitions are locked.
	wait, givenUp := false, error(nil)
	for len(f.open) > 0 {
		if ctx.Err() != nil {
			f.fail(f.open, ended(ctx))
			return
		}
		f.locate(ctx)
		if len(f.open) == 0 {
			return
		}
		before := len(f.open)
		placed, err := f.call(ctx, f.open, wait)
		switch {
		case err == nil:
			answered := f.settle(ctx, placed, wait, givenUp)
			wait, givenUp = answered == 0 && len(f.open) == before, nil
		case log.Locked(err):
			wait, givenUp = false, err
		case len(f.open) > 1 && isolates(err):
			f.oneByOne(ctx)
		default:
			f.fail(f.open, err)
		}
	}
}

// ended is why nothing more is tried.
func ended(ctx context.Context) error {
	cause := context.Cause(ctx)
	if errors.Is(cause, errTooSlow) {
		return queue.Unavailable("PostgreSQL took too long", pg.RetryAfter, cause)
	}
	return queue.Unavailable("the service is stopping", pg.RetryAfter, cause)
}

// isolates says that err may be one group's doing, so that the others should not share it.
func isolates(err error) bool {
	kind := queue.KindOf(err)
	return log.Locked(err) || (kind != queue.KindUnknown && kind != queue.KindUnavailable)
}

func (f *flush) oneByOne(ctx context.Context) {
	open := f.open
	for _, p := range open {
		f.open = []*pending{p}
		f.run(ctx)
	}
	f.open = nil
}

// fail closes groups with err.
func (f *flush) fail(groups []*pending, err error) {
	for _, p := range groups {
		r := &f.results[p.group]
		r.Err = err
		if queue.KindOf(err) == queue.KindUnknown {
			r.Attempt = &Attempt{Tag: p.tag, Places: p.places}
		} else {
			r.Outcomes = nil
		}
	}
	f.keep(func(p *pending) bool { return f.results[p.group].Err == nil })
}

func (f *flush) keep(open func(*pending) bool) {
	var kept []*pending
	for _, p := range f.open {
		if open(p) {
			kept = append(kept, p)
		}
	}
	f.open = kept
}

// locate gives every open group its partition and its runs. Groups whose partition cannot be provisioned fail, alone: a
// queue row that stays locked must not hold up those who are there already.
func (f *flush) locate(ctx context.Context) {
	var placed, lacking []*pending
	for _, p := range f.open {
		if p.partition.ID != 0 {
			continue
		}
		if known, ok := f.log.known(p.key); ok {
			p.partition = known
			placed = append(placed, p)
			continue
		}
		lacking = append(lacking, p)
	}
	prepareAll(placed)
	if len(lacking) > 0 {
		f.provision(ctx, lacking)
	}
}

func (f *flush) provision(ctx context.Context, groups []*pending) {
	keys := make([]Key, len(groups))
	for i, p := range groups {
		keys[i] = p.key
	}
	found, created, err := f.log.ensure(ctx, keys)
	f.created = append(f.created, created...)
	switch {
	case err == nil:
		for i, p := range groups {
			f.log.ids.Add(p.key, found[i])
			p.place(found[i])
		}
	case len(groups) > 1 && isolates(err):
		for _, p := range groups {
			f.provision(ctx, []*pending{p})
		}
	default:
		f.fail(groups, err)
	}
}

// ensure is idempotent, so one lost connection is worth a second try.
func (l *Log) ensure(ctx context.Context, keys []Key) (found []log.Partition, created []log.Queue, err error) {
	ctx, cancel := context.WithTimeout(ctx, appendDeadline)
	defer cancel()
	found, created, err = l.store.Provision(ctx, keys)
	if err != nil && pg.Transient(err) && !log.Locked(err) && ctx.Err() == nil {
		var more []log.Queue
		found, more, err = l.store.Provision(ctx, keys)
		created = append(created, more...)
	}
	return found, created, err
}

// call appends the groups in one transaction; when that surely did not commit, or may have, it is repeated once.
func (f *flush) call(ctx context.Context, groups []*pending, wait bool) ([]log.Placed, error) {
	var runs []log.Run
	for _, p := range groups {
		p.runs[0].Voucher = f.log.memory.voucher(p.partition, p.runs)
		runs = append(runs, p.runs...)
	}
	placed, err := f.once(ctx, runs, log.AppendOptions{Wait: wait})
	if err == nil || !pg.Transient(err) || log.Locked(err) {
		return placed, pg.Wrap("append", err)
	}
	unknown := log.Unknown(err)
	if ctx.Err() != nil && !unknown {
		return nil, pg.Wrap("append", err)
	}
	placed, second := f.once(ctx, runs, log.AppendOptions{Wait: true, CheckTags: unknown})
	if second == nil {
		return placed, nil
	}
	if unknown || log.Unknown(second) {
		return nil, &queue.Error{
			Kind: queue.KindUnknown, RetryAfter: pg.RetryAfter, Err: errors.Join(err, second),
			Message: "PostgreSQL did not confirm the commit; the messages may be stored, push them again with the same transaction ids",
		}
	}
	return nil, pg.Wrap("append", errors.Join(err, second))
}

func (f *flush) once(ctx context.Context, runs []log.Run, opts log.AppendOptions) ([]log.Placed, error) {
	ctx, cancel := context.WithTimeout(ctx, appendDeadline)
	defer cancel()
	return f.log.store.Append(ctx, runs, opts)
}

// settle takes the verdicts of one call and announces what it committed; it returns how many groups were answered. A
// partition without a verdict was locked: it is left for the next call, or fails with givenUp when that is set. After a
// call that waited it no longer exists.
func (f *flush) settle(ctx context.Context, placed []log.Placed, waited bool, givenUp error) int {
	verdicts := make(map[int64]*log.Placed, len(placed))
	for i := range placed {
		verdicts[placed[i].Partition] = &placed[i]
	}
	var announcements []Announcement
	var repeated []*pending
	var unknown []unseen
	for _, p := range f.open {
		v := verdicts[p.partition.ID]
		switch {
		case v == nil && givenUp != nil:
			f.results[p.group].Err = givenUp
		case v == nil && !waited:
		case v == nil, v.Verdict == log.Gone:
			f.evict(p)
		case v.Verdict == log.Duplicates:
			repeated = append(repeated, p)
		case v.Verdict == log.MustSeal:
			f.results[p.group].Err = fmt.Errorf("append to %q: %w", p.key.Queue, ErrMustSeal)
		case v.Verdict != log.Appended && v.Verdict != log.Found:
			// Of a newer schema. Whatever it means, it must not be taken for a success.
			f.results[p.group].Err = fmt.Errorf("append to %q: verdict %d is not known to this version", p.key.Queue, v.Verdict)
		default:
			last := v.Base + int64(len(p.messages)) - 1
			announcements = append(announcements, Announcement{Key: p.key, Partition: p.partition.ID, LastOffset: last})
			for i, place := range p.places {
				f.results[p.group].Outcomes[place] = Outcome{MessageID: p.messages[i].ID}
			}
			if after, read := f.log.memory.learn(p.partition, v, p.runs); read {
				unknown = append(unknown, unseen{p.partition, after, v.CreatedAt.Add(-generation)})
			}
			p.messages = nil
		}
	}
	if len(announcements) > 0 {
		f.log.announce(announcements)
	}
	f.log.catchUp(ctx, unknown)
	f.repeat(ctx, repeated, verdicts)
	f.keep(func(p *pending) bool { return len(p.messages) > 0 && f.results[p.group].Err == nil })
	return len(placed)
}

// evict forgets a partition id that no longer stands for the group's queue and partition.
func (f *flush) evict(p *pending) {
	f.log.ids.Remove(p.key)
	p.partition = log.Partition{}
	p.restart()
	if p.evicted++; p.evicted > maxEvictions {
		f.results[p.group].Err = queue.Unavailable("the queue is being deleted and created at the same time", pg.RetryAfter,
			fmt.Errorf("append to %q: partition gone %d times", p.key.Queue, p.evicted))
	}
}
