package outage

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/uuid"
	"go.uber.org/goleak"

	"queen.internal/pkg/appendlog"
	"queen.internal/pkg/queue"
	"queen.internal/pkg/seal"
	"queen.internal/pkg/segment"
	"queen.internal/pkg/store/log"
	"queen.internal/services/ingest/internal/spool"
	"queen.internal/services/ingest/internal/spool/brittle"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// ledger is a database that can be away, and the append log on it.
type ledger struct {
	mu      sync.Mutex
	away    bool                          // nothing answers
	fails   func(key appendlog.Key) error // what an append or a replay of a partition ends with
	commits bool                          // appends that fail have committed all the same
	sealed  map[string]bool               // queues that take encrypted payloads only
	deleted map[string]bool               // queues that were deleted just now
	poison  string                        // a transaction id that is refused
	stored  map[appendlog.Key][]string
	ids     map[string]uuid.UUID
	plain   int // payloads stored as they were
	marks   map[string]int64
	tags    map[int64]bool
	replays int
	pings   int
	window0 bool   // nothing is deduplicated
	before  func() // each replay
}

var errAway = queue.Unavailable("away", time.Second, fmt.Errorf("%w: connection refused", log.ErrNotSent))

func newLedger() *ledger {
	return &ledger{
		fails: func(appendlog.Key) error { return nil }, sealed: map[string]bool{}, deleted: map[string]bool{}, stored: map[appendlog.Key][]string{},
		ids: map[string]uuid.UUID{}, marks: map[string]int64{}, tags: map[int64]bool{}, before: func() {},
	}
}

func (l *ledger) set(change func()) {
	l.mu.Lock()
	defer l.mu.Unlock()
	change()
}

func (l *ledger) ping(context.Context) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.pings++
	if l.away {
		return errAway
	}
	return nil
}

// write stores messages, duplicates aside. The caller holds the mutex.
func (l *ledger) write(key appendlog.Key, messages []segment.Message) {
	for _, m := range messages {
		if l.window0 || !slices.Contains(l.stored[key], m.TransactionID) {
			l.stored[key] = append(l.stored[key], m.TransactionID)
			l.ids[m.TransactionID] = m.ID
			if !seal.IsEnvelope(m.Payload) {
				l.plain++
			}
		}
	}
}

func (l *ledger) Append(_ context.Context, groups []appendlog.Group) []appendlog.Result {
	l.mu.Lock()
	defer l.mu.Unlock()
	results := make([]appendlog.Result, len(groups))
	for i, g := range groups {
		err := l.fails(g.Key)
		if l.away && err == nil {
			err = errAway
		}
		if err != nil {
			results[i].Err = err
			if queue.KindOf(err) == queue.KindUnknown {
				a := &appendlog.Attempt{Tag: int64(len(l.tags) + 1)}
				for place := range g.Messages {
					a.Places = append(a.Places, place)
				}
				if l.tags[a.Tag] = l.commits; l.commits {
					l.write(g.Key, g.Messages)
				}
				results[i].Attempt = a
				results[i].Outcomes = make([]appendlog.Outcome, len(g.Messages))
			}
			continue
		}
		l.write(g.Key, g.Messages)
		for _, m := range g.Messages {
			results[i].Outcomes = append(results[i].Outcomes, appendlog.Outcome{MessageID: m.ID})
		}
	}
	return results
}

func (l *ledger) ReplaySpooled(_ context.Context, id uuid.UUID, groups []appendlog.Spooled) []appendlog.Replayed {
	l.before()
	l.mu.Lock()
	defer l.mu.Unlock()
	l.replays++
	out := make([]appendlog.Replayed, len(groups))
	for i := range groups {
		out[i] = l.replay(id, &groups[i])
	}
	return out
}

func (l *ledger) replay(id uuid.UUID, g *appendlog.Spooled) appendlog.Replayed {
	mark := fmt.Sprint(id, g.Key)
	switch err := l.fails(g.Key); {
	case err != nil:
		return appendlog.Replayed{Err: err}
	case l.away:
		return appendlog.Replayed{Err: errAway}
	case l.deleted[g.Key.Queue]:
		return appendlog.Replayed{QueueDeleted: true}
	case l.marks[mark] >= g.First:
		return appendlog.Replayed{SettledUpTo: l.marks[mark], Settled: l.marks[mark] >= g.Last}
	case l.sealed[g.Key.Queue] && !g.Sealed:
		return appendlog.Replayed{Err: appendlog.ErrMustSeal}
	case g.Attempted && l.tags[g.Tag]:
		l.marks[mark] = g.Last
		return appendlog.Replayed{Settled: true}
	}
	for _, m := range g.Messages {
		if m.TransactionID == l.poison {
			return appendlog.Replayed{Err: queue.Invalid("payload", "it is poison")}
		}
	}
	l.write(g.Key, g.Messages)
	l.marks[mark] = g.Last
	return appendlog.Replayed{Settled: true}
}

// held are the partitions that a batcher was asked to keep waiting.
type held struct {
	mu    sync.Mutex
	now   map[appendlog.Key]bool
	total int
}

func (h *held) Hold(key appendlog.Key) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.now[key] = true
	h.total++
	return true
}

func (h *held) Release(key appendlog.Key) {
	h.mu.Lock()
	defer h.mu.Unlock()
	delete(h.now, key)
}

// bundle is a guard on a disk and a database that can fail, whose Run the test does step by step.
type bundle struct {
	*testing.T
	disk   *brittle.Disk
	db     *ledger
	root   string
	keys   *seal.Keys
	server string
	none   map[string]bool // queues that are not spooled
	ready  error
	max    int64
	off    bool         // push maintenance is on
	fallen atomic.Int64 // how often the database was told to be away
	lines  *lines
	guard  *Guard
	held   *held
}

func setup(t *testing.T, change ...func(*bundle)) *bundle {
	t.Helper()
	b := &bundle{T: t, disk: &brittle.Disk{}, db: newLedger(), root: filepath.Join(t.TempDir(), "spool"), server: "ingest-0", none: map[string]bool{}, lines: &lines{Handler: slog.DiscardHandler}}
	for _, c := range change {
		c(b)
	}
	b.start()
	t.Cleanup(b.stop)
	return b
}

// start is a process that begins; the one before has to be dead.
func (b *bundle) start() {
	b.Helper()
	logger := slog.New(b.lines)
	folder, err := spool.Open(spool.Options{FS: b.disk, Root: b.root, Server: b.server, Logger: logger, FileBytes: 1 << 20, FileRecords: 5, MaxBytes: b.max})
	if err != nil {
		b.Fatal(err)
	}
	b.held = &held{now: map[appendlog.Key]bool{}}
	b.guard = New(Options{
		Log: b.db, Folder: folder, Keys: b.keys, Ping: b.db.ping, Back: b.db.ping, Fallen: func() { b.fallen.Add(1) }, Ready: func() error { return b.ready },
		Forget:  func(context.Context, uuid.UUID) error { return nil },
		NoSpool: func(_ uuid.UUID, queue string) bool { return b.none[queue] },
		Held:    func() bool { return b.off }, BatchMessages: 4, Pace: time.Millisecond, Logger: logger,
	})
	b.guard.Over(b.held)
	if err := b.guard.Start(); err != nil {
		b.Fatal(err)
	}
}

// stop ends the process in order.
func (b *bundle) stop() {
	b.Helper()
	b.disk.Heal()
	if err := b.guard.close(); err != nil {
		b.Error(err)
	}
}

// kill ends the process as a signal does.
func (b *bundle) kill() {
	b.Helper()
	for _, src := range b.guard.list() {
		if err := src.spool.Close(); err != nil {
			b.Error(err)
		}
	}
}

func keyOf(queueName, partition string) appendlog.Key {
	return appendlog.Key{Tenant: queue.DefaultTenant, Queue: queueName, Partition: partition}
}

func group(queueName, partition string, transactions ...string) appendlog.Group {
	g := appendlog.Group{Key: keyOf(queueName, partition)}
	for _, id := range transactions {
		g.Messages = append(g.Messages, segment.Message{ID: queue.NewID(), TransactionID: id, Payload: []byte(`{"n":1}`)})
	}
	return g
}

// push appends groups and says of each message what became of it.
func (b *bundle) push(groups ...appendlog.Group) string {
	b.Helper()
	var out []string
	for i, r := range b.guard.Append(b.Context(), groups) {
		if r.Err != nil {
			switch {
			case errors.Is(r.Err, ErrNotSpooled):
				out = append(out, "not spooled")
			default:
				out = append(out, queue.KindOf(r.Err).String())
			}
			continue
		}
		for n, o := range r.Outcomes {
			if o.MessageID != groups[i].Messages[n].ID {
				b.Errorf("message %d of group %d has another id", n, i)
			}
			switch {
			case o.Buffered:
				out = append(out, "buffered")
			default:
				out = append(out, "queued")
			}
		}
	}
	return strings.Join(out, " ")
}

func (b *bundle) want(got, want string) {
	b.Helper()
	if got != want {
		b.Errorf("got %q, want %q", got, want)
	}
}

// drained does steps until nothing is pending.
func (b *bundle) drained() {
	b.Helper()
	for range 1000 {
		b.guard.drain.asked = time.Time{}
		b.guard.step(b.Context())
		if s := b.guard.Status(); s.Records == 0 && s.Up {
			b.guard.step(b.Context())
			if s.Pending != 0 {
				b.Errorf("%d messages pending in no record", s.Pending)
			}
			return
		}
		time.Sleep(time.Millisecond) // the pace of a replay that failed
	}
	b.Fatalf("never drained: %+v\n%s", b.guard.Status(), b.lines)
}

func (b *bundle) stored(queueName, partition string) string {
	b.db.mu.Lock()
	defer b.db.mu.Unlock()
	return strings.Join(b.db.stored[keyOf(queueName, partition)], " ")
}

// lines is the log.
type lines struct {
	slog.Handler
	mu   sync.Mutex
	text []string
}

func (l *lines) Enabled(context.Context, slog.Level) bool { return true }

func (l *lines) Handle(_ context.Context, r slog.Record) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	line := r.Message
	r.Attrs(func(a slog.Attr) bool { line += " " + a.String(); return true })
	l.text = append(l.text, line)
	return nil
}

func (l *lines) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return strings.Join(l.text, "\n")
}

func (l *lines) count(text string) int { return strings.Count(l.String(), text) }
