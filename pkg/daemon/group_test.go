package daemon

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"queen.internal/pkg/logging"
)

// diary is what happened, in order.
type diary struct {
	mu     sync.Mutex
	events []string
}

func (d *diary) add(event string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.events = append(d.events, event)
}

func (d *diary) want(t *testing.T, want ...string) {
	t.Helper()
	d.mu.Lock()
	defer d.mu.Unlock()
	if diff := cmp.Diff(want, d.events); diff != "" {
		t.Errorf("events (-want +got):\n%s", diff)
	}
}

// recorded is a component that works until it is told to stop and writes everything down.
func (d *diary) recorded(name string) Component {
	return Component{
		Name:  name,
		Start: func(context.Context) error { d.add("start " + name); return nil },
		Run:   func(ctx context.Context) error { <-ctx.Done(); d.add("told " + name); return ctx.Err() },
		Stop:  func(context.Context) error { d.add("stop " + name); return nil },
	}
}

func newGroup(components ...Component) (*Group, *bytes.Buffer) {
	var out bytes.Buffer
	g := &Group{Logger: logging.New(&out, logging.Settings{})}
	for _, c := range components {
		g.Add(c)
	}
	return g, &out
}

var orderly = []string{
	"start a", "start b", "start c", "told c", "stop c", "told b", "stop b", "told a", "stop a",
}

func TestGroupStopsInReverseOrderEachAfterTheLaterOnesHaveEnded(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var d diary
		g, _ := newGroup(d.recorded("a"), d.recorded("b"), d.recorded("c"))
		ctx, cancel := context.WithCancel(t.Context())
		go func() { synctest.Wait(); cancel() }()
		if err := g.Run(ctx); err != nil {
			t.Error(err)
		}
		d.want(t, orderly...)
	})
}

func TestGroupStopsAllWhenOneFails(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var d diary
		cause := errors.New("disk on fire")
		failing := d.recorded("b")
		failing.Run = func(context.Context) error { time.Sleep(time.Second); d.add("fail b"); return cause }
		g, _ := newGroup(d.recorded("a"), failing, d.recorded("c"))
		err := g.Run(t.Context())
		if !errors.Is(err, cause) || err.Error() != "b: disk on fire" {
			t.Errorf("got %v", err)
		}
		d.want(t, "start a", "start b", "start c", "fail b", "told c", "stop c", "stop b", "told a", "stop a")
	})
}

func TestGroupWhoseStartFailsStopsWhatHadStarted(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var d diary
		failing := d.recorded("b")
		failing.Start = func(context.Context) error { return errors.New("listen on :80: the address is in use") }
		g, _ := newGroup(d.recorded("a"), failing, d.recorded("c"))
		if err := g.Run(t.Context()); err == nil || err.Error() != "b: listen on :80: the address is in use" {
			t.Errorf("got %v", err)
		}
		d.want(t, "start a", "told a", "stop a")
	})
}

func TestGroupCallsOffAStartThatWaits(t *testing.T) {
	t.Parallel()
	for name, failure := range map[string]error{"by its context": nil, "by an earlier part's failure": errors.New("gone")} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				var d diary
				ctx, cancel := context.WithCancel(t.Context())
				first := d.recorded("a")
				waiting := d.recorded("b")
				waiting.Start = func(ctx context.Context) error { <-ctx.Done(); return context.Cause(ctx) }
				if failure == nil {
					go func() { synctest.Wait(); cancel() }()
				} else {
					first.Run = func(context.Context) error { time.Sleep(time.Second); return failure }
				}
				g, _ := newGroup(first, waiting, d.recorded("c"))
				if err := g.Run(ctx); !errors.Is(err, failure) {
					t.Errorf("got %v, want %v", err, failure)
				}
				cancel()
				if failure == nil {
					d.want(t, "start a", "told a", "stop a")
				} else {
					d.want(t, "start a", "stop a")
				}
			})
		})
	}
}

func TestGroupEndsWhenAllWorkIsDoneButNotBefore(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var d diary
		pool := d.recorded("pool")
		pool.Run = nil // only holds something
		quick, slow := d.recorded("quick"), d.recorded("slow")
		quick.Run = func(context.Context) error { d.add("done quick"); return nil }
		slow.Run = func(context.Context) error { time.Sleep(time.Hour); d.add("done slow"); return nil }
		slow.Start = func(context.Context) error { synctest.Wait(); return nil } // quick is done before slow begins
		g, _ := newGroup(pool, quick, slow)
		if err := g.Run(t.Context()); err != nil {
			t.Error(err)
		}
		d.want(t, "start pool", "start quick", "done quick", "done slow", "stop slow", "stop quick", "stop pool")
	})
}

func TestGroupHoldsPartsWithoutWorkUntilItIsStopped(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var d diary
		pool := d.recorded("pool")
		pool.Run = nil
		g, _ := newGroup(pool, Component{Name: "nothing"})
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error)
		go func() { ended <- g.Run(ctx) }()
		synctest.Wait()
		d.want(t, "start pool")
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
		d.want(t, "start pool", "stop pool")
	})
}

func TestGroupNamesPartsThatDoNotStopAndKeepsWhatTheyUse(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var d diary
		release := make(chan struct{})
		stuck := d.recorded("stuck")
		stuck.Run = func(context.Context) error { <-release; return nil }
		g, _ := newGroup(d.recorded("pool"), stuck, d.recorded("http"))
		g.StopTimeout = 7 * time.Second
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		g2 := *g // a group that is stopped before it starts does nothing at all
		if err := g2.Run(ctx); err != nil {
			t.Error(err)
		}
		d.want(t)

		ctx, cancel = context.WithCancel(t.Context())
		go func() { synctest.Wait(); cancel() }()
		began := time.Now()
		err := g.Run(ctx)
		if !errors.Is(err, errStopTimeout) || !strings.HasPrefix(err.Error(), "stuck: ") || time.Since(began) != 7*time.Second+abandonWait {
			t.Errorf("after %v: %v", time.Since(began), err)
		}
		synctest.Wait()
		d.want(t, "start pool", "start stuck", "start http", "told http", "stop http", "told pool")
		close(release)
	})
}

func TestGroupReportsFailuresDuringTheStop(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var d diary
		spool, pool := d.recorded("spool"), d.recorded("pool")
		spool.Run = func(ctx context.Context) error { <-ctx.Done(); return errors.New("fsync: no space left") }
		pool.Stop = func(context.Context) error { return errors.New("still in use") }
		g, out := newGroup(pool, spool)
		ctx, cancel := context.WithCancel(t.Context())
		go func() { synctest.Wait(); cancel() }()
		if err := g.Run(ctx); err == nil || err.Error() != "spool: fsync: no space left" {
			t.Errorf("got %v", err)
		}
		if !strings.Contains(out.String(), `ERROR daemon: stop err="stop pool: still in use"`) {
			t.Errorf("the second failure is not logged: %q", out)
		}
	})
}

func TestGroupGivesPartsTheValuesButNotTheEndOfItsContext(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		type key struct{}
		ctx, cancel := context.WithCancel(context.WithValue(t.Context(), key{}, "value"))
		var seen any
		var aliveDuringStop bool
		later := make(chan struct{})
		g, _ := newGroup(
			Component{Name: "store", Run: func(ctx context.Context) error {
				seen = ctx.Value(key{})
				<-later // the later part is being stopped now
				aliveDuringStop = ctx.Err() == nil
				<-ctx.Done()
				return nil
			}},
			Component{Name: "http", Run: func(ctx context.Context) error {
				<-ctx.Done()
				close(later)
				synctest.Wait()
				return nil
			}},
		)
		go func() { synctest.Wait(); cancel() }()
		if err := g.Run(ctx); err != nil {
			t.Error(err)
		}
		if seen != "value" || !aliveDuringStop {
			t.Errorf("value %v, alive %v", seen, aliveDuringStop)
		}
	})
}

func TestGroupSurvivesStopsAndFailuresAtAnyMoment(t *testing.T) {
	t.Parallel()
	for round := range 300 {
		var mu sync.Mutex
		up, violations := map[int]bool{}, []string(nil)
		set := func(i int, to bool) {
			mu.Lock()
			defer mu.Unlock()
			for j, is := range up {
				if is && j > i && !to {
					violations = append(violations, fmt.Sprintf("%d stopped before %d", i, j))
				}
			}
			up[i] = to
		}
		cause := errors.New("by chance")
		g, _ := newGroup()
		for i := range 5 {
			fails, after := rand.N(8) == 0, time.Duration(rand.N(300))*time.Microsecond
			g.Add(Component{
				Name:  fmt.Sprint(i),
				Start: func(context.Context) error { set(i, true); return nil },
				Run: func(ctx context.Context) error {
					timer := time.NewTimer(after)
					defer timer.Stop()
					select {
					case <-ctx.Done():
						return ctx.Err()
					case <-timer.C:
						if fails {
							return cause
						}
						return nil
					}
				},
				Stop: func(context.Context) error { set(i, false); return nil },
			})
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Duration(rand.N(400))*time.Microsecond)
		if err := g.Run(ctx); err != nil && !errors.Is(err, cause) {
			t.Fatalf("round %d: %v", round, err)
		}
		cancel()
		for i, is := range up {
			if is {
				t.Fatalf("round %d: %d was never stopped", round, i)
			}
		}
		if len(violations) > 0 {
			t.Fatalf("round %d: %v", round, violations)
		}
	}
}
