package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"testing"
)

func (b *bundle) minWait(ms int) {
	b.t.Helper()
	b.exec(`UPDATE queen.queues SET min_pop_wait_ms = $1`, ms)
}

func TestMinPopWait_HoldsAPollUntilItsBatchIsFull(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.push("q", "p1", "a")
	b.minWait(60_000)
	answer := b.later("/queue/q?batch=4&partitions=0&wait=true&timeout=600000")
	b.parked(1)
	b.push("q", "p1", "b")
	b.push("q", "p2", "c") // a partition that nobody has heard of
	b.push("q", "p1", "d")
	if got := answer(); len(got.Messages) != 4 {
		t.Errorf("%s", got.Raw)
	}
}

func TestMinPopWait_HoldsAPollThatWasParkedOnAnEmptyQueue(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.push("q", "p", "a")
	b.minWait(60_000)
	b.mustPop(http.StatusOK, "/queue/q?autoAck=true")
	answer := b.later("/queue/q?batch=2&wait=true&timeout=600000")
	b.parked(1)
	b.push("q", "p", "b")
	b.push("q", "p", "c")
	if got := answer(); got.ids() != "b c" {
		t.Errorf("%s", got.Raw)
	}
}

func TestMinPopWait_EndsByItsTimeAndByTheDeadline(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct{ wait, timeout int }{"its time": {200, 600_000}, "the deadline": {60_000, 300}} {
		b := setup(t)
		b.push("q", "p", "a")
		b.minWait(tc.wait)
		got := b.mustPop(http.StatusOK, fmt.Sprintf("/queue/q?batch=2&wait=true&timeout=%d", tc.timeout))
		if got.ids() != "a" {
			t.Errorf("%s: %s", name, got.Raw)
		}
	}
}

func TestMinPopWait_HoldsNobodyElse(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.push("q.x", "p", "a")
	b.minWait(60_000)
	for _, path := range []string{
		"/queue/q.x?batch=2", "/queue/q.x?batch=1&wait=true&timeout=600000", "/queue/q.x/partition/p?batch=2&wait=true&timeout=600000",
		"?namespace=q&batch=2&wait=true&timeout=600000",
	} {
		got := b.mustPop(http.StatusOK, path)
		if got.ids() != "a" {
			t.Errorf("%s: %s", path, got.Raw)
		}
		b.release(got.LeaseID, true, 1)
	}
	b.push("q.x", "p", "b")
	if got := b.mustPop(http.StatusOK, "/queue/q.x?batch=2&wait=true&timeout=600000"); got.ids() != "a b" {
		t.Errorf("a full batch: %s", got.Raw)
	}
}

func TestMinPopWait_StopsAnswerWithWhatThereIs(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.push("q", "p", "a")
	b.minWait(60_000)
	answer := b.later("/queue/q?batch=2&wait=true&timeout=600000")
	ctx, cancel := context.WithCancel(context.Background())
	left := make(chan error, 1)
	go func() {
		_, err := b.popContext(ctx, "/queue/q?batch=2&wait=true&timeout=600000")
		left <- err
	}()
	b.parked(2)
	cancel()
	if err := <-left; !errors.Is(err, context.Canceled) {
		t.Fatal(err)
	}
	b.parked(1)
	ended := make(chan error, 1)
	go func() { ended <- b.stop() }()
	if got := answer(); got.ids() != "a" {
		t.Errorf("%d %s", got.Status, got.Raw)
	}
	if err := <-ended; err != nil {
		t.Error(err)
	}
}
