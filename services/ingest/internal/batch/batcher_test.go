package batch

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"queen.internal/pkg/appendlog"
	"queen.internal/pkg/queue"
)

// run is a test in a bubble, where all is at rest before each look and time moves only when everything waits.
func run(t *testing.T, opts Options, test func(t *testing.T, h *harness)) {
	t.Helper()
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		h := start(opts)
		test(t, h)
		h.stop()
	})
}

func expect(t *testing.T, c *call, want string) {
	t.Helper()
	if got := c.String(); got != want {
		t.Errorf("flush is %q, want %q", got, want)
	}
}

func TestPush_IsFlushedAtOnceWhenIdle(t *testing.T) {
	run(t, options(1), func(t *testing.T, h *harness) {
		before := time.Now()
		p := h.push(group("p", "a", "b"), group("q", "c"))
		c := h.gate.next(t)
		expect(t, c, "p:a,b q:c")
		c.succeed()
		p.stored(t)
		if took := time.Since(before); took != 0 {
			t.Errorf("an idle Batcher waited %v", took)
		}
	})
}

func TestPush_WithoutGroupsIsDone(t *testing.T) {
	run(t, options(1), func(t *testing.T, h *harness) {
		if results, err := h.Push(t.Context(), nil); err != nil || len(results) != 0 {
			t.Errorf("got %v, %v", results, err)
		}
	})
}

func TestFlush_WhatArrivesMeanwhileGoesNext(t *testing.T) {
	run(t, options(1), func(t *testing.T, h *harness) {
		first := h.push(group("p", "a"))
		c := h.gate.next(t)
		second, third, fourth := h.push(group("p", "b")), h.push(group("q", "c")), h.push(group("p", "d"))
		h.gate.none(t)
		c.succeed()
		c = h.gate.next(t)
		expect(t, c, "q:c p:b,d") // q was ready first
		c.succeed()
		for _, p := range []*pushed{first, second, third, fourth} {
			p.stored(t)
		}
	})
}

func TestFlush_OneAtATimeHoldsAPartition(t *testing.T) {
	run(t, options(3), func(t *testing.T, h *harness) {
		h.push(group("p", "a"))
		inP := h.gate.next(t)
		h.push(group("p", "b"))
		h.gate.none(t) // two committers are idle, but p is busy
		h.push(group("p", "c"), group("q", "d"))
		inQ := h.gate.next(t)
		expect(t, inQ, "q:d")
		inP.succeed()
		inP = h.gate.next(t)
		expect(t, inP, "p:b,c")
		inP.succeed()
		inQ.succeed()
	})
}

func TestFlush_ACommittedGroupDoesNotWaitForTheRestOfItsRequest(t *testing.T) {
	run(t, options(2), func(t *testing.T, h *harness) {
		slow := h.push(group("p", "a"))
		inP := h.gate.next(t)
		both := h.push(group("p", "b"), group("q", "c"))
		inQ := h.gate.next(t)
		inQ.succeed()
		if !both.waiting() {
			t.Error("a request was answered before its last group")
		}
		if got := h.Depth(); got.Waiting != 1 || got.InFlight != 1 || got.Committing != 1 {
			t.Errorf("depth is %+v", got)
		}
		inP.succeed()
		h.gate.next(t).succeed()
		slow.stored(t)
		both.stored(t)
		if got := h.Depth(); got != (Depth{}) {
			t.Errorf("depth is %+v after everything was answered", got)
		}
	})
}

func TestFlush_SharedTransactionIDsOfTwoRequestsAreKeptApart(t *testing.T) {
	run(t, options(2), func(t *testing.T, h *harness) {
		h.push(group("p", "x"))
		blocker := h.gate.next(t)
		h.push(group("p", "a", "b"))
		h.push(group("p", "c", "b"), group("q", "b")) // another partition is another matter
		inQ := h.gate.next(t)
		h.push(group("p", "d")) // may not overtake
		expect(t, inQ, "q:b")
		inQ.succeed()
		blocker.succeed()
		c := h.gate.next(t)
		expect(t, c, "p:a,b")
		c.succeed()
		c = h.gate.next(t)
		expect(t, c, "p:c,b,d")
		c.succeed()
	})
}

func TestFlush_TenantsTakeTurns(t *testing.T) {
	opts := options(1)
	opts.FlushPartitions = 4
	run(t, opts, func(t *testing.T, h *harness) {
		h.push(group("x", "x"))
		blocker := h.gate.next(t)
		h.push(group("a1", "1"), group("a2", "1"), group("a3", "1"), group("a4", "1"), group("a5", "1"))
		h.push(groupOf(tenantB, "b1", "1"), groupOf(tenantB, "b2", "1"))
		blocker.succeed()
		c := h.gate.next(t)
		expect(t, c, "a1:1 b1:1 a2:1 b2:1")
		c.succeed()
		c = h.gate.next(t)
		expect(t, c, "a3:1 a4:1 a5:1")
		c.succeed()
	})
}

func TestFlush_IsBoundedAndAnotherCommitterTakesTheRest(t *testing.T) {
	opts := options(2)
	opts.FlushPartitions = 2
	run(t, opts, func(t *testing.T, h *harness) {
		p := h.push(group("p1", "a"), group("p2", "a"), group("p3", "a"))
		synctest.Wait()
		if n := len(h.gate.calls); n != 2 {
			t.Fatalf("%d flushes under way, want 2", n)
		}
		sizes := []int{}
		for range 2 {
			c := <-h.gate.calls
			sizes = append(sizes, len(c.groups))
			c.succeed()
		}
		if sizes[0]+sizes[1] != 3 || max(sizes[0], sizes[1]) != 2 {
			t.Errorf("flushes of %v partitions", sizes)
		}
		p.stored(t)
	})
}

func TestFlush_AnotherBeginsBesideOneThatTakesLong(t *testing.T) {
	opts := options(3)
	opts.Patience = 10 * time.Millisecond
	run(t, opts, func(t *testing.T, h *harness) {
		h.push(group("p", "a"))
		first := h.gate.next(t)
		h.push(group("q", "b"))
		time.Sleep(opts.Patience - 1)
		h.push(group("r", "c"))
		h.gate.none(t)
		time.Sleep(time.Nanosecond)
		second := h.gate.next(t)
		expect(t, second, "q:b r:c")
		h.push(group("s", "d"))
		h.gate.none(t) // counted from the flush that was begun last
		time.Sleep(opts.Patience)
		third := h.gate.next(t)
		expect(t, third, "s:d")
		time.Sleep(time.Hour)
		h.push(group("t", "e"))
		h.gate.none(t) // there are no more committers
		for _, c := range []*call{first, second, third} {
			c.succeed()
		}
		h.gate.next(t).succeed()
	})
}

func TestFlush_OneThatWouldBeFullBeginsAtOnce(t *testing.T) {
	size := group("p", "a").Messages[0].Size()
	for name, set := range map[string]func(o *Options){
		"partitions": func(o *Options) { o.FlushPartitions = 2 },
		"bytes":      func(o *Options) { o.FlushBytes = 2 * size },
	} {
		t.Run(name, func(t *testing.T) {
			opts := options(2)
			opts.Patience = time.Hour
			set(&opts)
			run(t, opts, func(t *testing.T, h *harness) {
				h.push(group("p", "a"))
				first := h.gate.next(t)
				h.push(group("q", "b"))
				h.gate.none(t)
				h.push(group("r", "c"))
				second := h.gate.next(t)
				expect(t, second, "q:b r:c")
				first.succeed()
				second.succeed()
			})
		})
	}
}

func TestFlush_CommittersAreSharedWithPeers(t *testing.T) {
	for peers, want := range map[int]int{0: 4, 1: 2, 2: 1, 9: 1} {
		t.Run(fmt.Sprint(peers), func(t *testing.T) {
			opts := options(4)
			opts.Peers = func() int { return peers }
			run(t, opts, func(t *testing.T, h *harness) {
				for i := range 6 {
					h.push(group(fmt.Sprint("p", i), "a"))
				}
				synctest.Wait()
				if n := len(h.gate.calls); n != want {
					t.Errorf("%d flushes are under way, want %d", n, want)
				}
				for h.Depth() != (Depth{}) {
					(<-h.gate.calls).succeed()
					synctest.Wait()
				}
			})
		})
	}
}

func TestFlush_PartitionShareIsBoundedInMessagesAndBytes(t *testing.T) {
	big := strings.Repeat("x", 1000)
	two := 2 * group("p", "a").Messages[0].Size()
	tests := map[string]struct {
		set  func(o *Options)
		want []string
	}{
		"messages":             {func(o *Options) { o.PartitionMessages = 3 }, []string{"p:a,b", "p:c,d", "p:e,f"}},
		"bytes of a partition": {func(o *Options) { o.PartitionBytes = 2*two + 1 }, []string{"p:a,b,c,d", "p:e,f"}},
		"bytes of a flush":     {func(o *Options) { o.FlushBytes = 2*two - 1 }, []string{"p:a,b", "p:c,d", "p:e,f"}},
	}
	t.Parallel()
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			opts := options(1)
			test.set(&opts)
			run(t, opts, func(t *testing.T, h *harness) {
				h.push(group("x", "x"))
				blocker := h.gate.next(t)
				h.push(group("p", "a", "b"))
				h.push(group("p", "c", "d"))
				h.push(group("p", "e", "f"))
				blocker.succeed()
				for _, want := range test.want {
					c := h.gate.next(t)
					expect(t, c, want)
					c.succeed()
				}
			})
		})
	}
	t.Run("a group above every bound goes alone and whole", func(t *testing.T) {
		opts := options(1)
		opts.PartitionMessages, opts.PartitionBytes, opts.FlushBytes = 1, 1, 1
		run(t, opts, func(t *testing.T, h *harness) {
			h.push(group("x", "x"))
			blocker := h.gate.next(t)
			h.push(group("p", "a", big), group("q", "b"))
			blocker.succeed()
			for _, want := range []string{"p:a," + big, "q:b"} {
				c := h.gate.next(t)
				expect(t, c, want)
				c.succeed()
			}
		})
	})
}

func TestPush_IsRefusedExactlyAtTheBound(t *testing.T) {
	t.Parallel()
	one := Cost([]appendlog.Group{group("p", "a")})
	opts := options(1)
	opts.QueuedBytes = 3 * one
	t.Run("what is in flight counts, and the last byte fits", func(t *testing.T) {
		run(t, opts, func(t *testing.T, h *harness) {
			h.push(group("p", "a"))
			c := h.gate.next(t)
			h.push(group("p", "b"))
			h.push(group("p", "c"))
			if got := h.Depth().Bytes; got != opts.QueuedBytes {
				t.Errorf("%d bytes are held, want %d", got, opts.QueuedBytes)
			}
			refused := h.push(group("q", "d"))
			var e *queue.Error
			if refused.waiting() || !errors.As(refused.err, &e) || e.Kind != queue.KindOverloaded || e.RetryAfter <= 0 {
				t.Fatalf("over the bound: %v", refused.err)
			}
			c.succeed()
			c = h.gate.next(t)
			expect(t, c, "p:b,c")
			if p := h.push(group("q", "d")); !p.waiting() {
				t.Errorf("refused again after room was made: %v", p.err)
			}
			c.succeed()
			h.gate.next(t).succeed()
		})
	})
	t.Run("what finds no room waits for it", func(t *testing.T) {
		patient := opts
		patient.RoomWait = time.Second
		run(t, patient, func(t *testing.T, h *harness) {
			h.push(group("p", "a", "b", "c"))
			c := h.gate.next(t)
			p := h.push(group("q", "d"))
			time.Sleep(patient.RoomWait - 1)
			if !p.waiting() {
				t.Errorf("ended early with %v", p.err)
			}
			c.succeed()
			h.gate.next(t).succeed()
			p.stored(t)
		})
	})
	t.Run("one byte too many is too many", func(t *testing.T) {
		run(t, opts, func(t *testing.T, h *harness) {
			h.push(group("p", "a"))
			c := h.gate.next(t)
			h.push(group("p", "b"))
			if p := h.push(group("p", "cc")); p.waiting() || queue.KindOf(p.err) != queue.KindOverloaded {
				t.Errorf("got %v", p.err)
			}
			c.succeed()
			h.gate.next(t).succeed()
		})
	})
	t.Run("a request above the whole bound is taken when it is the only one", func(t *testing.T) {
		run(t, opts, func(t *testing.T, h *harness) {
			giant := group("p", "a", "b", "c", "d", "e")
			p := h.push(giant)
			c := h.gate.next(t)
			if q := h.push(giant); q.waiting() || queue.KindOf(q.err) != queue.KindOverloaded {
				t.Errorf("a second giant: %v", q.err)
			}
			c.succeed()
			p.stored(t)
		})
	})
}

func TestPush_WithdrawsWhatIsInNoFlush(t *testing.T) {
	gone := errors.New("client is gone")
	run(t, options(1), func(t *testing.T, h *harness) {
		first := h.push(group("p", "a"))
		c := h.gate.next(t)
		mixed := h.push(group("p", "b"), group("q", "b"))
		other := h.push(group("p", "c"))
		c.succeed()
		first.stored(t)
		c = h.gate.next(t)
		expect(t, c, "q:b p:b,c")
		late := h.push(group("p", "d"), group("r", "d"))

		late.cancel(gone) // in no flush: both are withdrawn
		if late.waiting() || !errors.Is(late.results[0].Err, gone) || !errors.Is(late.results[1].Err, gone) {
			t.Errorf("withdrawn push: %v", late.results)
		}
		mixed.cancel(gone) // in a flush: decided, whatever its client does
		if !mixed.waiting() {
			t.Error("a push returned while a flush held its messages")
		}
		c.succeed()
		mixed.stored(t)
		other.stored(t)
		h.gate.none(t)
		if got := h.Depth(); got != (Depth{}) {
			t.Errorf("depth is %+v", got)
		}
	})
}

func TestPush_WithdrawsHalfOfARequest(t *testing.T) {
	gone := errors.New("client is gone")
	run(t, options(2), func(t *testing.T, h *harness) {
		h.push(group("p", "a"))
		inP := h.gate.next(t)
		mixed := h.push(group("p", "b"), group("q", "b"))
		inQ := h.gate.next(t)
		mixed.cancel(gone)
		synctest.Wait()
		inP.succeed()
		h.gate.none(t)
		inQ.succeed()
		if mixed.waiting() || !errors.Is(mixed.results[0].Err, gone) || mixed.results[1].Err != nil {
			t.Errorf("got %v", mixed.results)
		}
	})
}

func TestFlush_ErrorReachesItsOwnPartitionOnly(t *testing.T) {
	down := queue.Unavailable("PostgreSQL is down", 0, nil)
	run(t, options(1), func(t *testing.T, h *harness) {
		p := h.push(group("p", "a"), group("q", "b"))
		c := h.gate.next(t)
		c.answer <- []appendlog.Result{
			{Err: down},
			{Outcomes: []appendlog.Outcome{{Duplicate: true, MessageID: tenantB}}},
		}
		if p.waiting() {
			t.Fatal("still waiting")
		}
		want := []appendlog.Result{{Err: down}, {Outcomes: []appendlog.Outcome{{Duplicate: true, MessageID: tenantB}}}}
		if diff := cmp.Diff(want, p.results, cmp.Comparer(func(a, b error) bool { return errors.Is(a, b) })); diff != "" {
			t.Error(diff)
		}
		h.push(group("p", "c"))
		h.gate.next(t).succeed() // the partition is free again
	})
}

func TestFlush_RefusedTogetherIsTriedOneByOne(t *testing.T) {
	bad := queue.Invalid("payload", "not this one")
	run(t, options(1), func(t *testing.T, h *harness) {
		h.push(group("x", "x"))
		blocker := h.gate.next(t)
		a, b := h.push(group("p", "a")), h.push(group("p", "b"))
		blocker.succeed()
		c := h.gate.next(t)
		expect(t, c, "p:a,b")
		later := h.push(group("p", "c"))
		c.fail(bad)
		c = h.gate.next(t)
		expect(t, c, "p:a")
		c.fail(bad)
		c = h.gate.next(t)
		expect(t, c, "p:b")
		c.succeed()
		c = h.gate.next(t)
		expect(t, c, "p:c")
		c.succeed()
		if a.waiting() || !errors.Is(a.results[0].Err, bad) {
			t.Errorf("the bad one: %v", a.results)
		}
		b.stored(t)
		later.stored(t)
	})
}

func TestFlush_AnAppenderThatMiscountsIsNotBelieved(t *testing.T) {
	for name, results := range map[string][]appendlog.Result{
		"groups":   {},
		"messages": {{Outcomes: []appendlog.Outcome{{}}}},
	} {
		t.Run(name, func(t *testing.T) {
			run(t, options(1), func(t *testing.T, h *harness) {
				p := h.push(group("p", "a", "b"))
				h.gate.next(t).answer <- results
				if p.waiting() || queue.KindOf(p.results[0].Err) != queue.KindInternal || p.results[0].Err == nil {
					t.Errorf("got %v", p.results)
				}
			})
		})
	}
}

func TestFlush_IsReported(t *testing.T) {
	reports := make(chan Flush, 1)
	opts := options(1)
	opts.Flushed = func(f Flush) { reports <- f }
	run(t, opts, func(t *testing.T, h *harness) {
		groups := []appendlog.Group{group("p", "a", "b"), group("q", "c")}
		h.push(groups...)
		c := h.gate.next(t)
		time.Sleep(time.Second) // of the bubble's clock
		c.fail(errors.New("no"))
		want := Flush{Partitions: 2, Groups: 2, Messages: 3, Failed: 2, Took: time.Second}
		for _, g := range groups {
			for _, m := range g.Messages {
				want.Bytes += m.Size()
			}
		}
		if diff := cmp.Diff(want, <-reports); diff != "" {
			t.Error(diff)
		}
	})
}

func TestRun_FinishesWhatWasAcceptedAndRefusesTheRest(t *testing.T) {
	run(t, options(2), func(t *testing.T, h *harness) {
		a := h.push(group("p", "a"))
		c := h.gate.next(t)
		b := h.push(group("p", "b"), group("q", "b"))
		inQ := h.gate.next(t)
		stopped := make(chan struct{})
		go func() { defer close(stopped); h.stop() }()
		synctest.Wait()
		late := h.push(group("p", "c"))
		if late.waiting() || queue.KindOf(late.err) != queue.KindUnavailable {
			t.Errorf("a push after the stop: %v", late.err)
		}
		c.succeed()
		inQ.succeed()
		c = h.gate.next(t)
		expect(t, c, "p:b")
		if c.ctx.Err() != nil {
			t.Error("the stop cancelled a flush")
		}
		c.succeed()
		<-stopped
		a.stored(t)
		b.stored(t)
		h.stop = func() {}
	})
}

func TestRun_GivesUpAfterTheDrainTime(t *testing.T) {
	run(t, options(1), func(t *testing.T, h *harness) {
		a := h.push(group("p", "a"))
		c := h.gate.next(t)
		b := h.push(group("p", "b"))
		go func() {
			<-c.ctx.Done()
			c.fail(fmt.Errorf("append: %w", c.ctx.Err()))
		}()
		before := time.Now()
		h.stop()
		if took := time.Since(before); took != h.opts.DrainTime {
			t.Errorf("stopped after %v, want %v", took, h.opts.DrainTime)
		}
		if a.waiting() || b.waiting() || a.results[0].Err == nil || queue.KindOf(b.results[0].Err) != queue.KindUnavailable {
			t.Errorf("got %v and %v", a.results, b.results)
		}
		h.stop = func() {}
	})
}
