package outage

import (
	"context"
	"encoding/binary"
	"errors"
	"time"

	"github.com/google/uuid"

	"queen.internal/pkg/appendlog"
	"queen.internal/pkg/queue"
	"queen.internal/services/ingest/internal/spool"
	"queen.internal/services/ingest/internal/spool/record"
)

// Why a file goes back to what was set aside.
var (
	errKeyless = errors.New("its queue takes encrypted payloads only, and there is no key")
	errRepeats = errors.New("transaction ids in it are the same")
)

// tryAgain brings one file of what an operator wants tried again, and says whether there may be more. Its records are
// pushed like new ones, except that those which got into the log before, by their tag or by an earlier try, are not pushed
// once more. What waits for the database stays; what it refuses goes back to what was set aside.
func (g *Guard) tryAgain(ctx context.Context) bool {
	again := g.wanted()
	if again == nil {
		return false
	}
	name := again.Names[0]
	again.Names = again.Names[1:]
	err := g.bringKept(ctx, again, name)
	if err != nil {
		g.trouble("what was set aside cannot be replayed now", "file", name, "err", err)
	}
	if err == nil && len(again.Names) > 0 {
		return true
	}
	// Later ones wait for this one: they may be of its partition.
	g.endAgain()
	return false
}

// wanted is what is to be tried again, looked for now and then.
func (g *Guard) wanted() *spool.Again {
	d := &g.drain
	if d.again != nil {
		return d.again
	}
	if time.Since(d.looked) < adoptEvery {
		return nil
	}
	d.looked = time.Now()
	again, err := g.o.Folder.Again()
	if err = errors.Join(err, g.o.Folder.CountAside()); err != nil {
		g.trouble("look for what is to be tried again", "err", err)
	}
	if again != nil && len(again.Names) > 0 {
		d.again = again
		return again
	}
	if again != nil {
		g.released(again.Release())
	}
	return nil
}

func (g *Guard) endAgain() {
	if g.drain.again != nil {
		g.released(g.drain.again.Release())
		g.drain.again = nil
	}
}

func (g *Guard) released(err error) {
	if err != nil {
		g.trouble("release what is to be tried again", "err", err)
	}
}

// bringKept brings the records of a file. The error says why it stays for another time.
func (g *Guard) bringKept(ctx context.Context, again *spool.Again, name string) error {
	kept, err := again.Load(name)
	if errors.Is(err, spool.ErrNoRecords) {
		return g.returned(again, name, err)
	} else if err != nil {
		return err
	}
	for _, item := range kept.Items {
		rec, err := record.Decode(item, g.o.Keys, kept.Spool)
		if err != nil {
			return g.returned(again, name, err)
		}
		refused, err := g.push(ctx, mark(kept.Spool, item.Sequence), item.Sequence, rec)
		if err != nil {
			return err
		} else if refused != nil {
			return g.returned(again, name, refused)
		}
		g.mu.Lock()
		g.counters.Replayed += int64(len(rec.Messages))
		g.mu.Unlock()
		g.o.Logger.Info("a record that was set aside is replayed", "file", name, "queue", rec.Key.Queue, "partition", rec.Key.Partition, "messages", len(rec.Messages))
	}
	if err := again.Done(name); err != nil {
		return err // found by its marks next time
	}
	ctx, cancel := context.WithTimeout(ctx, forgetTime)
	defer cancel()
	for _, item := range kept.Items {
		if err := g.o.Forget(ctx, mark(kept.Spool, item.Sequence)); err != nil {
			g.trouble("forget what was tried again", "file", name, "err", err)
		}
	}
	return nil
}

// push brings one record. refused says why the database does not take it, err why it cannot say.
func (g *Guard) push(ctx context.Context, id uuid.UUID, sequence uint64, rec *record.Record) (refused, err error) {
	for {
		// Its age is that of the wish: the queue may have been deleted since it was spooled, and whoever wants it tried knows.
		r := g.o.Log.ReplaySpooled(ctx, id, []appendlog.Spooled{{
			Group: rec.Group, First: int64(sequence), Last: int64(sequence), Tag: rec.Tag, Attempted: rec.Attempted,
		}})[0]
		switch {
		case r.Settled:
			return nil, nil
		case r.Repeats:
			return errRepeats, nil
		case errors.Is(r.Err, appendlog.ErrMustSeal) && g.o.Keys.CanSeal() && !rec.Sealed:
			g.seal(rec)
			continue
		case errors.Is(r.Err, appendlog.ErrMustSeal):
			return errKeyless, nil
		case r.Err == nil:
			return nil, queue.Unavailable("its queue is being deleted", probeEvery, nil)
		}
		switch queue.KindOf(r.Err) {
		case queue.KindUnavailable, queue.KindUnknown:
			g.doubt()
			return nil, r.Err
		}
		return r.Err, nil
	}
}

// returned moves a file back to what was set aside, and says so.
func (g *Guard) returned(again *spool.Again, name string, cause error) error {
	if err := again.Return(name); err != nil {
		return err
	}
	g.o.Logger.Error("what was to be tried again is set aside again", "file", name, "err", cause)
	return nil
}

// mark is the id under which the database notes that a record was tried again: not that of its spool, where it notes only how
// far a partition was replayed, and that is beyond the record.
func mark(from uuid.UUID, sequence uint64) uuid.UUID {
	return uuid.NewSHA1(from, binary.BigEndian.AppendUint64([]byte("retry"), sequence))
}
