package outage

import (
	"context"
	"errors"
	"io"
	"time"

	"github.com/google/uuid"

	"queen.internal/pkg/appendlog"
	"queen.internal/pkg/backoff"
	"queen.internal/services/ingest/internal/spool"
	"queen.internal/services/ingest/internal/spool/record"
)

// drain is what Run keeps between its steps.
type drain struct {
	troubled map[appendlog.Key]*trouble
	adopted  time.Time // when dead processes' spools were last looked for
	asked    time.Time // when the database was probed last
	answered time.Time // since when the database answers; zero while it does not
	pause    backoff.Policy
	again    *spool.Again // what is being tried again; nil: nothing
	looked   time.Time    // when that was last looked for
}

// trouble is a partition whose records could not be brought to the database.
type trouble struct {
	attempts int
	refusals int
	until    time.Time
	single   bool // its records go one by one, so that the bad one is found
}

func newDrain() drain {
	return drain{troubled: map[appendlog.Key]*trouble{}, pause: backoff.Policy{Min: shortestPause, Max: longestPause}}
}

// forgive lets everything be tried at once: what failed, failed for want of a database.
func (d *drain) forgive() {
	for _, t := range d.troubled {
		t.until, t.attempts = time.Time{}, 0
	}
}

// Run probes the database while it is away, adopts what dead processes have left, and brings the spools to the database,
// until ctx ends. It wakes when something was spooled or went wrong, and by itself at the pace of what it waits for.
func (g *Guard) Run(ctx context.Context) error {
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return g.close()
		case <-g.wake:
		case <-timer.C:
		}
		timer.Reset(g.step(ctx))
	}
}

// step does what there is to do and returns when to come again at the latest.
func (g *Guard) step(ctx context.Context) time.Duration {
	g.retry()
	if !g.probed(ctx) {
		return probeEvery
	}
	g.adoptPeers()
	if g.o.Held() {
		g.mu.Lock()
		g.unbar()
		g.mu.Unlock()
		return adoptEvery
	}
	more := g.tryAgain(ctx)
	for _, src := range g.list() {
		if ctx.Err() != nil {
			return adoptEvery
		}
		progress := g.bring(ctx, src)
		g.discard(ctx, src)
		if progress {
			return 0
		}
	}
	switch {
	case more:
		return 0
	case g.Status().Records > 0:
		return g.o.Pace
	}
	return adoptEvery
}

// adoptPeers takes over what dead processes have left, now and then.
func (g *Guard) adoptPeers() {
	if time.Since(g.drain.adopted) < adoptEvery {
		return
	}
	g.drain.adopted = time.Now()
	if err := g.adopt(true); err != nil {
		g.trouble("look for spools of dead processes", "err", err)
	}
}

// retry finds out whether a disk that took nothing takes something again: nobody pushes to a process that is not ready.
func (g *Guard) retry() {
	if !g.Status().Full || g.o.Folder.Room(smallRecord) != nil || g.o.Folder.Try() != nil {
		return
	}
	g.mu.Lock()
	g.full = false
	g.mu.Unlock()
	g.o.Logger.Info("pushes are spooled again", "bytes", g.o.Folder.Bytes())
}

func (g *Guard) list() []*source {
	g.mu.Lock()
	defer g.mu.Unlock()
	return append([]*source(nil), g.sources...)
}

// bring replays one batch of a source and says whether that got it any further.
func (g *Guard) bring(ctx context.Context, src *source) bool {
	progress := g.fill(src)
	batch := g.pick(src, time.Now())
	if len(batch.shares) == 0 {
		return progress
	}
	started := time.Now()
	replayed := g.o.Log.ReplaySpooled(ctx, src.spool.Name().ID, batch.groups())
	if g.settle(src, batch, replayed) {
		progress = true
	}
	for _, share := range batch.shares {
		if share.held {
			g.partitions.Release(share.key)
		}
	}
	g.o.Logger.Debug("replayed a batch of the spool", "partitions", len(batch.shares), "messages", batch.messages, "took", time.Since(started))
	return progress
}

// fill reads ahead. It says whether it set something aside, which is progress, too.
func (g *Guard) fill(src *source) (progress bool) {
	id, blocked := src.spool.Name().ID, false
	for len(src.window) < windowItems && src.bytes < windowBytes {
		item := src.stuck
		if src.stuck = nil; item == nil {
			var err error
			if item, err = src.spool.Next(); err == io.EOF {
				break
			} else if err != nil {
				g.trouble("read a spool", "spool", src.spool.Name().String(), "err", err)
				blocked = true
				break
			}
		}
		rec, err := record.Decode(item, g.o.Keys, id)
		if err == nil {
			e := &entry{item: item, rec: rec}
			for i := range rec.Messages {
				e.size += rec.Messages[i].Size()
			}
			src.window = append(src.window, e)
			src.bytes += e.size
			continue
		}
		if kept := src.spool.SetAside(item, "unreadable"); kept != nil {
			src.stuck, blocked = item, true
			g.trouble("set a record of the spool aside", "spool", src.spool.Name().String(), "err", kept)
			break
		}
		progress = true
		g.setAside("unreadable", src, id, item.Sequence, err)
		g.spoilt(src)
	}
	g.block(src, blocked)
	if met := src.spool.Damage(); met != src.met {
		src.met = met
		g.spoilt(src)
	}
	return progress
}

// spoilt retires a source some of whose records are not what was counted, so that the count ends with it.
func (g *Guard) spoilt(src *source) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.retire(src)
}

// setAside counts and logs a record that was set aside.
func (g *Guard) setAside(reason string, src *source, id uuid.UUID, sequence uint64, err error, args ...any) {
	g.mu.Lock()
	g.counters.SetAside++
	g.mu.Unlock()
	g.o.Logger.Error("a record of the spool is set aside", append([]any{
		"reason", reason, "spool", src.spool.Name().Server, "id", id.String(), "sequence", sequence, "err", err,
	}, args...)...)
}

// discard removes the files that are done with, and a retired source once it is empty.
func (g *Guard) discard(ctx context.Context, src *source) {
	empty, err := src.spool.Reclaim()
	if err != nil {
		g.trouble("remove files of a spool", "spool", src.spool.Name().String(), "err", err)
	}
	g.mu.Lock()
	gone := src.retired && src.writing == 0 && len(src.window) == 0 && src.stuck == nil && (empty || src.lost)
	g.mu.Unlock()
	if !gone {
		return
	}
	if err := g.forget(ctx, src, forgetTime); err != nil {
		g.trouble("forget a spool", "spool", src.spool.Name().String(), "err", err)
		return
	}
	if err := src.spool.Remove(); err != nil {
		g.o.Logger.Warn("an empty spool stays", "err", err)
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	for i, s := range g.sources {
		if s == src {
			g.sources = append(g.sources[:i:i], g.sources[i+1:]...)
			break
		}
	}
}

func (g *Guard) forget(ctx context.Context, src *source, limit time.Duration) error {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	return g.o.Forget(ctx, src.spool.Name().ID)
}

// close ends the spools. What is in them is for the next process.
func (g *Guard) close() error {
	g.endAgain()
	if n := g.Status().Pending; n > 0 {
		g.o.Logger.Warn("spool has undrained events at shutdown", "pending", n)
	}
	var errs []error
	for _, src := range g.list() {
		empty, err := src.spool.Reclaim()
		if empty && err == nil && !g.Down() && g.forget(context.Background(), src, closeTime) == nil {
			errs = append(errs, src.spool.Remove())
			continue
		}
		errs = append(errs, err, src.spool.Close())
	}
	return errors.Join(errs...)
}
