package outage

import (
	"errors"
	"fmt"
	"time"

	"queen.internal/pkg/appendlog"
	"queen.internal/services/ingest/internal/spool"
	"queen.internal/services/ingest/internal/spool/record"
)

// source is a spool that is to be drained: our own, or one of a dead process. The guard's mutex guards all but the window
// and what follows it, which belong to Run.
type source struct {
	spool    *spool.Spool
	pending  map[appendlog.Key]int // records that are not settled, by partition
	records  int64                 // the same, of all partitions
	messages int64
	writing  int       // appends under way
	retired  bool      // nothing more is appended; once it is empty it is removed
	lost     bool      // its folder was taken away
	blocked  time.Time // since when it can neither be read on nor set aside what comes next; zero while it can

	window []*entry // read and not settled, in their order
	bytes  int      // of the window
	stuck  *spool.Item
	tagged bool // the last batch was a record with a tag, if there was one
	met    spool.Damage
}

// entry is a record in the window.
type entry struct {
	item *spool.Item
	rec  *record.Record
	size int
	gone bool // settled
}

func newSource(s *spool.Spool) *source {
	return &source{spool: s, pending: map[appendlog.Key]int{}}
}

// expect counts records that are there, or are not any more when sign is -1. The caller holds the mutex.
func (s *source) expect(key appendlog.Key, messages, sign int) {
	if s.pending[key] += sign; s.pending[key] <= 0 {
		delete(s.pending, key)
	}
	s.records += int64(sign)
	s.messages += int64(sign * messages)
}

// borrow is our own source with one more append under way; a new one is made when there is none.
func (g *Guard) borrow() (*source, error) {
	if src := g.borrowed(); src != nil {
		return src, nil
	}
	<-g.making
	defer func() { g.making <- struct{}{} }()
	if src := g.borrowed(); src != nil { // somebody was quicker
		return src, nil
	}
	s, err := g.o.Folder.Create()
	if err != nil {
		return nil, err
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	g.own = newSource(s)
	g.sources = append(g.sources, g.own)
	g.own.writing++
	return g.own, nil
}

func (g *Guard) borrowed() *source {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.own != nil {
		g.own.writing++
	}
	return g.own
}

// retire lets nothing more be appended to src: the next one goes to a new spool. The caller holds the mutex.
func (g *Guard) retire(src *source) {
	src.retired = true
	if g.own == src {
		g.own = nil
	}
}

// store puts records on the disk, all or none. They count as pending from before they are there, so that Run never settles
// what was not counted.
func (g *Guard) store(records []*record.Record) error {
	for attempt := 0; ; attempt++ {
		src, err := g.borrow()
		if err != nil {
			return err
		}
		err = g.storeIn(src, records)
		lost := errors.Is(err, spool.ErrLost)
		g.giveBack(src, lost)
		if !lost || attempt > 0 {
			return err
		}
	}
}

// giveBack ends an append that was under way.
func (g *Guard) giveBack(src *source, lost bool) {
	g.mu.Lock()
	src.writing--
	news := lost && !src.lost
	if lost {
		src.lost = true
		g.retire(src)
	}
	messages := src.messages
	g.mu.Unlock()
	if news {
		g.o.Logger.Error("the spool's folder was taken away, its records are out of reach", "spool", src.spool.Name().String(), "messages", messages)
	}
}

func (g *Guard) storeIn(src *source, records []*record.Record) error {
	id := src.spool.Name().ID
	entries := make([]spool.Entry, len(records))
	for i, r := range records {
		entries[i] = record.Encode(r, g.o.Keys, id)
	}
	g.count(src, records, 1)
	err := src.spool.Append(entries)
	if err != nil {
		g.count(src, records, -1)
	}
	return err
}

func (g *Guard) count(src *source, records []*record.Record, sign int) {
	g.mu.Lock()
	defer g.mu.Unlock()
	for _, r := range records {
		src.expect(r.Key, len(r.Messages), sign)
	}
}

// shelve stores records and says of each why it is not stored, if it is not. It tells when that begins and ends.
func (g *Guard) shelve(records []*record.Record) []error {
	errs := make([]error, len(records))
	err := g.store(records)
	if errors.Is(err, spool.ErrFull) && len(records) > 1 {
		// Some may fit.
		for i := range records {
			errs[i] = g.store(records[i : i+1])
		}
	} else {
		for i := range errs {
			errs[i] = err
		}
	}
	g.settleShelving(records, errs)
	g.nudge()
	return errs
}

// settleShelving counts, and logs when storing begins to fail or works again.
func (g *Guard) settleShelving(records []*record.Record, errs []error) {
	var failed error
	g.mu.Lock()
	for i, err := range errs {
		if err != nil {
			failed = err
			g.counters.Failed += int64(len(records[i].Messages))
		} else {
			g.counters.Spooled += int64(len(records[i].Messages))
		}
	}
	before := g.full
	g.full = failed != nil
	g.mu.Unlock()
	switch {
	case failed != nil && !before:
		g.o.Logger.Error("pushes cannot be spooled, they fail", "err", failed, "bytes", g.o.Folder.Bytes())
	case failed == nil && before:
		g.o.Logger.Info("pushes are spooled again", "bytes", g.o.Folder.Bytes())
	}
}

// Start makes our own spool and adopts what earlier processes of this server id have left. It is called before anything is
// pushed, so that what lies there is known.
func (g *Guard) Start() error {
	if err := g.adopt(false); err != nil {
		return err
	}
	src, err := g.borrow()
	if err != nil {
		return err
	}
	g.giveBack(src, false)
	return nil
}

// adopt takes the spools of dead processes: of this server id, or of everybody.
func (g *Guard) adopt(everybody bool) error {
	names, err := g.o.Folder.Dead(everybody)
	if err != nil {
		return err
	}
	for _, name := range names {
		s, err := g.o.Folder.Adopt(name)
		if err != nil {
			continue // it lives, or somebody else was quicker
		}
		src := newSource(s)
		src.retired = true
		err = s.Survey(func(item *spool.Item) {
			// What cannot be read has no place in an order; it is set aside when its turn comes.
			if key, messages, err := record.KeyOf(item, g.o.Keys, name.ID); err == nil {
				src.expect(key, messages, 1)
			}
		})
		if err != nil {
			return errors.Join(fmt.Errorf("adopt spool %s: %w", name, err), s.Close())
		}
		g.take(src)
		if src.records > 0 {
			g.o.Logger.Info("adopted the spool of a dead process", "spool", name.String(), "messages", src.messages)
		}
	}
	return nil
}

// take adds an adopted source before our own: what it has is older than what is still to come.
func (g *Guard) take(src *source) {
	g.mu.Lock()
	defer g.mu.Unlock()
	at := len(g.sources)
	if at > 0 && g.sources[at-1] == g.own {
		at--
	}
	g.sources = append(g.sources[:at:at], append([]*source{src}, g.sources[at:]...)...)
	g.counters.Adopted++
}

// age is how long ago a record was spooled, by this machine's clock.
func age(r *record.Record) time.Duration { return max(time.Since(r.At), 0) }
