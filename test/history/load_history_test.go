package history_test

import (
	"context"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"queen.internal/compose/local"
	"queen.internal/test/history"
	"queen.internal/test/internal/cell"
)

// judge reads the log and checks everything that was recorded.
func (l *load) judge() {
	l.Helper()
	l.drain()
	l.readLog()
	l.Log(l.describe())
	if len(l.History().Log) != partitions {
		l.Errorf("%d partitions, want %d", len(l.History().Log), partitions)
	}
	if violations := history.Check(l.History()); len(violations) > 0 {
		l.Errorf("%d violations\n%s", len(violations), lines(violations))
	}
}

// spanOn is how long a load runs on a shape.
func spanOn(s cell.Shape) time.Duration {
	if s.Full() {
		return *span
	}
	return *span / 2
}

// Two ingests, two delivers, and everything answers.
func TestConcurrentCallsHaveAnExplanation(t *testing.T) {
	t.Parallel()
	cell.EachShape(t, func(t *testing.T, s cell.Shape) {
		l := newLoad(t, world.Shared(t, s.Name, local.Options{Ingest: 2, Deliver: 2, Env: s.Env}), false)
		l.run(spanOn(s))
		l.judge()
	})
}

// The same, while processes are killed and started again, and with them the nodes of the mesh. The edge stays, and always
// has one of each role.
func TestConcurrentCallsHaveAnExplanationWhenProcessesAreKilled(t *testing.T) {
	t.Parallel()
	cell.EachFullShape(t, func(t *testing.T, s cell.Shape) {
		c := world.Own(t, local.Options{Ingest: 2, Deliver: 2, Env: s.Env})
		l := newLoad(t, c, true)
		kills := l.disturbed(spanOn(s), 700*time.Millisecond, func(_ context.Context, r *rand.Rand) {
			service, number := pick(r, []string{local.Ingest, local.Deliver}), 1+r.IntN(2)
			if err := c.Stack.Kill(service, number); err != nil {
				t.Error(err)
			}
			if err := c.Stack.Restart(t.Context(), service, number); err != nil {
				t.Error(err)
			}
		})
		if kills == 0 {
			t.Error("nothing was killed")
		}
		t.Logf("%d kills", kills)
		l.judge()
	})
}

// The same, while the NATS that they share is killed and started again, and in the end is gone for good. That costs time
// and nothing else: every call is answered, and what nobody announced is found.
func TestConcurrentCallsHaveAnExplanationWhenTheirNATSIsKilled(t *testing.T) {
	t.Parallel()
	nats := cell.NATS(t)
	c := world.Own(t, local.Options{Ingest: 2, Deliver: 2, Env: cell.Through(nats.Port())})
	processes := slices.Concat(c.Ingest, c.Deliver)
	running := func(address string, peers int) {
		cell.Eventually(t, func() bool { m := c.MeshAt(t, address); return m.Running && m.Alive == peers })
	}
	for _, address := range processes {
		running(address, len(processes)-1)
	}
	l := newLoad(t, c, false)
	kills := l.disturbed(spanOn(cell.Shipped), 700*time.Millisecond, func(ctx context.Context, _ *rand.Rand) {
		heard := c.MeshAt(t, c.Deliver[0]).Received
		nats.End()
		cell.Eventually(t, func() bool { return !c.MeshAt(t, c.Deliver[0]).Running })
		nats.Return(t)
		running(c.Deliver[0], len(processes)-1)
		cell.Eventually(t, func() bool { return ctx.Err() != nil || c.MeshAt(t, c.Deliver[0]).Received > heard })
	})
	if kills == 0 {
		t.Error("nothing was killed")
	}
	t.Logf("%d kills", kills)
	nats.End()
	l.run(spanOn(cell.Shipped) / 3)
	l.judge()
	for _, address := range processes {
		if m := c.MeshAt(t, address); m.Running || m.Dropped == 0 {
			t.Errorf("%s: %+v", address, m)
		}
	}
	if m := c.MeshAt(t, c.Deliver[0]); m.Gaps < kills {
		t.Errorf("after %d kills: %+v", kills, m)
	}
}
