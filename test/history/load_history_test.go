package history_test

import (
	"math/rand/v2"
	"testing"
	"time"

	"queen.internal/compose/local"
	"queen.internal/test/history"
)

// judge reads the log and checks everything that was recorded.
func (l *load) judge() {
	l.Helper()
	l.drain()
	l.readLog()
	l.Log(l.describe())
	if len(l.history.Log) != partitions {
		l.Errorf("%d partitions, want %d", len(l.history.Log), partitions)
	}
	if violations := history.Check(&l.history); len(violations) > 0 {
		l.Errorf("%d violations\n%s", len(violations), lines(violations))
	}
}

// Two ingests, two delivers, and everything answers.
func TestConcurrentCallsHaveAnExplanation(t *testing.T) {
	t.Parallel()
	l := newLoad(t, world.Shared(t, "calm", local.Options{Ingest: 2, Deliver: 2}), false)
	l.run(*span)
	l.judge()
}

// The same, while processes are killed and started again. The edge stays, and always has one of each role.
func TestConcurrentCallsHaveAnExplanationWhenProcessesAreKilled(t *testing.T) {
	t.Parallel()
	c := world.Own(t, local.Options{Ingest: 2, Deliver: 2})
	l := newLoad(t, c, true)
	over, killed := make(chan struct{}), make(chan int)
	go func() {
		r := rand.New(rand.NewPCG(*seed, 77))
		pace := time.NewTicker(700 * time.Millisecond)
		defer pace.Stop()
		for kills := 0; ; kills++ {
			select {
			case <-over:
				killed <- kills
				return
			case <-pace.C:
			}
			service, number := pick(r, []string{local.Ingest, local.Deliver}), 1+r.IntN(2)
			if err := c.Stack.Kill(service, number); err != nil {
				t.Error(err)
			}
			if err := c.Stack.Restart(t.Context(), service, number); err != nil {
				t.Error(err)
			}
		}
	}()
	l.run(*span)
	close(over)
	if kills := <-killed; kills == 0 {
		t.Error("nothing was killed")
	} else {
		t.Logf("%d kills", kills)
	}
	l.judge()
}
