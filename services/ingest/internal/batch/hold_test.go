package batch

import (
	"errors"
	"testing"
	"time"
)

func TestHold_WhatIsPushedWaitsInItsOrder(t *testing.T) {
	run(t, options(2), func(t *testing.T, h *harness) {
		if !h.Hold(group("p").Key) || h.Hold(group("p").Key) {
			t.Fatal("an idle partition can be held once")
		}
		first, second := h.push(group("p", "a"), group("q", "x")), h.push(group("p", "b"))
		c := h.gate.next(t)
		expect(t, c, "q:x") // others do not wait with it
		c.succeed()
		h.gate.none(t)
		if !first.waiting() || !second.waiting() {
			t.Error("answered while the partition is held")
		}
		h.Release(group("p").Key)
		c = h.gate.next(t)
		expect(t, c, "p:a,b")
		c.succeed()
		first.stored(t)
		second.stored(t)
	})
}

func TestHold_NotWhileAFlushHasThePartition(t *testing.T) {
	run(t, options(1), func(t *testing.T, h *harness) {
		p := h.push(group("p", "a"))
		c := h.gate.next(t)
		if h.Hold(group("p").Key) {
			t.Error("held a partition that is in a flush")
		}
		waiting := h.push(group("p", "b"))
		c.succeed()
		p.stored(t)
		c = h.gate.next(t)
		c.succeed()
		waiting.stored(t)
		if !h.Hold(group("p").Key) {
			t.Error("not held although nothing is under way")
		}
		h.Release(group("p").Key)
		if n := len(h.sched.partitions); n != 0 {
			t.Errorf("%d partitions remembered", n)
		}
	})
}

// A partition that waited for its flush when it was held is not flushed before the release.
func TestHold_TakesAPartitionOutOfTheLine(t *testing.T) {
	run(t, options(1), func(t *testing.T, h *harness) {
		busy := h.push(group("other", "x"))
		c := h.gate.next(t)
		p := h.push(group("p", "a"))
		if !h.Hold(group("p").Key) {
			t.Fatal("not held")
		}
		c.succeed()
		busy.stored(t)
		h.gate.none(t)
		gone := errors.New("client gone")
		withdrawn := h.push(group("p", "b"))
		withdrawn.cancel(gone)
		if withdrawn.waiting() || !errors.Is(withdrawn.results[0].Err, gone) {
			t.Errorf("%+v", withdrawn.results)
		}
		h.Release(group("p").Key)
		c = h.gate.next(t)
		expect(t, c, "p:a")
		c.succeed()
		p.stored(t)
	})
}

func TestHold_AStopWaitsForTheReleaseOrTheDrainTime(t *testing.T) {
	opts := options(1)
	opts.DrainTime = time.Second
	run(t, opts, func(t *testing.T, h *harness) {
		h.Hold(group("p").Key)
		p := h.push(group("p", "a"))
		ended := make(chan struct{})
		go func() { h.stop(); close(ended) }()
		<-ended
		if p.waiting() || p.results[0].Err == nil {
			t.Errorf("%+v", p.results)
		}
		h.Release(group("p").Key)
		h.stop = func() {}
	})
}
