package outage

import (
	"errors"
	"fmt"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/uuid"

	"queen.internal/pkg/appendlog"
	"queen.internal/pkg/queue"
	"queen.internal/pkg/seal"
	"queen.internal/pkg/store/log"
)

func TestAnOutageFromBeginningToEnd(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.want(b.push(group("q", "p", "1")), "queued")
	b.db.set(func() { b.db.away = true })
	g := group("q", "p", "2", "3")
	b.want(b.push(g, group("q", "other", "a")), "buffered buffered buffered")
	b.want(b.push(group("q", "p", "4")), "buffered")
	if s := b.guard.Status(); s.Pending != 4 || s.Records != 3 || s.Up {
		t.Errorf("%+v", s)
	}
	b.guard.step(t.Context())
	if s := b.guard.Status(); s.Up {
		t.Error("up while the database is away")
	}
	b.db.set(func() { b.db.away = false })
	b.drained()
	b.want(b.stored("q", "p"), "1 2 3 4")
	b.want(b.stored("q", "other"), "a")
	if b.db.ids["3"] != g.Messages[1].ID {
		t.Error("stored under another id than announced")
	}
	b.want(b.push(group("q", "p", "5")), "queued")
	down, up, told := b.lines.count("DB down — entering buffered mode"), b.lines.count("DB recovered — leaving buffered mode"), b.fallen.Load()
	if down != 1 || up != 1 || told != 1 {
		t.Errorf("%d lines of its begin, told %d times, %d lines of its end:\n%s", down, told, up, b.lines)
	}
}

// While records of a partition are in a spool, what is pushed to it goes behind them; what is not, does not wait for them.
func TestPushesGoBehindWhatIsSpooled(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.db.set(func() { b.db.away = true })
	b.want(b.push(group("q", "p", "1"), group("q", "r", "x")), "buffered buffered")
	b.db.set(func() { b.db.away = false })
	b.guard.rise()
	b.want(b.push(group("q", "p", "2"), group("q", "free", "y")), "buffered queued")
	b.drained()
	b.want(b.push(group("q", "p", "3")), "queued")
	b.want(b.stored("q", "p"), "1 2 3")
}

// The last records of a partition are replayed while its new pushes wait, so a partition that is pushed to all the time
// leaves the spool.
func TestTheLastRecordsHoldTheirPartition(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.db.set(func() { b.db.away = true })
	for n := range 6 { // a batch takes four
		b.push(group("q", "p", fmt.Sprint(n)))
	}
	b.db.set(func() { b.db.away = false })
	var heldAt []bool
	b.db.before = func() { heldAt = append(heldAt, b.held.now[keyOf("q", "p")]) }
	b.drained()
	if fmt.Sprint(heldAt) != "[false true]" || len(b.held.now) > 0 || b.held.total != 1 {
		t.Errorf("held in %v, %d still", heldAt, len(b.held.now))
	}
	b.want(b.stored("q", "p"), "0 1 2 3 4 5")
}

// Pushes to a partition with little go to the database again long before those to one with much.
func TestPartitionsWithTheFewestRecordsAreDoneFirst(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.db.set(func() { b.db.away = true })
	for n := range 40 { // a batch takes four
		b.push(group("q", "hot", fmt.Sprint(n)))
	}
	b.push(group("q", "cold", "x"), group("q", "cool", "y"))
	b.push(group("q", "cool", "z"))
	b.db.set(func() { b.db.away = false })
	b.guard.rise()
	b.guard.step(t.Context())
	b.want(b.stored("q", "cold")+" "+b.stored("q", "cool")+" "+b.stored("q", "hot"), "x y z 0")
	b.want(b.push(group("q", "cold", "direct"), group("q", "hot", "behind")), "queued buffered")
	b.drained()
	if got := b.stored("q", "hot"); !strings.HasPrefix(got, "0 1 2 3 ") || !strings.HasSuffix(got, " 38 39 behind") {
		t.Errorf("the other one has %s", got)
	}
}

// A record of unknown outcome at the head of each partition neither keeps what has none waiting nor waits for all of it.
func TestRecordsWithATagTakeTurnsWithTheOthers(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.db.set(func() {
		b.db.fails = func(appendlog.Key) error { return &queue.Error{Kind: queue.KindUnknown, Message: "?"} }
	})
	b.push(group("q", "a", "tagged1"), group("q", "b", "tagged2"))
	b.db.set(func() { b.db.away, b.db.fails = true, func(appendlog.Key) error { return nil } })
	b.guard.fall(errAway)
	for n := range 6 {
		b.push(group("q", "c", fmt.Sprint(n)))
	}
	b.db.set(func() { b.db.away = false })
	b.guard.rise()
	var order []string
	b.db.before = func() { order = append(order, fmt.Sprint(len(strings.Fields(b.stored("q", "c"))))) }
	b.drained()
	if got := strings.Join(order, " "); got != "0 4 4 6" {
		t.Errorf("messages of the others before each replay: %s", got)
	}
	b.want(b.stored("q", "a")+" "+b.stored("q", "b")+" "+b.stored("q", "c"), "tagged1 tagged2 0 1 2 3 4 5")
}

// Without a connection no partition is at fault, and none has to wait longer for that.
func TestWhatWasNotSentDelaysNoPartition(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.db.set(func() { b.db.away = true })
	b.push(group("q", "p", "1"))
	b.guard.rise() // a probe got through, the replay does not
	b.guard.step(t.Context())
	b.db.set(func() { b.db.away = false })
	b.guard.step(t.Context())
	b.want(b.stored("q", "p"), "1")
}

func TestWhatIsToldToTheClientAndWhatIsSpooled(t *testing.T) {
	t.Parallel()
	notSent := queue.Unavailable("no connection", time.Second, log.ErrNotSent)
	for name, tc := range map[string]struct {
		err   error
		away  bool // for a probe
		want  string
		queue string
	}{
		"not sent, and a probe answers":        {notSent, false, "unavailable", "q"},
		"not sent, and no probe answers":       {notSent, true, "buffered", "q"},
		"sent, and surely not committed":       {queue.Unavailable("disk full", time.Second, nil), false, "buffered", "q"},
		"outcome unknown, and it answers":      {&queue.Error{Kind: queue.KindUnknown, Message: "?"}, false, "buffered", "q"},
		"outcome unknown":                      {&queue.Error{Kind: queue.KindUnknown, Message: "?"}, true, "buffered", "q"},
		"bad input":                            {queue.Invalid("payload", "bad"), true, "invalid", "q"},
		"a fault of ours":                      {errors.New("bug"), true, "internal", "q"},
		"must seal":                            {appendlog.ErrMustSeal, true, "invalid", "q"},
		"away, and the queue is not spooled":   {notSent, true, "unavailable", "none"},
		"unknown and the queue is not spooled": {&queue.Error{Kind: queue.KindUnknown, Message: "?"}, true, "unknown outcome", "none"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := setup(t, func(b *bundle) { b.none["none"] = true })
			b.db.set(func() { b.db.away = tc.away; b.db.fails = func(appendlog.Key) error { return tc.err } })
			b.want(b.push(group(tc.queue, "p", "1")), tc.want)
		})
	}
}

// What is spooled wakes Run; it must not have the database probed each time.
func TestAProbeIsMadeNowAndThenHoweverMuchIsSpooled(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.db.set(func() { b.db.away = true })
	began := time.Now()
	for n := range 50 {
		b.push(group("q", "p", fmt.Sprint(n)))
		b.guard.step(t.Context())
	}
	b.db.mu.Lock()
	defer b.db.mu.Unlock()
	if most := 2 + int(time.Since(began)/probeEvery); b.db.pings > most {
		t.Errorf("%d probes for 50 pushes, want at most %d", b.db.pings, most)
	}
}

func TestADatabaseWithoutItsSchema(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.ready = errors.New("not there")
	b.want(b.push(group("q", "p", "1")), "unavailable")
	b.db.set(func() { b.db.away = true })
	b.want(b.push(group("q", "p", "1")), "buffered")
	// Back, and not ready yet: that is no news for a client.
	b.db.set(func() { b.db.away = false })
	b.guard.step(t.Context())
	b.want(b.push(group("q", "p", "2")), "buffered")
	b.ready = nil
	b.drained()
	b.want(b.stored("q", "p"), "1 2")
}

func TestAnUnknownCommitIsFoundByItsTag(t *testing.T) {
	t.Parallel()
	for _, committed := range []bool{true, false} {
		b := setup(t)
		b.db.set(func() {
			b.db.commits = committed
			b.db.fails = func(appendlog.Key) error { return &queue.Error{Kind: queue.KindUnknown, Message: "?"} }
		})
		b.want(b.push(group("q", "p", "1", "2")), "buffered buffered")
		b.db.set(func() { b.db.fails = func(appendlog.Key) error { return nil } })
		b.want(b.push(group("q", "p", "3")), "buffered")
		b.drained()
		b.want(b.stored("q", "p"), "1 2 3")
	}
}

func TestADeadProcessSpoolIsBroughtBeforeOnesOwn(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.db.set(func() { b.db.away = true })
	for n := range 7 {
		b.want(b.push(group("q", "p", fmt.Sprint("old", n))), "buffered")
	}
	b.kill()
	b.start() // while the database is still away
	if s := b.guard.Status(); s.Pending != 7 || s.Counters.Adopted != 1 {
		t.Errorf("after the start: %+v", s)
	}
	b.want(b.push(group("q", "p", "new")), "buffered")
	b.db.set(func() { b.db.away = false })
	b.guard.rise()
	b.want(b.push(group("q", "p", "newer")), "buffered")
	b.drained()
	b.want(b.stored("q", "p"), "old0 old1 old2 old3 old4 old5 old6 new newer")
	if s := b.guard.Status(); s.Spools != 1 {
		t.Errorf("%d spools left", s.Spools)
	}
}

func TestAPeersSpoolIsAdoptedOnceTheDatabaseAnswers(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.db.set(func() { b.db.away = true })
	b.push(group("q", "p", "1"))
	b.kill()
	b.server = "ingest-1"
	b.start()
	b.want(b.push(group("q", "r", "x")), "buffered")
	b.guard.step(t.Context())
	if s := b.guard.Status(); s.Counters.Adopted != 0 {
		t.Error("adopted while the database is away")
	}
	b.db.set(func() { b.db.away = false })
	b.drained()
	b.want(b.stored("q", "p"), "1")
	b.want(b.stored("q", "r"), "x")
}

// Killed between the commit of a replay and the removal of its file: the note in the database tells.
func TestWhatWasReplayedBeforeADeathIsNotReplayedAgain(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.db.set(func() { b.db.away = true })
	for n := range 6 {
		b.push(group("q", "p", fmt.Sprint(n)))
	}
	b.db.set(func() { b.db.away = false })
	b.guard.rise()
	src := b.guard.list()[0]
	b.guard.bring(t.Context(), src)                         // four of six are in the log, nothing is removed
	b.db.set(func() { b.db.stored[keyOf("q", "p")] = nil }) // consumed, and long out of the window
	b.kill()
	b.start()
	b.drained()
	b.want(b.stored("q", "p"), "4 5")
}

func TestRecordsThatCannotBeReplayedAreSetAsideOneByOne(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.guard.drain.pause.Max = time.Millisecond
	b.db.set(func() { b.db.away = true })
	b.push(group("q", "p", "1"), group("gone", "p", "g"), group("secret", "p", "s"))
	b.push(group("q", "p", "bad"), group("secret", "p", "t"))
	b.push(group("q", "p", "2"))
	b.db.set(func() {
		b.db.away, b.db.poison = false, "bad"
		b.db.deleted["gone"] = true
		b.db.sealed["secret"] = true
	})
	b.drained()
	b.want(b.stored("q", "p"), "1 2")
	b.want(b.stored("gone", "p"), "")
	b.want(b.stored("secret", "p"), "")
	s := b.guard.Status()
	if s.Counters.SetAside != 4 || b.guard.o.Folder.Aside() != 4 {
		t.Errorf("%+v, %d kept", s, b.guard.o.Folder.Aside())
	}
	for reason, n := range map[string]int{"reason=refused": 1, "reason=deleted": 1, "reason=keyless": 2} {
		if b.lines.count(reason) != n {
			t.Errorf("%d lines with %s:\n%s", b.lines.count(reason), reason, b.lines)
		}
	}
}

func TestWithAKeyRecordsAreSealedAndSoAreTheirPayloads(t *testing.T) {
	t.Parallel()
	keys, err := seal.NewKeys(strings.Repeat("a1", 32))
	if err != nil {
		t.Fatal(err)
	}
	b := setup(t, func(b *bundle) { b.keys = keys })
	b.db.set(func() { b.db.away = true; b.db.sealed["secret"] = true })
	b.push(group("secret", "p", "transaction-id"))
	files, err := os.ReadDir(b.root + "/" + b.guard.own.spool.Name().String())
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range files {
		data, err := os.ReadFile(b.root + "/" + b.guard.own.spool.Name().String() + "/" + f.Name())
		if err != nil {
			t.Fatal(err)
		}
		if strings.Contains(string(data), "secret") || strings.Contains(string(data), "transaction-id") {
			t.Errorf("%s can be read", f.Name())
		}
	}
	b.db.set(func() { b.db.away = false })
	b.drained()
	b.want(b.stored("secret", "p"), "transaction-id")
	if b.db.plain > 0 {
		t.Error("stored plain")
	}

	// A process without the key keeps what it cannot read.
	b.db.set(func() { b.db.away = true })
	b.push(group("secret", "p", "2"))
	b.kill()
	b.keys = nil
	b.start()
	b.db.set(func() { b.db.away = false })
	b.drained()
	if b.guard.o.Folder.Aside() != 1 || b.guard.Status().Counters.SetAside != 1 {
		t.Errorf("%d kept, %+v", b.guard.o.Folder.Aside(), b.guard.Status())
	}
}

func TestADiskThatTakesNothing(t *testing.T) {
	t.Parallel()
	for name, fault := range map[string]func(b *bundle){
		"full": func(b *bundle) { b.disk.Limit(0) },
		"read-only": func(b *bundle) {
			b.disk.Fail("create", "", 1, syscall.EROFS, false)
			b.disk.Fail("write", "", 1, syscall.EROFS, false)
		},
		"EIO": func(b *bundle) { b.disk.Fail("sync", "", 1, syscall.EIO, false) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := setup(t)
			b.db.set(func() { b.db.away = true })
			b.want(b.push(group("q", "p", "1")), "buffered")
			fault(b)
			b.want(b.push(group("q", "p", "never"), group("q", "r", "never")), "not spooled not spooled")
			b.want(b.push(group("q", "p", "never")), "not spooled")
			if s := b.guard.Status(); s.Pending != 1 || s.Counters.Failed != 3 || !s.Full {
				t.Errorf("%+v", s)
			}
			b.guard.step(t.Context())
			if b.guard.Room() == nil {
				t.Error("it says that there is room")
			}
			b.disk.Heal()
			b.guard.step(t.Context()) // notices by itself
			if err := b.guard.Room(); err != nil {
				t.Error(err)
			}
			b.want(b.push(group("q", "p", "2")), "buffered")
			b.db.set(func() { b.db.away = false })
			b.drained()
			b.want(b.stored("q", "p"), "1 2")
			b.want(b.stored("q", "r"), "")
			if failed, again := b.lines.count("pushes cannot be spooled"), b.lines.count("pushes are spooled again"); failed != 1 || again != 1 {
				t.Errorf("%d and %d lines:\n%s", failed, again, b.lines)
			}
		})
	}
}

func TestOfAFlushThatIsTooMuchForTheSpoolWhatFitsIsTaken(t *testing.T) {
	t.Parallel()
	b := setup(t, func(b *bundle) { b.max = 500 })
	b.db.set(func() { b.db.away = true })
	large := group("q", "large", "1")
	for range 30 { // what zstd cannot make smaller
		large.Messages[0].Payload = append(large.Messages[0].Payload, uuid.NewString()...)
	}
	b.want(b.push(large, group("q", "small", "2")), "not spooled buffered")
}

func TestAFolderThatIsTakenAwayIsReplaced(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.db.set(func() { b.db.away = true })
	b.push(group("q", "p", "lost"))
	if err := os.RemoveAll(b.root + "/" + b.guard.own.spool.Name().String()); err != nil {
		t.Fatal(err)
	}
	b.want(b.push(group("q", "p", "1")), "buffered")
	b.db.set(func() { b.db.away = false })
	b.drained()
	if got := b.stored("q", "p"); got != "1" && got != "lost 1" { // an open file can still be read
		t.Error(got)
	}
	b.want(b.push(group("q", "p", "2")), "queued")
}

func TestOnePartitionThatIsLockedHoldsUpNoOther(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.db.set(func() { b.db.away = true })
	b.push(group("q", "locked", "1"))
	for n := range 10 {
		b.push(group("q", "p", fmt.Sprint(n)), group("q", "locked", fmt.Sprint(n+2)))
	}
	b.db.set(func() {
		b.db.away = false
		b.db.fails = func(key appendlog.Key) error {
			if key.Partition == "locked" {
				return queue.Unavailable("locked", time.Second, nil)
			}
			return nil
		}
	})
	for b.stored("q", "p") != "0 1 2 3 4 5 6 7 8 9" {
		b.guard.step(t.Context())
	}
	b.want(b.stored("q", "locked"), "")
	b.want(b.push(group("q", "p", "10")), "queued")
	b.db.set(func() { b.db.fails = func(appendlog.Key) error { return nil } })
	b.drained()
	b.want(b.stored("q", "locked"), "1 2 3 4 5 6 7 8 9 10 11")
}

// A bit that flips under a living process costs its record, and the partition does not wait for it for ever.
func TestDamageEndsWithItsSpool(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.db.set(func() { b.db.away = true })
	b.push(group("q", "p", "1"))
	b.push(group("q", "p", "2"))
	b.push(group("q", "p", "3"))
	name := b.guard.own.spool.Name()
	path := b.root + "/" + name.String() + "/0000000001.spool"
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	data[len(data)/2] ^= 4
	if err := os.WriteFile(path, data, 0o600); err != nil {
		t.Fatal(err)
	}
	b.db.set(func() { b.db.away = false })
	for range 100 {
		b.guard.step(t.Context())
	}
	b.want(b.stored("q", "p"), "1 3")
	if s := b.guard.Status(); s.Pending != 0 || s.Records != 0 || b.guard.o.Folder.Aside() != 1 {
		t.Errorf("%+v, %d kept", s, b.guard.o.Folder.Aside())
	}
	b.want(b.push(group("q", "p", "4")), "queued")
}

func TestAnEmptySpoolLeavesNothingBehind(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.db.set(func() { b.db.away = true })
	b.push(group("q", "p", "1"))
	b.db.set(func() { b.db.away = false })
	b.drained()
	b.stop()
	names, err := b.guard.o.Folder.Dead(true)
	if err != nil || len(names) > 0 {
		t.Errorf("%v %v", names, err)
	}
	b.start()
	b.db.set(func() { b.db.away = true })
	b.push(group("q", "p", "2"))
	b.stop()
	if names, err = b.guard.o.Folder.Dead(true); err != nil || len(names) != 1 || b.lines.count("undrained") != 1 {
		t.Errorf("%v %v", names, err)
	}
}
