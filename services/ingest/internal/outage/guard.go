package outage

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"github.com/google/uuid"
	"golang.org/x/sync/singleflight"

	"queen.internal/pkg/appendlog"
	"queen.internal/pkg/logging"
	"queen.internal/pkg/seal"
	"queen.internal/services/ingest/internal/spool"
)

// Log is the append log, as far as it is used here.
type Log interface {
	Append(ctx context.Context, groups []appendlog.Group) []appendlog.Result
	ReplaySpooled(ctx context.Context, spool uuid.UUID, groups []appendlog.Spooled) []appendlog.Replayed
}

// Partitions keeps the pushes to single partitions waiting; see batch.Batcher.
type Partitions interface {
	Hold(key appendlog.Key) bool
	Release(key appendlog.Key)
}

// Options are what a Guard works with. Every field must be set, except where it says otherwise.
type Options struct {
	Log    Log
	Folder *spool.Folder
	Keys   *seal.Keys // nil: records are not sealed

	Ping    func(ctx context.Context) error                  // asks the database, over a connection of its own
	Back    func(ctx context.Context) error                  // the same, once it has not answered, over one that pushes can use
	Fallen  func()                                           // is told when it does not answer, once each time
	Ready   func() error                                     // nil while the database has the schema
	Forget  func(ctx context.Context, spool uuid.UUID) error // removes the database's notes of a spool
	NoSpool func(tenant uuid.UUID, queue string) bool        // says that a queue prefers failure to the spool
	Held    func() bool                                      // push maintenance is on: everything goes to the spool and stays there

	BatchMessages int           // of one replay, at least one record
	Pace          time.Duration // between two replays when the first failed
	BarrierMax    time.Duration // after which pushes go past a record that cannot be brought; 0: never
	Logger        *slog.Logger
}

// Bounds that no setting changes.
const (
	probeTime     = 2 * time.Second        // for the database to answer
	probeEvery    = 250 * time.Millisecond // while it does not
	slowAppend    = time.Second            // an append that takes longer has the database probed
	adoptEvery    = 5 * time.Second        // look for spools of dead processes
	forgetTime    = 5 * time.Second        // for removing notes
	closeTime     = time.Second            // the same, when the process stops
	schemaTime    = 10 * time.Second       // that a database which is back gets until it has its schema
	maxRefusals   = 8                      // of a record that the database refuses, before it is set aside
	windowBytes   = 8 << 20                // of records read ahead, of one spool
	windowItems   = 20_000                 // the same
	batchBytes    = 4 << 20                // of one replay
	batchKeys     = 256                    // partitions of one replay
	reportEvery   = 10 * time.Second       // the same trouble is logged that often
	smallRecord   = 1 << 10                // bytes without which a spool is as good as full
	shortestPause = 500 * time.Millisecond // between two attempts at one partition, at first
	longestPause  = 30 * time.Second       // and at last
)

// Guard stands between the batcher and the append log. Make it with New, open its spools with Start, work it with Run.
type Guard struct {
	o          Options
	partitions Partitions // set before Run

	probes singleflight.Group
	wake   chan struct{} // capacity 1: there is something to drain or to probe
	making chan struct{} // a token: who has it may make our own spool

	mu       sync.Mutex
	down     bool      // the database is known not to answer
	suspect  bool      // it may not: probe
	sources  []*source // adopted ones, oldest first, then our own
	own      *source   // nil when there is none to append to
	full     bool      // the last attempt to store something failed
	counters Counters
	barred   map[appendlog.Key]*bar // partitions whose next record cannot be brought

	drain drain // of Run
	noted logging.Sampler
}

// Counters are what happened since the start, in messages unless it says otherwise.
type Counters struct {
	Spooled  int64 // answered buffered
	Failed   int64 // that could be stored nowhere
	Replayed int64 // settled, duplicates included
	SetAside int64 // records
	Adopted  int64 // spools
	Passed   int64 // partitions whose new pushes went past records that cannot be brought
}

// New returns a Guard. It touches no disk.
func New(o Options) *Guard {
	g := &Guard{o: o, wake: make(chan struct{}, 1), making: make(chan struct{}, 1), drain: newDrain(), noted: logging.Sampler{Window: reportEvery}, barred: map[appendlog.Key]*bar{}}
	g.making <- struct{}{}
	return g
}

// Over says which batcher the guard's log is of; call it before Run.
func (g *Guard) Over(p Partitions) { g.partitions = p }

// HeldChanged has the spools drained, should they be allowed to.
func (g *Guard) HeldChanged() { g.nudge() }

// nudge wakes Run.
func (g *Guard) nudge() {
	select {
	case g.wake <- struct{}{}:
	default:
	}
}

// Status is a reading.
type Status struct {
	Pending  int64 // messages in spools
	Records  int64
	Spools   int
	Up       bool // the database answers, as far as is known
	Full     bool // nothing could be stored, last time
	Counters Counters
}

// Status reads.
func (g *Guard) Status() Status {
	g.mu.Lock()
	defer g.mu.Unlock()
	s := Status{Spools: len(g.sources), Up: !g.down, Full: g.full, Counters: g.counters}
	for _, src := range g.sources {
		s.Pending += src.messages
		s.Records += src.records
	}
	return s
}

// Files is how many files wait to be drained, and their bytes.
func (g *Guard) Files() (files int, bytes int64) {
	for _, src := range g.list() {
		n, size := src.spool.Files()
		files, bytes = files+n, bytes+size
	}
	return files, bytes
}

// Room says why nothing can be spooled, as far as is known; nil when it can.
func (g *Guard) Room() error {
	if g.Status().Full {
		return spool.ErrFull
	}
	return g.o.Folder.Room(smallRecord)
}

// Away says that pushes are stored without the database: it is known not to answer, or push maintenance is on.
func (g *Guard) Away() bool { return g.Held() || g.Down() }

// Held says that push maintenance is on.
func (g *Guard) Held() bool { return g.o.Held() }

// Down says that the database is known not to answer.
func (g *Guard) Down() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.down
}
