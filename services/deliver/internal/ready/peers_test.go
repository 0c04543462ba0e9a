package ready

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"queen.internal/pkg/store/group"
	"queen.internal/services/deliver/internal/wait"
)

// bus carries the news of several processes. What one says reaches each other in order, after a while.
type bus struct {
	scenes []*scene
	links  [][]chan func(*Index) // from, to
	ends   sync.WaitGroup
}

// connect plays n processes over one database. News takes up to slow from one to the other.
func connect(t *testing.T, db *database, n int, slow time.Duration) *bus {
	t.Helper()
	b := &bus{links: make([][]chan func(*Index), n)}
	for from := range n {
		self := fmt.Sprintf("queen-%d-deliver", from)
		b.scenes = append(b.scenes, playWith(t, db, never, Options{
			Limit: 100, Self: self,
			Took: func(d Delivery) {
				b.say(from, func(x *Index) {
					if d.Lease == 0 {
						x.Peer(self, d.Key, d.Partition).Consumed(d.Last)
					} else {
						x.Peer(self, d.Key, d.Partition).Leased(d.First, d.Lease)
					}
				})
			},
			Declined: func(key Key, partition, offset int64) {
				b.say(from, func(x *Index) { x.Peer(self, key, partition).Declined(offset) })
			},
		}))
	}
	for from := range n {
		for to := range n {
			link := make(chan func(*Index), 10_000)
			b.links[from] = append(b.links[from], link)
			random := rand.New(rand.NewPCG(uint64(from), uint64(to)))
			b.ends.Go(func() {
				for news := range link {
					if slow > 0 {
						time.Sleep(time.Duration(random.Int64N(int64(slow))))
					}
					news(b.scenes[to].index)
				}
			})
		}
	}
	return b
}

// say tells all others.
func (b *bus) say(from int, news func(*Index)) {
	for to, link := range b.links[from] {
		if to != from {
			link <- news
		}
	}
}

// pushed tells all of a push, as a process without rings does, by the way of from.
func (b *bus) pushed(from int, partition, offset int64) {
	for _, link := range b.links[from] {
		link <- func(x *Index) { x.Wake(orders.Tenant, orders.Queue, partition, offset) }
	}
}

// acked tells what an ack at one of them did.
func (b *bus) acked(at int, subscription, partition, committed, last int64) {
	self := b.scenes[at].index.options.Self
	if last > committed {
		b.scenes[at].index.Freed(subscription, partition, committed)
		b.say(at, func(x *Index) { x.Peer(self, orders, partition).Freed(committed) })
		return
	}
	b.scenes[at].index.Drained(subscription, partition, committed)
	b.say(at, func(x *Index) { x.Peer(self, orders, partition).Drained(committed) })
}

func (b *bus) stop() {
	for _, s := range b.scenes {
		s.stop()
	}
	for _, links := range b.links {
		for _, link := range links {
			close(link)
		}
	}
	b.ends.Wait()
}

// TestPeers_NobodySleepsBesideWork is TestRing_NobodySleepsBesideWork for several processes, of which some have no polls
// at times, and whose acks are made anywhere.
func TestPeers_NobodySleepsBesideWork(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(rt *rapid.T) {
		seed := rapid.Uint64().Draw(rt, "seed")
		processes := rapid.IntRange(2, 3).Draw(rt, "processes")
		polls := rapid.IntRange(1, 6).Draw(rt, "polls")
		partitions := rapid.Int64Range(1, 5).Draw(rt, "partitions")
		messages := rapid.IntRange(1, 40).Draw(rt, "messages")
		slow := rapid.SampledFrom([]time.Duration{0, 2 * time.Millisecond, 50 * time.Millisecond}).Draw(rt, "slow")
		var fault atomic.Value
		synctest.Test(t, func(t *testing.T) {
			db := newDatabase(seed, 3*time.Millisecond)
			b := connect(t, db, processes, slow)
			defer b.stop()
			ctx, leave := context.WithCancel(t.Context())
			var actors sync.WaitGroup
			var delivered atomic.Int64
			for n := range polls {
				actors.Go(func() {
					random := rand.New(rand.NewPCG(seed, uint64(n+3)))
					for ctx.Err() == nil {
						id := b.scenes[random.IntN(processes)].poll(ctx, 1)
						if id == 0 {
							continue
						}
						lease := db.holder(id)
						time.Sleep(time.Duration(random.Int64N(int64(20 * time.Millisecond))))
						completed := random.IntN(2) == 0
						if completed {
							delivered.Add(1)
						}
						committed, last := db.ack(id, lease, completed)
						b.acked(random.IntN(processes), db.subscription, id, committed, last)
					}
				})
			}
			random := rand.New(rand.NewPCG(seed, 2))
			for range messages {
				time.Sleep(time.Duration(random.Int64N(int64(10 * time.Millisecond))))
				id := 1 + random.Int64N(partitions)
				b.pushed(random.IntN(processes), id, db.push(id))
			}
			time.Sleep(300 * time.Second) // far more than the work takes, far less than a lease
			if got := delivered.Load(); got != int64(messages) {
				fault.Store(fmt.Sprintf("%d of %d messages are delivered", got, messages))
			}
			leave()
			actors.Wait()
		})
		if f := fault.Load(); f != nil {
			rt.Fatal(f)
		}
	})
}

// TestPeers_OneOfThemGoesFirst has polls parked at several processes and pushes that are far apart: each is claimed once,
// and at once. They have heard of each other.
func TestPeers_OneOfThemGoesFirst(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		const processes, messages = 3, 60
		db := newDatabase(1, time.Millisecond)
		b := connect(t, db, processes, 0)
		defer b.stop()
		ctx, leave := context.WithCancel(t.Context())
		var actors sync.WaitGroup
		var mu sync.Mutex
		share := map[int]int{}
		took := make(chan time.Time, messages)
		for at, s := range b.scenes {
			for range 4 {
				actors.Go(func() {
					for ctx.Err() == nil {
						if id := s.poll(ctx, 1); id != 0 {
							took <- time.Now()
							mu.Lock()
							share[at]++
							mu.Unlock()
							lease := db.holder(id)
							time.Sleep(20 * time.Millisecond) // longer than the others hold back
							committed, last := db.ack(id, lease, true)
							b.acked(at, db.subscription, id, committed, last)
						}
					}
				})
			}
		}
		time.Sleep(50 * time.Millisecond) // until all are parked
		for at, s := range b.scenes {
			for other := range b.scenes {
				if other != at { // each has taken something lately
					s.index.Peer(fmt.Sprintf("queen-%d-deliver", other), orders, 999).Leased(0, time.Second)
				}
			}
		}
		var slowest time.Duration
		for i := range messages {
			time.Sleep(100 * time.Millisecond)
			id, pushed := int64(i%7+1), time.Now()
			b.pushed(0, id, db.push(id))
			slowest = max(slowest, (<-took).Sub(pushed))
		}
		time.Sleep(time.Second)
		leave()
		actors.Wait()
		if db.vain != 0 {
			t.Errorf("%d of %d claims took nothing", db.vain, db.claims)
		}
		if slowest > 2*time.Millisecond { // of a claim
			t.Errorf("a message waited %s", slowest)
		}
		if len(share) != processes {
			t.Errorf("shares: %v", share)
		}
	})
}

// two are a process and what it hears of a peer that has just taken something, so that it counts.
func two(t *testing.T, db *database, declined *[]int64) (*scene, *Ring, Peer) {
	t.Helper()
	s := playWith(t, db, never, Options{
		Limit: 100, Self: "a", Declined: func(_ Key, partition, _ int64) { *declined = append(*declined, partition) },
	})
	r := s.ring(t)
	peer := s.index.Peer("b", orders, 1)
	peer.Leased(0, time.Hour)
	return s, r, peer
}

// ofOthers is a partition at which the peer of two goes first, ofOurs one at which it does not.
func ofOthers(r *Ring) int64 { return share(r, false) }
func ofOurs(r *Ring) int64   { return share(r, true) }

func share(r *Ring, ours bool) int64 {
	r.mu.Lock()
	defer r.mu.Unlock()
	for partition := int64(1); ; partition++ {
		if r.goesFirst(partition) == ours {
			return partition
		}
	}
}

func TestPeers_APollIsHeldBackAndNoLonger(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		meanwhile func(p Peer)
		after     time.Duration
	}{
		"nothing is heard":    {func(Peer) {}, minPause},
		"the peer declines":   {func(p Peer) { p.Declined(3) }, time.Millisecond},
		"a lease is believed": {func(p Peer) { p.Leased(3, time.Hour) }, time.Millisecond + believedFor},
		"a short lease":       {func(p Peer) { p.Leased(3, 30*time.Millisecond) }, 31 * time.Millisecond},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				var declined []int64
				s, r, _ := two(t, newDatabase(1, 0), &declined)
				defer s.stop()
				id := ofOthers(r)
				poll := parked(t, r.Spot())
				began := time.Now()
				s.index.Wake(orders.Tenant, orders.Queue, id, 3)
				time.Sleep(time.Millisecond)
				test.meanwhile(s.index.Peer("b", orders, id))
				if got := <-poll; got != wait.Woken || time.Since(began) != test.after {
					t.Errorf("the poll ends with %v after %s", got, time.Since(began))
				}
				if got := r.Take(1, nil).Partitions; !cmp.Equal(got, []int64{id}) {
					t.Errorf("took %v", got)
				}
			})
		})
	}
}

func TestPeers_WhoGoesFirstAndHasNoPollSaysSo(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var declined []int64
		s, r, _ := two(t, newDatabase(1, 0), &declined)
		defer s.stop()
		id := ofOurs(r)
		s.index.Wake(orders.Tenant, orders.Queue, id, 0)
		if !cmp.Equal(declined, []int64{id}) {
			t.Errorf("declined %v", declined)
		}
		s.index.Wake(orders.Tenant, orders.Queue, id, 1)
		s.index.Wake(orders.Tenant, orders.Queue, ofOthers(r), 1)
		time.Sleep(activeFor + time.Second)
		s.index.Wake(orders.Tenant, orders.Queue, ofOurs(r)+1000, 1) // there is no peer any more
		if len(declined) != 1 {
			t.Errorf("declined %v", declined)
		}
		if poll := parked(t, r.Spot()); r.Queued() != 3 {
			t.Errorf("%d queued, %d ended", r.Queued(), len(poll))
		}
		r.Kick()
	})
}

func TestPeers_WhatIsDrainedIsForgottenUnlessMoreWasHeardOf(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		hear  func(s *scene, r *Ring)
		knows Stats
	}{
		"here":                         {func(s *scene, _ *Ring) { s.index.Drained(1, 1, 4) }, Stats{}},
		"by a peer":                    {func(s *scene, _ *Ring) { s.index.Peer("b", orders, 1).Drained(4) }, Stats{}},
		"but more was pushed":          {func(s *scene, _ *Ring) { s.index.Wake(orders.Tenant, orders.Queue, 1, 5); s.index.Drained(1, 1, 4) }, Stats{Queued: 1}},
		"more was pushed and drained":  {func(s *scene, _ *Ring) { s.index.Wake(orders.Tenant, orders.Queue, 1, 5); s.index.Drained(1, 1, 5) }, Stats{}},
		"it was not the last that was": {func(s *scene, _ *Ring) { s.index.Freed(1, 1, 4) }, Stats{Queued: 1}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				db := newDatabase(1, 0)
				db.push(1)
				s := play(t, db, 100, never)
				defer s.stop()
				r := s.ring(t)
				returned(r, r.Take(1, nil), group.Took, time.Hour)
				test.hear(s, r)
				test.knows.Rings = 1
				if diff := cmp.Diff(test.knows, s.index.Stats()); diff != "" {
					t.Errorf("the ring knows (-want +got):\n%s", diff)
				}
			})
		})
	}
}

func TestPeers_WhatWasConsumedIsNotTriedAgain(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := play(t, newDatabase(1, 0), 100, never)
		defer s.stop()
		r := s.ring(t)
		consume := func(last int64) {
			t.Helper()
			taking := r.Take(1, nil)
			if len(taking.Partitions) != 1 {
				t.Fatal("the partition is not offered")
			}
			r.Return(taking, group.ClaimResult{Clock: time.Now(), Claims: []group.Claim{{PartitionID: 1, Verdict: group.Took, Last: last}}}, true)
		}
		s.index.Wake(orders.Tenant, orders.Queue, 1, 2)
		consume(1)
		if r.Queued() != 1 {
			t.Error("what is left is forgotten")
		}
		consume(2)
		if stats := s.index.Stats(); stats.Queued+stats.Later != 0 {
			t.Errorf("nothing is left, the ring has %+v", stats)
		}
		s.index.Wake(orders.Tenant, orders.Queue, 1, 3)
		s.index.Peer("b", orders, 1).Consumed(3)
		if stats := s.index.Stats(); stats.Queued+stats.Later != 0 {
			t.Errorf("a peer has left nothing, the ring has %+v", stats)
		}
	})
}

func TestPeers_APinIsHeldBackToo(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var declined []int64
		s, r, _ := two(t, newDatabase(1, 0), &declined)
		defer s.stop()
		id := ofOthers(r)
		pin := s.index.Pin(orders.Tenant, orders.Queue, "p", orders.Group)
		defer s.index.Unpin(pin)
		pin.Known(group.Ref{ID: 1}, id)
		peer := s.index.Peer("b", orders, id)
		woken := func(after time.Duration, because string, news func()) {
			t.Helper()
			poll := parked(t, pin.Spot())
			began := time.Now()
			news()
			if <-poll != wait.Woken || time.Since(began) != after {
				t.Errorf("%s: the poll is woken after %s", because, time.Since(began))
			}
		}
		push := func() { s.index.Wake(orders.Tenant, orders.Queue, id, 7) }
		woken(0, "nobody else takes the partition", push)
		peer.Leased(7, 20*time.Millisecond)
		woken(20*time.Millisecond, "a push behind a lease", push)
		woken(minPause, "a push at which a peer goes first", push)
		peer.Leased(7, time.Hour)
		woken(0, "the lease has ended and left something", func() { peer.Freed(6) })
		peer.Leased(7, time.Hour)
		woken(believedFor, "the lease has ended and left nothing", func() { peer.Leased(8, time.Hour); peer.Drained(9); peer.Leased(9, time.Hour) })
		pin.Took(&group.Claim{PartitionID: id, Verdict: group.Took, Until: time.Now().Add(time.Minute)}, false, time.Now())
		woken(time.Minute+time.Millisecond, "the own lease runs out", push)
	})
}

func TestPeers_ASearchLeavesWhatIsHeldBackToThePeerUnlessThePopMayNotWait(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		db := newDatabase(1, 0)
		var declined []int64
		s, r, _ := two(t, db, &declined)
		defer s.stop()
		id := ofOthers(r)
		s.index.Wake(orders.Tenant, orders.Queue, id, db.push(id))
		if err := r.Search(t.Context(), r.Ticket()); err != nil || r.Queued() != 0 {
			t.Errorf("%d queued (%v)", r.Queued(), err)
		}
		if waited, err := r.Settle(t.Context()); !waited || err != nil || r.Queued() != 1 {
			t.Errorf("settled %t, %d queued (%v)", waited, r.Queued(), err)
		}
	})
}

func TestPace_GivesOthersTheTimeOfTwoClaims(t *testing.T) {
	t.Parallel()
	var p pace
	if p.pause() != minPause {
		t.Errorf("before any claim %s", p.pause())
	}
	for range 100 {
		p.add(12 * time.Millisecond)
	}
	if got := p.pause(); got < 23*time.Millisecond || got > 24*time.Millisecond {
		t.Errorf("claims of 12 ms give %s", got)
	}
	p.add(time.Minute)
	if p.pause() != maxPause {
		t.Errorf("a claim that hung gives %s", p.pause())
	}
}

// A push that commits while an ack is under way may be seen by a search and not by the ack, and the search is gone on from.
func TestPeers_WhatASearchSawBehindALeaseIsNotDrained(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		db := newDatabase(1, 0)
		db.push(1)
		s := play(t, db, 100, never)
		defer s.stop()
		r := s.ring(t)
		taking := r.Take(1, nil)
		r.Return(taking, db.claim(taking, time.Hour), false)
		time.Sleep(time.Millisecond)
		db.push(1) // nobody says so
		if err := r.Search(t.Context(), r.Ticket()); err != nil {
			t.Fatal(err)
		}
		s.index.Drained(1, 1, 0)
		if r.Queued() != 1 {
			t.Error("the partition is forgotten")
		}
	})
}
