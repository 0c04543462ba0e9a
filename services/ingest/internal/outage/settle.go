package outage

import (
	"errors"
	"slices"
	"time"

	"queen.internal/pkg/appendlog"
	"queen.internal/pkg/queue"
	"queen.internal/pkg/store/log"
)

// settle takes the results of a replay. It says whether that got the source any further.
func (g *Guard) settle(src *source, b *batch, replayed []appendlog.Replayed) (progress bool) {
	for i, s := range b.shares {
		if g.settleShare(src, s, &replayed[i]) {
			progress = true
		}
	}
	src.window = slices.DeleteFunc(src.window, func(e *entry) bool { return e.gone })
	return progress
}

func (g *Guard) settleShare(src *source, s *share, r *appendlog.Replayed) bool {
	switch {
	case r.Settled:
		g.done(src, s.entries)
		g.calm(s)
		return true
	case r.SettledUpTo > 0:
		at := slices.IndexFunc(s.entries, func(e *entry) bool { return int64(e.item.Sequence) > r.SettledUpTo })
		g.done(src, s.entries[:max(at, 0)])
		return at > 0
	case r.Repeats:
		return g.isolate(s)
	case r.QueueDeleted:
		return g.isolate(s) || g.abandon(src, s.entries[:1], "deleted", errors.New("the queue was deleted since"))
	case errors.Is(r.Err, appendlog.ErrMustSeal):
		return g.mustSeal(src, s, r.Err)
	case r.Err == nil:
		return false // an answer that says nothing: as if it had not been asked
	}
	if errors.Is(r.Err, log.ErrNotSent) {
		// The partition has nothing to do with that. The pace of what fails is enough of a pause.
		g.doubt()
		g.trouble("records of the spool were not sent", "queue", s.key.Queue, "partition", s.key.Partition, "err", r.Err)
		return false
	}
	switch queue.KindOf(r.Err) {
	case queue.KindUnavailable, queue.KindUnknown:
		if !log.Contended(r.Err) {
			g.doubt()
		}
		g.delay(s, r.Err)
		return false
	}
	if g.isolate(s) {
		return true
	}
	g.obstruct(s.key)
	t := g.delay(s, r.Err)
	if t.refusals++; t.refusals < maxRefusals {
		return false
	}
	return g.abandon(src, s.entries[:1], "refused", r.Err)
}

// mustSeal meets a queue that takes encrypted payloads only.
func (g *Guard) mustSeal(src *source, s *share, err error) bool {
	if !g.o.Keys.CanSeal() || s.entries[0].rec.Sealed {
		return g.abandon(src, s.entries, "keyless", err)
	}
	for _, e := range s.entries {
		g.seal(e.rec)
	}
	return true
}

// calm forgets the trouble of a partition that has none any more.
func (g *Guard) calm(s *share) { delete(g.drain.troubled, s.key) }

// isolate has the records of a share come one by one; false when they do already.
func (g *Guard) isolate(s *share) bool {
	if len(s.entries) == 1 {
		return false
	}
	g.troubleOf(s).single = true
	return true
}

func (g *Guard) troubleOf(s *share) *trouble {
	t := g.drain.troubled[s.key]
	if t == nil {
		t = &trouble{}
		g.drain.troubled[s.key] = t
	}
	return t
}

// delay lets a partition rest.
func (g *Guard) delay(s *share, err error) *trouble {
	t := g.troubleOf(s)
	t.until = time.Now().Add(g.drain.pause.Next(t.attempts))
	t.attempts++
	g.trouble("records of the spool could not be replayed", "queue", s.key.Queue, "partition", s.key.Partition, "attempts", t.attempts, "err", err)
	return t
}

// abandon sets records aside, one by one; false when the disk did not take one.
func (g *Guard) abandon(src *source, entries []*entry, reason string, cause error) bool {
	for _, e := range entries {
		if err := src.spool.SetAside(e.item, reason); err != nil {
			g.trouble("set a record of the spool aside", "spool", src.spool.Name().String(), "err", err)
			g.obstruct(e.rec.Key)
			return false
		}
		g.setAside(reason, src, src.spool.Name().ID, e.item.Sequence, cause, "queue", e.rec.Key.Queue, "messages", len(e.rec.Messages))
		g.drop(src, e)
		if t := g.drain.troubled[e.rec.Key]; t != nil {
			t.refusals, t.attempts, t.until = 0, 0, time.Time{}
		}
	}
	return true
}

// done settles records that are in the log.
func (g *Guard) done(src *source, entries []*entry) {
	for _, e := range entries {
		src.spool.Settle(e.item)
		g.drop(src, e)
		g.mu.Lock()
		g.counters.Replayed += int64(len(e.rec.Messages))
		g.mu.Unlock()
	}
}

// drop takes a record out of the window and out of what is pending.
func (g *Guard) drop(src *source, e *entry) {
	e.gone = true
	src.bytes -= e.size
	g.mu.Lock()
	defer g.mu.Unlock()
	src.expect(e.rec.Key, len(e.rec.Messages), -1)
	delete(g.barred, e.rec.Key)
}
