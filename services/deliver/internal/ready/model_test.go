package ready

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/uuid"
	"go.uber.org/goleak"
	"pgregory.net/rapid"

	"queen.internal/pkg/queue"
	"queen.internal/pkg/store/group"
	"queen.internal/services/deliver/internal/wait"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// database is a model of what the store knows of one queue and one group. Calls take a random while; what they answer was
// true at one moment between.
type database struct {
	random       *rand.Rand
	slow         time.Duration // most that one half of a call takes
	mu           sync.Mutex
	paused       bool
	subscription int64       // 0: there is no queue
	start        group.Start // of the last contact that would have registered the group
	partitions   map[int64]*partition
	searches     atomic.Int64
	subscribes   atomic.Int64
	queues       []string
	minWait      time.Duration
	estimates    int
	fail         error
	hold         func()       // when set, a search calls it before it looks
	walked       atomic.Int64 // partitions, by all searches
	claims, vain int          // claims, and those of them that took nothing
	hesitates    int          // how many halves of a call a push takes from its clock to its commit
	moves        int64
	sweep        time.Duration
	skew         time.Duration      // of the clock
	transactions int64              // number of the next one
	open         map[int64]struct{} // those under way
}

type partition struct {
	written   time.Time // by the clock of the last push
	messages  int
	pushed    int64 // in all, so the last has an offset one lower
	leases    int
	leased    time.Time // until; zero: not
	hidden    time.Time // until; zero: not
	changed   time.Time
	claimable time.Time // since when somebody could have taken it; zero: nobody can
}

func newDatabase(seed uint64, slow time.Duration) *database {
	return &database{
		random: rand.New(rand.NewPCG(seed, 1)), slow: slow, subscription: 1, partitions: map[int64]*partition{}, open: map[int64]struct{}{},
	}
}

// with changes the database while calls are made of it.
func (d *database) with(change func()) {
	d.mu.Lock()
	defer d.mu.Unlock()
	change()
}

// half is one half of a call.
func (d *database) half() {
	if d.slow == 0 {
		return
	}
	d.mu.Lock()
	pause := time.Duration(d.random.Int64N(int64(d.slow)))
	d.mu.Unlock()
	time.Sleep(pause)
}

// refresh brings claimable up to date. The caller holds the mutex.
func (d *database) refresh(p *partition) {
	now := time.Now()
	switch {
	case p.messages == 0 || p.leased.After(now) || p.hidden.After(now):
		p.claimable = time.Time{}
	case p.claimable.IsZero(): // by the last change, or by itself at some time after it
		p.claimable = p.changed
		for _, until := range []time.Time{p.leased, p.hidden} {
			if until.After(p.claimable) {
				p.claimable = until
			}
		}
	}
}

// change ends a change of a partition. The caller holds the mutex.
func (d *database) change(p *partition) {
	p.changed = time.Now()
	d.refresh(p)
}

// Available implements Store.
func (d *database) Available(_ context.Context, _ group.Ref, partitions []int64) (group.Available, error) {
	d.half()
	d.mu.Lock()
	defer d.mu.Unlock()
	available := group.Available{MinWait: d.minWait}
	for _, id := range partitions {
		available.Messages += d.at(id).messages
	}
	d.estimates++
	return available, d.fail
}

func (d *database) at(id int64) *partition {
	p := d.partitions[id]
	if p == nil {
		p = &partition{}
		d.partitions[id] = p
	}
	return p
}

// push commits a while after it has read its clock, and returns the offset.
func (d *database) push(id int64) (offset int64) {
	d.mu.Lock()
	number, written := d.transactions, time.Now()
	d.transactions++
	d.open[number] = struct{}{}
	d.mu.Unlock()
	for range d.hesitates {
		d.half()
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	delete(d.open, number)
	p := d.at(id)
	if written.After(p.written) {
		p.written = written
	}
	p.messages++
	p.pushed++
	d.change(p)
	return p.pushed - 1
}

// holder is the number of the partition's last lease.
func (d *database) holder(id int64) int {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.at(id).leases
}

// ack does nothing under a lease that is not the last or has expired. It returns the cursor and the last offset.
func (d *database) ack(id int64, lease int, completed bool) (committed, last int64) {
	d.mu.Lock()
	defer d.mu.Unlock()
	p := d.at(id)
	if p.leases == lease && p.leased.After(time.Now()) {
		p.leased = time.Time{}
		if completed {
			p.messages--
		}
		d.change(p)
	}
	return p.pushed - int64(p.messages) - 1, p.pushed - 1
}

// missed is a partition that could have been taken all the time since then; 0 when there is none.
func (d *database) missed(since time.Time) int64 {
	d.mu.Lock()
	defer d.mu.Unlock()
	for id, p := range d.partitions {
		d.refresh(p)
		if !p.claimable.IsZero() && p.claimable.Before(since) {
			return id
		}
	}
	return 0
}

func (d *database) Subscribe(_ context.Context, _ uuid.UUID, name, _ string, start group.Start) (group.Subscription, error) {
	d.half()
	d.mu.Lock()
	defer d.mu.Unlock()
	d.subscribes.Add(1)
	d.start = start
	if d.subscription == 0 {
		d.subscription = 100 // as it creates the queue
	}
	return group.Subscription{Ref: group.Ref{ID: d.subscription}, Queue: name}, d.fail
}

func (d *database) Rejoin(_ context.Context, _ uuid.UUID, name, _ string, start group.Start) (group.Subscription, bool, error) {
	d.half()
	d.mu.Lock()
	defer d.mu.Unlock()
	d.subscribes.Add(1)
	if d.subscription == 0 {
		return group.Subscription{}, false, d.fail
	}
	d.start = start
	return group.Subscription{Ref: group.Ref{ID: d.subscription}, Queue: name}, true, d.fail
}

// Find implements Store. All answers are of one moment.
func (d *database) Find(ctx context.Context, searches []group.Search, limit int, _ group.Bounds) ([]group.Found, group.Snapshot, error) {
	snapshot := group.Snapshot{Asked: time.Now().Add(d.skew)}
	d.half()
	d.searches.Add(1)
	d.mu.Lock()
	hold := d.hold
	d.mu.Unlock()
	if hold != nil {
		hold()
	}
	d.mu.Lock()
	err := d.fail
	snapshot.Clock, snapshot.Oldest, snapshot.Next = time.Now(), d.transactions, d.transactions
	for number := range d.open {
		snapshot.Oldest = min(snapshot.Oldest, number)
	}
	found := make([]group.Found, len(searches))
	for i := range searches {
		found[i] = d.find(&searches[i], limit)
	}
	d.mu.Unlock()
	d.half()
	if err == nil {
		err = ctx.Err()
	}
	return found, snapshot, err
}

// find answers one search. The caller holds the mutex.
func (d *database) find(search *group.Search, limit int) group.Found {
	if search.Subscription.ID != d.subscription {
		return group.Found{Gone: true}
	}
	if d.paused {
		return group.Found{Paused: true}
	}
	type place struct {
		slot time.Time
		id   int64
	}
	var walk []place
	for id, p := range d.partitions {
		at := place{id: id}
		if !search.From.Everywhere() {
			at.slot = p.written.Truncate(15 * time.Second)
		}
		if c := at.slot.Compare(search.From.Slot); c > 0 || c == 0 && id > search.From.After {
			walk = append(walk, at)
		}
	}
	slices.SortFunc(walk, func(a, b place) int { return cmp.Or(a.slot.Compare(b.slot), cmp.Compare(a.id, b.id)) })
	walk = walk[:min(len(walk), limit)]
	found := group.Found{To: search.From, End: len(walk) < limit, Moves: d.moves}
	d.walked.Add(int64(len(walk)))
	for _, at := range walk {
		found.To = group.Position{Slot: at.slot, After: at.id}
		if !d.partitions[at.id].written.Before(search.Since) {
			found.Candidates = d.candidate(found.Candidates, at.id)
		}
	}
	for _, id := range search.Known {
		found.Candidates = d.candidate(found.Candidates, id)
	}
	return found
}

// candidate adds a partition with work. The caller holds the mutex.
func (d *database) candidate(to []group.Candidate, id int64) []group.Candidate {
	p := d.at(id)
	switch {
	case p.messages == 0:
		return to
	case p.leased.After(time.Now()):
		return append(to, group.Candidate{Partition: id, Until: p.leased})
	}
	return append(to, group.Candidate{Partition: id})
}

func (d *database) Discover(context.Context, uuid.UUID, string, string) ([]string, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	return slices.Clone(d.queues), d.fail
}

// claim leases one message of the first partition that has one, in ascending order, like the procedure.
func (d *database) claim(t Taking, lease time.Duration) group.ClaimResult {
	d.half()
	d.mu.Lock()
	now := time.Now()
	result := group.ClaimResult{Clock: now}
	d.claims++
	d.vain++
	ids := slices.Sorted(slices.Values(t.Partitions))
	for _, id := range ids {
		p := d.at(id)
		c := group.Claim{PartitionID: id, Verdict: group.Empty}
		switch {
		case t.Subscription.ID != d.subscription:
			c.Verdict = group.Gone
		case p.leased.After(now):
			c.Verdict, c.Until = group.Leased, p.leased
		case p.messages == 0:
		case p.hidden.After(now):
			c.Verdict, c.Until = group.Deferred, p.hidden
		default:
			c.Verdict, c.Until, c.First = group.Took, now.Add(lease), p.pushed-int64(p.messages)
			c.Last = c.First
			p.leased = c.Until
			p.leases++
			d.change(p)
		}
		result.Claims = append(result.Claims, c)
		if c.Verdict == group.Took {
			d.vain--
			break
		}
	}
	d.mu.Unlock()
	d.half()
	return result
}

// scene is an index over a model, with its lot running.
type scene struct {
	db    *database
	lot   *wait.Lot
	index *Index
	stop  func()
}

func play(t *testing.T, db *database, limit int, intervals wait.Intervals) *scene {
	t.Helper()
	return playWith(t, db, intervals, Options{Limit: limit})
}

func playWith(t *testing.T, db *database, intervals wait.Intervals, options Options) *scene {
	t.Helper()
	s := &scene{db: db}
	s.lot = wait.New(wait.Options{MaxParked: 1000, Workers: 2, Intervals: intervals, Logger: slog.New(slog.DiscardHandler)})
	options.Refresh, options.Timeout, options.IdleDrop = time.Minute, time.Minute, 5*time.Minute
	options.Sweep, options.Clock = db.sweep, func() group.Bounds { return group.Bounds{} }
	s.index = New(db, s.lot, options)
	ctx, cancel := context.WithCancel(context.Background())
	var parts sync.WaitGroup
	for _, run := range []func(context.Context) error{s.lot.Run, s.index.Run} {
		parts.Go(func() {
			if err := run(ctx); err != nil {
				t.Errorf("ends with %v", err)
			}
		})
	}
	s.stop = func() { cancel(); parts.Wait() }
	return s
}

// never is a backstop that does not come during a test.
var never = wait.Intervals{Initial: 1000 * time.Hour, Multiplier: 1, Max: 1000 * time.Hour}

var orders = Key{Tenant: queue.DefaultTenant, Queue: "orders", Group: "g"}

// taken is what one attempt took; 0 is nothing.
func (s *scene) attempt(ctx context.Context, ring *Ring, ticket uint64, search bool, width int, lease time.Duration) int64 {
	searched, again, settles := !search, 0, 0
	for {
		if t := ring.Take(width, nil); len(t.Partitions) > 0 {
			result := s.db.claim(t, lease)
			ring.Return(t, result, false)
			for _, c := range result.Claims {
				if c.Verdict == group.Took {
					return c.PartitionID
				}
			}
			continue
		}
		switch {
		case !searched:
			searched = true
			if ring.Search(ctx, ticket) != nil {
				return 0
			}
		case search && again < 16 && ring.More():
			again++
			ticket, searched = ring.Ticket(), false
		case settles < 16:
			settles++
			if waited, err := ring.Settle(ctx); !waited || err != nil {
				return 0
			}
		default:
			return 0
		}
	}
}

// TestRing_PopNeverMissesWhatWasThereBefore lets pushes, acks and pops of random length overlap. A pop that leaves
// empty-handed must not have left behind a partition that was there to be taken from before it came until after it left.
func TestRing_PopNeverMissesWhatWasThereBefore(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(rt *rapid.T) {
		seed := rapid.Uint64().Draw(rt, "seed")
		consumers := rapid.IntRange(1, 6).Draw(rt, "consumers")
		partitions := rapid.Int64Range(1, 30).Draw(rt, "partitions")
		width := rapid.IntRange(1, 4).Draw(rt, "width")
		limit := consumers*width + rapid.IntRange(1, 8).Draw(rt, "room")
		announced := rapid.Bool().Draw(rt, "announced")
		// The second is long beside clockSlack and the steps of writing, so that it matters what a search begins with.
		unit := rapid.SampledFrom([]time.Duration{10 * time.Millisecond, 3 * time.Second}).Draw(rt, "unit")
		hesitates := rapid.IntRange(1, 10).Draw(rt, "hesitates")
		var fault atomic.Value
		synctest.Test(t, func(t *testing.T) {
			s := play(t, newDatabase(seed, unit), limit, never)
			defer s.stop()
			s.db.hesitates = hesitates
			var actors sync.WaitGroup
			actors.Go(func() {
				random := rand.New(rand.NewPCG(seed, 2))
				for range 60 {
					time.Sleep(time.Duration(random.Int64N(int64(unit))))
					id := 1 + random.Int64N(partitions)
					s.db.push(id)
					if announced {
						s.index.Wake(orders.Tenant, orders.Queue, id, 0)
					}
				}
			})
			for n := range consumers {
				actors.Go(func() {
					random := rand.New(rand.NewPCG(seed, uint64(n+3)))
					for range 40 {
						came := time.Now()
						ring := s.index.Ring(orders, group.Start{Mode: "all"})
						id := s.attempt(t.Context(), ring, ring.Ticket(), true, width, unit*3/2)
						if id == 0 {
							if missed := s.db.missed(came); missed != 0 {
								fault.Store(fmt.Sprintf("a pop left partition %d behind", missed))
							}
						} else if lease := s.db.holder(id); random.IntN(3) > 0 { // otherwise it dies, and the lease expires
							time.Sleep(time.Duration(random.Int64N(int64(unit))))
							s.db.ack(id, lease, random.IntN(2) == 0)
							s.index.Freed(s.db.subscription, id, 0)
						}
						s.index.Release(ring)
						time.Sleep(time.Duration(random.Int64N(int64(unit))))
					}
				})
			}
			actors.Wait()
		})
		if f := fault.Load(); f != nil {
			rt.Fatal(f)
		}
	})
}

// TestRing_NobodySleepsBesideWork has polls that park and are only ever woken by news, without a backstop. When all is
// quiet, no poll may be parked while a partition could be taken.
func TestRing_NobodySleepsBesideWork(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(rt *rapid.T) {
		seed := rapid.Uint64().Draw(rt, "seed")
		polls := rapid.IntRange(1, 6).Draw(rt, "polls")
		partitions := rapid.Int64Range(1, 5).Draw(rt, "partitions")
		width := rapid.IntRange(1, 3).Draw(rt, "width")
		messages := rapid.IntRange(1, 40).Draw(rt, "messages")
		var fault atomic.Value
		synctest.Test(t, func(t *testing.T) {
			s := play(t, newDatabase(seed, 10*time.Millisecond), 100, never)
			defer s.stop()
			ctx, leave := context.WithCancel(t.Context())
			var actors sync.WaitGroup
			var delivered atomic.Int64
			for n := range polls {
				actors.Go(func() {
					random := rand.New(rand.NewPCG(seed, uint64(n+3)))
					for ctx.Err() == nil {
						id := s.poll(ctx, width)
						if id == 0 {
							continue
						}
						lease := s.db.holder(id)
						time.Sleep(time.Duration(random.Int64N(int64(20 * time.Millisecond))))
						completed := random.IntN(2) == 0
						if completed {
							delivered.Add(1)
						}
						s.db.ack(id, lease, completed)
						s.index.Freed(s.db.subscription, id, 0)
					}
				})
			}
			random := rand.New(rand.NewPCG(seed, 2))
			for range messages {
				time.Sleep(time.Duration(random.Int64N(int64(10 * time.Millisecond))))
				id := 1 + random.Int64N(partitions)
				s.db.push(id)
				s.index.Wake(orders.Tenant, orders.Queue, id, 0)
			}
			time.Sleep(100 * time.Second) // far more than the work takes, far less than the backstop
			if got := delivered.Load(); got != int64(messages) {
				fault.Store(fmt.Sprintf("%d of %d messages are delivered, %d polls are parked", got, messages, s.lot.Parked()))
			}
			leave()
			actors.Wait()
		})
		if f := fault.Load(); f != nil {
			rt.Fatal(f)
		}
	})
}

// poll is a long poll: it parks until it takes something or ctx ends.
func (s *scene) poll(ctx context.Context, width int) int64 {
	ring := s.index.Ring(orders, group.Start{Mode: "all"})
	defer s.index.Release(ring)
	defer ring.Kick()
	var poll wait.Poll
	ticket := ring.Ticket()
	for search := true; ; search = false {
		version := ring.Spot().Version()
		if id := s.attempt(ctx, ring, ticket, search, width, time.Hour); id != 0 {
			return id
		}
		outcome, err := ring.Spot().Park(ctx, &poll, version, time.Now().Add(time.Minute), nil)
		if outcome != wait.Woken || err != nil {
			return 0
		}
	}
}
