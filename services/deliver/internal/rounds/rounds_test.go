package rounds

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var (
	alice = uuid.UUID{1}
	bob   = uuid.UUID{2}
)

// bench is Rounds whose work waits to be released.
type bench struct {
	*Rounds[string]
	began   chan []string
	release chan func()
}

func setup(o Options[string]) *bench {
	b := &bench{began: make(chan []string, 100), release: make(chan func())}
	if o.Timeout == 0 {
		o.Timeout = time.Second
	}
	o.Work = func(ctx context.Context, calls []string) {
		b.began <- calls
		select {
		case after := <-b.release:
			after()
		case <-ctx.Done():
		}
	}
	b.Rounds = New(o)
	return b
}

// call starts a call and returns where its end is told.
func (b *bench) call(ctx context.Context, tenant uuid.UUID, class, weight int, name string) <-chan error {
	ended := make(chan error, 1)
	go func() { ended <- b.Do(ctx, tenant, class, weight, name) }()
	synctest.Wait()
	return ended
}

// finish ends the round under way.
func (b *bench) finish() {
	b.release <- func() {}
	synctest.Wait()
}

// rounds is what each round since the last call of it has begun with.
func (b *bench) rounds() (all []string) {
	for {
		select {
		case calls := <-b.began:
			all = append(all, strings.Join(calls, " "))
		default:
			return all
		}
	}
}

func (b *bench) want(t *testing.T, want ...string) {
	t.Helper()
	if diff := cmp.Diff(want, b.rounds()); diff != "" {
		t.Error(diff)
	}
}

func TestDo_WhatComesMeanwhileGoesTogether(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := setup(Options[string]{Parallel: 1, Bounds: []int{10}})
		var ended []<-chan error
		for _, name := range []string{"a", "b", "c"} {
			ended = append(ended, b.call(t.Context(), alice, 0, 1, name))
		}
		b.want(t, "a")
		b.finish()
		if err := <-ended[0]; err != nil {
			t.Error(err)
		}
		b.want(t, "b c")
		b.finish()
		if err := errors.Join(<-ended[1], <-ended[2]); err != nil {
			t.Error(err)
		}
		b.call(t.Context(), alice, 0, 1, "d") // nobody leads any more
		b.want(t, "d")
		b.finish()
	})
}

func TestDo_SeveralRoundsAtATime(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := setup(Options[string]{Parallel: 2, Bounds: []int{2}})
		for _, name := range []string{"a", "b", "c", "d", "e"} {
			b.call(t.Context(), alice, 0, 1, name)
		}
		b.want(t, "a", "b")
		b.finish()
		b.want(t, "c d")
		b.finish()
		b.want(t, "e")
		b.finish()
		b.finish()
		b.want(t)
	})
}

func TestCompose_TenantsTakeTurnsAndClassesDoNotStarveEachOther(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := setup(Options[string]{Parallel: 1, Bounds: []int{3, 2}})
		b.call(t.Context(), alice, 0, 1, "first")
		for i := range 6 {
			b.call(t.Context(), alice, 0, 1, fmt.Sprint("a", i))
		}
		b.call(t.Context(), bob, 0, 1, "b0")
		b.call(t.Context(), alice, 1, 9, "heavy") // above the bound: taken, and alone of its class
		b.call(t.Context(), bob, 1, 1, "light")
		b.finish()
		b.finish()
		b.finish()
		b.want(t, "first", "a0 b0 a1 heavy", "a2 a3 a4 light", "a5")
		b.finish()
	})
}

func TestDo_ACallThatWaitsLeavesWithItsContext(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := setup(Options[string]{Parallel: 1, Bounds: []int{10}})
		gone := errors.New("gone")
		ctx, cancel := context.WithCancelCause(t.Context())
		taken := b.call(ctx, alice, 0, 1, "taken")
		waits := b.call(ctx, alice, 0, 1, "waits")
		other := b.call(t.Context(), alice, 0, 1, "other")
		cancel(gone)
		if err := <-waits; !errors.Is(err, gone) {
			t.Errorf("who waits ends with %v", err)
		}
		synctest.Wait()
		select {
		case err := <-taken:
			t.Errorf("who is in a round ends with %v", err)
		default:
		}
		b.finish()
		if err := <-taken; err != nil {
			t.Error(err)
		}
		b.want(t, "taken", "other")
		b.finish()
		if err := <-other; err != nil {
			t.Error(err)
		}
	})
}

func TestDo_ALeaderThatWasNamedAndLeavesNamesAnother(t *testing.T) {
	t.Parallel()
	// Which comes first, its name or its end, is chance: often enough, both do.
	for range 200 {
		synctest.Test(t, func(t *testing.T) {
			b := setup(Options[string]{Parallel: 1, Bounds: []int{1}})
			ctx, cancel := context.WithCancel(t.Context())
			b.call(t.Context(), alice, 0, 1, "a")
			b.call(ctx, alice, 0, 1, "b")
			last := b.call(t.Context(), alice, 0, 1, "c")
			b.release <- cancel
			synctest.Wait()
			for _, round := range b.rounds()[1:] {
				if round == "b" {
					b.finish()
				}
			}
			b.finish()
			if err := <-last; err != nil {
				t.Error(err)
			}
		})
	}
}

func TestDo_ARoundHasTheTimeOfItsMostUrgentCall(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := setup(Options[string]{Parallel: 1, Bounds: []int{10}, Timeout: time.Minute, Spare: 2 * time.Second})
		first := b.call(t.Context(), alice, 0, 1, "first")
		within := func(d time.Duration, name string) <-chan error {
			ctx, cancel := context.WithTimeout(t.Context(), d)
			t.Cleanup(cancel)
			return b.call(ctx, alice, 0, 1, name)
		}
		late, urgent, patient := within(11*time.Second, "late"), within(15*time.Second, "urgent"), within(time.Hour, "patient")
		time.Sleep(10 * time.Second)
		b.finish()
		if err := <-first; err != nil {
			t.Error(err)
		}
		if err := <-late; !errors.Is(err, ErrTooLate) || !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("late: %v", err)
		}
		began := time.Now()
		if err := errors.Join(<-urgent, <-patient); err != nil {
			t.Error(err)
		}
		if took := time.Since(began); took != 5*time.Second {
			t.Errorf("the round had %v", took)
		}
		b.want(t, "first", "urgent patient")
	})
}

func TestDo_APanicEndsTheRoundAndGoesOnToItsLeader(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := setup(Options[string]{Parallel: 1, Bounds: []int{10}})
		b.call(t.Context(), alice, 0, 1, "first")
		panicked := make(chan any, 1)
		go func() {
			defer func() { panicked <- recover() }()
			_ = b.Do(t.Context(), alice, 0, 1, "leads")
		}()
		synctest.Wait()
		follows := b.call(t.Context(), alice, 0, 1, "follows")
		b.finish()
		b.release <- func() { panic("at work") }
		if got := <-panicked; got != "at work" {
			t.Errorf("recovered %v", got)
		}
		if err := <-follows; !errors.Is(err, errStopped) {
			t.Errorf("who was in the round ends with %v", err)
		}
		b.call(t.Context(), alice, 0, 1, "next")
		b.want(t, "first", "leads follows", "next")
		b.finish()
	})
}

// However calls come and go, each is carried out at most once, and once if it says so.
func TestDo_UnderLoad(t *testing.T) {
	t.Parallel()
	var work atomic.Int64
	type call struct{ times atomic.Int64 }
	r := New(Options[*call]{
		Parallel: 2, Bounds: []int{4, 3}, Timeout: time.Minute,
		Work: func(_ context.Context, calls []*call) {
			work.Add(1)
			for _, c := range calls {
				c.times.Add(1)
			}
		},
	})
	var callers sync.WaitGroup
	var withdrawn atomic.Int64
	for i := range 16 {
		random := rand.New(rand.NewPCG(uint64(i), 1))
		callers.Go(func() {
			for range 500 {
				ctx, cancel := context.WithCancel(t.Context())
				if random.IntN(4) == 0 {
					go cancel()
				}
				c := &call{}
				err := r.Do(ctx, uuid.UUID{byte(random.IntN(3))}, random.IntN(2), 1+random.IntN(3), c)
				cancel()
				if n := c.times.Load(); err == nil && n != 1 || err != nil && n != 0 {
					t.Errorf("carried out %d times, error %v", n, err)
				}
				if err != nil {
					withdrawn.Add(1)
				}
			}
		})
	}
	callers.Wait()
	if r.leads != 0 || slices.ContainsFunc(r.queues, func(q queue[*call]) bool { return q.front() != nil || len(q.tenants) > 0 }) {
		t.Errorf("%d lead, queues %v", r.leads, r.queues)
	}
	t.Logf("%d rounds, %d withdrawn", work.Load(), withdrawn.Load())
}
