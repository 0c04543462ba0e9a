package sealing

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"queen.internal/pkg/store/log"
)

// held is a Lookup that stops every call until the test lets it go on. Queues whose name begins with s are encrypted.
type held struct {
	calls chan []log.Queue
	goOn  chan error
}

func newHeld() *held { return &held{calls: make(chan []log.Queue, 100), goOn: make(chan error)} }

func (h *held) lookup(ctx context.Context, queues []log.Queue) ([]log.Flags, error) {
	h.calls <- queues
	select {
	case err := <-h.goOn:
		answers := make([]log.Flags, len(queues))
		for i, q := range queues {
			answers[i].Encryption = q.Name[0] == 's'
		}
		return answers, err
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
}

// names are the queues of the one lookup that is under way.
func (h *held) names(t *testing.T) []string {
	t.Helper()
	synctest.Wait()
	if len(h.calls) != 1 {
		t.Fatalf("%d lookups began, want 1", len(h.calls))
	}
	var names []string
	for _, q := range <-h.calls {
		names = append(names, q.Name)
	}
	return names
}

func named(names ...string) []log.Queue {
	var queues []log.Queue
	for _, name := range names {
		queues = append(queues, log.Queue{Tenant: tenant, Name: name})
	}
	return queues
}

// asked is one call of flags.of under way.
type asked struct {
	cancel  context.CancelFunc
	done    chan struct{}
	answers []bool
	err     error
}

func ask(f *flags, names ...string) *asked {
	ctx, cancel := context.WithCancel(context.Background())
	a := &asked{cancel: cancel, done: make(chan struct{})}
	go func() {
		defer close(a.done)
		a.answers, a.err = f.of(ctx, named(names...))
	}()
	synctest.Wait()
	return a
}

func (a *asked) want(t *testing.T, want ...bool) {
	t.Helper()
	<-a.done
	if diff := cmp.Diff(want, a.answers); diff != "" || a.err != nil {
		t.Errorf("%v: %s", a.err, diff)
	}
}

func TestFlags_WhoComesDuringALookupJoinsTheNext(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		h := newHeld()
		f := newFlags(h.lookup, time.Now)
		first := ask(f, "a")
		if diff := cmp.Diff([]string{"a"}, h.names(t)); diff != "" {
			t.Error(diff)
		}
		// One waiter after the other, and none begins a lookup of its own.
		var waiting []*asked
		for i := range 50 {
			waiting = append(waiting, ask(f, fmt.Sprint("s", i%3), "a"))
		}
		if len(h.calls) != 0 {
			t.Fatal("two lookups at a time")
		}
		h.goOn <- nil
		first.want(t, false)
		if diff := cmp.Diff([]string{"s0", "a", "s1", "s2"}, h.names(t)); diff != "" {
			t.Error(diff)
		}
		h.goOn <- nil
		for _, w := range waiting {
			w.want(t, true, false)
		}
		ask(f, "s0", "s1", "s2", "a").want(t, true, true, true, false) // from memory
	})
}

func TestFlags_ALeaderThatLeavesStillWorksForItsFollowers(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		h := newHeld()
		f := newFlags(h.lookup, time.Now)
		first := ask(f, "a")
		h.names(t)
		leader, follower, gone := ask(f, "s"), ask(f, "b"), ask(f, "c")
		leader.cancel()
		gone.cancel()
		<-gone.done
		if !errors.Is(gone.err, context.Canceled) {
			t.Errorf("%v", gone.err)
		}
		h.goOn <- nil
		first.want(t, false)
		h.names(t)
		h.goOn <- nil
		follower.want(t, false)
		<-leader.done
	})
}

func TestFlags_AFailedLookupFailsThoseInItAndNoOthers(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		h := newHeld()
		f := newFlags(h.lookup, time.Now)
		first := ask(f, "a")
		h.names(t)
		second := ask(f, "a")
		away := errors.New("away")
		h.goOn <- away
		<-first.done
		if !errors.Is(first.err, away) {
			t.Errorf("%v", first.err)
		}
		h.names(t)
		h.goOn <- nil
		second.want(t, false)
	})
}

func TestFlags_ALookupThatHangsEndsAtItsDeadline(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		h := newHeld()
		f := newFlags(h.lookup, time.Now)
		first, second := ask(f, "a"), ask(f, "b")
		began := f.now()
		<-second.done
		<-first.done
		if took := f.now().Sub(began); first.err == nil || second.err == nil || took != 2*lookupDeadline {
			t.Errorf("%v and %v after %v", first.err, second.err, took)
		}
	})
}

func TestFlags_ALookupThatPanicsStrandsNobody(t *testing.T) {
	t.Parallel()
	f := newFlags(func(context.Context, []log.Queue) ([]log.Flags, error) { panic("a bug") }, time.Now)
	var calls sync.WaitGroup
	for range 10 {
		calls.Go(func() {
			defer func() { _ = recover() }() // of those that made a lookup
			if _, err := f.of(context.Background(), named("a")); err == nil {
				t.Error("no error")
			}
		})
	}
	calls.Wait()
}
