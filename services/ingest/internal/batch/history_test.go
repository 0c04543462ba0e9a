package batch

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/uuid"
	"pgregory.net/rapid"

	"queen.internal/pkg/appendlog"
	"queen.internal/pkg/queue"
)

var (
	errGone    = errors.New("client is gone")
	errDown    = queue.Unavailable("PostgreSQL is down", 0, nil)
	errRefused = queue.Invalid("payload", "refused")
)

// step is one event of a history. The fields that its kind does not use are drawn, too, and ignored.
type step struct {
	kind   string // push, cancel or finish
	groups []appendlog.Group
	pick   int     // which push to cancel, which flush to finish
	errs   []error // outcomes of the groups of the finished flush, in turn
}

func drawStep(t *rapid.T) step {
	s := step{
		kind: rapid.SampledFrom([]string{"push", "push", "push", "finish", "finish", "cancel"}).Draw(t, "kind"),
		pick: rapid.IntRange(0, 20).Draw(t, "pick"),
		errs: rapid.SliceOfN(rapid.SampledFrom([]error{nil, nil, nil, errDown, errRefused}), 3, 3).Draw(t, "errs"),
	}
	if s.kind != "push" {
		return s
	}
	tenants := rapid.SampledFrom([]uuid.UUID{tenantA, tenantB})
	ids := rapid.SliceOfNDistinct(rapid.SampledFrom([]string{"a", "b", "c", "d", "e", "f", "g", "h"}), 1, 3, rapid.ID)
	for _, partition := range rapid.SliceOfNDistinct(rapid.SampledFrom([]string{"p", "q", "r"}), 1, 3, rapid.ID).Draw(t, "partitions") {
		s.groups = append(s.groups, groupOf(tenants.Draw(t, "tenant"), partition, ids.Draw(t, "ids")...))
	}
	return s
}

// TestHistories lets random histories of pushes, cancellations and flush outcomes run against a model of what the
// package comment promises.
func TestHistories(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(rt *rapid.T) {
		opts := options(rapid.IntRange(1, 3).Draw(rt, "committers"))
		size := group("p", "a").Messages[0].Size()
		opts.Patience = time.Duration(rapid.IntRange(0, 2).Draw(rt, "patience")) * time.Millisecond
		opts.FlushPartitions = rapid.IntRange(1, 4).Draw(rt, "flush partitions")
		opts.FlushBytes = size * rapid.IntRange(1, 10).Draw(rt, "flush bytes")
		opts.PartitionMessages = rapid.IntRange(1, 6).Draw(rt, "partition messages")
		opts.PartitionBytes = size * rapid.IntRange(1, 6).Draw(rt, "partition bytes")
		opts.QueuedBytes = int64(size+messageCost) * int64(rapid.IntRange(5, 60).Draw(rt, "queued bytes"))
		steps := rapid.SliceOfN(rapid.Custom(drawStep), 1, 60).Draw(rt, "steps")

		var err error
		synctest.Test(t, func(*testing.T) { err = play(opts, steps) })
		if err != nil {
			rt.Fatal(err)
		}
	})
}

// play runs one history to its end, also when it found a fault, so that every goroutine of the bubble ends.
func play(opts Options, steps []step) error {
	h := start(opts)
	m := &model{
		opts: opts, h: h, cancelled: map[int]bool{},
		busy: map[appendlog.Key]bool{}, waiting: map[appendlog.Key][]*atom{},
	}
	var err error
	for i := 0; i < len(steps) && err == nil; i++ {
		if err = m.apply(steps[i]); err != nil {
			err = fmt.Errorf("step %d, %s: %w", i, steps[i].kind, err)
		}
	}
	stopping, ended := make(chan struct{}), make(chan struct{})
	go func() { close(stopping); h.stop(); close(ended) }()
	<-stopping
	for synctest.Wait(); m.look() == nil && len(m.flights) > 0; synctest.Wait() {
		if e := m.finish(m.flights[0], []error{nil}); e != nil && err == nil {
			err = fmt.Errorf("drain: %w", e)
		}
	}
	for len(m.flights) > 0 || len(h.gate.calls) > 0 { // only after a fault
		for _, f := range m.flights {
			f.call.fail(errDown)
		}
		m.flights = nil
		synctest.Wait()
		for len(h.gate.calls) > 0 {
			(<-h.gate.calls).fail(errDown)
			synctest.Wait()
		}
	}
	<-ended
	if err != nil {
		return err
	}
	return m.ended()
}

// atom is one group of one push, as the model sees it.
type atom struct {
	push  int
	group appendlog.Group
	alone bool
	want  error // its result, once it is decided
	done  bool
}

func (a *atom) bytes() (n int) {
	for i := range a.group.Messages {
		n += a.group.Messages[i].Size()
	}
	return n
}

// flight is a flush under way: the call, and the atoms of each of its groups.
type flight struct {
	call  *call
	atoms [][]*atom
}

type model struct {
	opts    Options
	h       *harness
	pushes  []*pushed
	atoms   [][]*atom // by push
	waiting map[appendlog.Key][]*atom
	busy    map[appendlog.Key]bool
	flights []*flight

	cancelled map[int]bool // pushes
}

func (m *model) apply(s step) error {
	switch s.kind {
	case "push":
		if err := m.push(s.groups); err != nil {
			return err
		}
	case "cancel":
		if len(m.pushes) > 0 {
			m.cancel(s.pick % len(m.pushes))
		}
	case "finish":
		if len(m.flights) > 0 {
			return m.finish(m.flights[s.pick%len(m.flights)], s.errs)
		}
	}
	return m.look()
}

func (m *model) push(groups []appendlog.Group) error {
	held := m.held()
	cost := Cost(groups)
	p := m.h.push(groups...)
	if held > 0 && held+cost > m.opts.QueuedBytes {
		if p.waiting() || queue.KindOf(p.err) != queue.KindOverloaded {
			return fmt.Errorf("%d bytes beside %d held ones were accepted: %v", cost, held, p.err)
		}
		return nil
	}
	if !p.waiting() && p.err != nil {
		return fmt.Errorf("%d bytes beside %d held ones: %w", cost, held, p.err)
	}
	var atoms []*atom
	for _, g := range groups {
		a := &atom{push: len(m.pushes), group: g}
		atoms = append(atoms, a)
		m.waiting[g.Key] = append(m.waiting[g.Key], a)
	}
	m.pushes, m.atoms = append(m.pushes, p), append(m.atoms, atoms)
	return nil
}

// held is the cost of the pushes that have no answer.
func (m *model) held() (cost int64) {
	for i, atoms := range m.atoms {
		if slices.ContainsFunc(atoms, func(a *atom) bool { return !a.done }) {
			cost += Cost(m.pushes[i].groups)
		}
	}
	return cost
}

func (m *model) cancel(i int) {
	m.pushes[i].cancel(errGone)
	m.cancelled[i] = true
	synctest.Wait()
	for key, waiting := range m.waiting {
		m.waiting[key] = slices.DeleteFunc(waiting, func(a *atom) bool {
			if a.push == i {
				a.done, a.want = true, errGone
			}
			return a.push == i
		})
	}
}

// finish ends a flush with errs for its groups in turn, nil for success, and looks at what that starts.
func (m *model) finish(f *flight, errs []error) error {
	m.flights = slices.DeleteFunc(m.flights, func(other *flight) bool { return other == f })
	results := make([]appendlog.Result, len(f.call.groups))
	for i, g := range f.call.groups {
		m.busy[g.Key] = false
		err := errs[i%len(errs)]
		if err == nil {
			for _, msg := range g.Messages {
				results[i].Outcomes = append(results[i].Outcomes, appendlog.Outcome{MessageID: msg.ID})
			}
		}
		results[i].Err = err
		if errors.Is(err, errRefused) && len(f.atoms[i]) > 1 {
			var back []*atom
			for _, a := range f.atoms[i] {
				if m.cancelled[a.push] {
					a.done, a.want = true, errGone
					continue
				}
				a.alone = true
				back = append(back, a)
			}
			m.waiting[g.Key] = append(back, m.waiting[g.Key]...)
			continue
		}
		for _, a := range f.atoms[i] {
			a.done, a.want = true, err
		}
	}
	f.call.answer <- results
	return m.look()
}

// look compares the flushes that began with what may begin, and what is idle with what may be.
func (m *model) look() error {
	synctest.Wait()
	for len(m.h.gate.calls) > 0 {
		c := <-m.h.gate.calls
		f := &flight{call: c}
		m.flights = append(m.flights, f)
		if len(c.groups) > m.opts.FlushPartitions {
			return fmt.Errorf("flush %v has %d partitions", c, len(c.groups))
		}
		for _, g := range c.groups {
			atoms, err := m.depart(g)
			if err != nil {
				return fmt.Errorf("flush %v: %w", c, err)
			}
			f.atoms = append(f.atoms, atoms)
		}
		if err := m.sized(f); err != nil {
			return fmt.Errorf("flush %v: %w", c, err)
		}
	}
	if idle := len(m.flights) == 0; idle || m.opts.Patience == 0 && len(m.flights) < m.opts.Committers {
		for key, waiting := range m.waiting {
			if len(waiting) > 0 && !m.busy[key] {
				return fmt.Errorf("%d groups of %s wait while a committer is idle", len(waiting), key.Partition)
			}
		}
	}
	if got, want := m.h.Depth().Bytes, m.held(); got != want {
		return fmt.Errorf("%d bytes are held, want %d", got, want)
	}
	return nil
}

// depart moves what a group of a flush holds from the front of its partition's line: whole atoms, in order.
func (m *model) depart(g appendlog.Group) ([]*atom, error) {
	if m.busy[g.Key] {
		return nil, fmt.Errorf("partition %s is in two flushes", g.Key.Partition)
	}
	m.busy[g.Key] = true
	line, rest := m.waiting[g.Key], g.Messages
	seen := map[string]bool{}
	var atoms []*atom
	for len(rest) > 0 {
		if len(atoms) == len(line) {
			return nil, fmt.Errorf("partition %s has more messages than were pushed", g.Key.Partition)
		}
		a := line[len(atoms)]
		for _, want := range a.group.Messages {
			if len(rest) == 0 || rest[0].ID != want.ID {
				return nil, fmt.Errorf("partition %s is out of order or holds part of a group", g.Key.Partition)
			}
			if seen[want.TransactionID] {
				return nil, fmt.Errorf("partition %s has %s twice", g.Key.Partition, want.TransactionID)
			}
			seen[want.TransactionID] = true
			rest = rest[1:]
		}
		atoms = append(atoms, a)
	}
	m.waiting[g.Key] = line[len(atoms):]
	if len(atoms) > 1 && (len(g.Messages) > m.opts.PartitionMessages || slices.ContainsFunc(atoms, func(a *atom) bool { return a.alone })) {
		return nil, fmt.Errorf("partition %s has %d groups in %d messages", g.Key.Partition, len(atoms), len(g.Messages))
	}
	return atoms, nil
}

// sized checks a flush against the bounds in bytes, and that whatever stayed behind in its partitions had a reason.
func (m *model) sized(f *flight) error {
	total, count := 0, 0
	sums := make([]int, len(f.atoms))
	for i, atoms := range f.atoms {
		for _, a := range atoms {
			sums[i] += a.bytes()
			count++
		}
		total += sums[i]
		if len(atoms) > 1 && sums[i] > m.opts.PartitionBytes {
			return fmt.Errorf("group %d has %d bytes", i, sums[i])
		}
	}
	if count > 1 && total > m.opts.FlushBytes {
		return fmt.Errorf("%d bytes", total)
	}
	for i, g := range f.call.groups {
		if line := m.waiting[g.Key]; len(line) > 0 {
			next, taken := line[0], f.atoms[i]
			fits := len(g.Messages)+len(next.group.Messages) <= m.opts.PartitionMessages &&
				sums[i]+next.bytes() <= m.opts.PartitionBytes && total+next.bytes() <= m.opts.FlushBytes
			if fits && !next.alone && !taken[0].alone && !shares(g, next.group) {
				return fmt.Errorf("a group of %s was left behind", g.Key.Partition)
			}
		}
	}
	return nil
}

func shares(a, b appendlog.Group) bool {
	for _, x := range a.Messages {
		for _, y := range b.Messages {
			if x.TransactionID == y.TransactionID {
				return true
			}
		}
	}
	return false
}

// ended checks that every push was answered, each group with its own outcome.
func (m *model) ended() error {
	for i, p := range m.pushes {
		if p.waiting() {
			return fmt.Errorf("push %d was never answered", i)
		}
		for j, a := range m.atoms[i] {
			got := p.results[j]
			if !a.done || !errors.Is(got.Err, a.want) {
				return fmt.Errorf("push %d, group %d: got %v, want %v", i, j, got.Err, a.want)
			}
			if got.Err == nil && got.Outcomes[0].MessageID != a.group.Messages[0].ID {
				return fmt.Errorf("push %d, group %d got another one's outcome", i, j)
			}
		}
	}
	if got := m.h.Depth(); got != (Depth{}) {
		return fmt.Errorf("depth is %+v at the end", got)
	}
	return nil
}

// TestPush_InAStorm has many real goroutines push at once, for the race detector and for order per producer.
func TestPush_InAStorm(t *testing.T) {
	t.Parallel()
	store := &memory{seen: map[appendlog.Key][]string{}}
	b := New(store, options(3))
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- b.Run(ctx) }()

	const producers, each = 40, 50
	failures := make(chan error, producers)
	for producer := range producers {
		go func() {
			for n := range each {
				id := fmt.Sprintf("%d/%d", producer, n)
				groups := []appendlog.Group{group(fmt.Sprint(producer%4), id), group("shared", id)}
				results, err := b.Push(ctx, groups)
				if err = errors.Join(err, (&pushed{groups: groups, results: results, done: closed, err: err}).storedOr(nil)); err != nil {
					failures <- err
					return
				}
			}
			failures <- nil
		}()
	}
	for range producers {
		if err := <-failures; err != nil {
			t.Error(err)
		}
	}
	cancel()
	if err := <-ended; err != nil {
		t.Error(err)
	}
	for key, ids := range store.seen {
		next := map[int]int{}
		for _, id := range ids {
			var producer, n int
			if _, err := fmt.Sscanf(id, "%d/%d", &producer, &n); err != nil || n != next[producer] {
				t.Fatalf("partition %s has %s where %d should be", key.Partition, id, next[producer])
			}
			next[producer]++
		}
	}
	if got := len(store.seen[group("shared").Key]); got != producers*each {
		t.Errorf("%d messages in the shared partition, want %d", got, producers*each)
	}
}
