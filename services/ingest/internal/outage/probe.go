package outage

import (
	"context"
	"time"

	"queen.internal/pkg/pg"
)

// answers asks the database, within two seconds. Whoever asks meanwhile shares the answer. When there is none, the database
// counts as down from then on, until Run finds it back.
func (g *Guard) answers(ctx context.Context) bool {
	answered, _, _ := g.probes.Do("ping", func() (any, error) {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), probeTime)
		defer cancel()
		ping := g.o.Ping
		if g.Down() {
			ping = g.o.Back
		}
		err := ping(ctx)
		if err != nil {
			g.fall(err)
		}
		return err == nil, nil
	})
	return answered.(bool)
}

// doubt has Run probe the database soon.
func (g *Guard) doubt() {
	g.mu.Lock()
	g.suspect = true
	g.mu.Unlock()
	g.nudge()
}

// fall notes that the database does not answer.
func (g *Guard) fall(err error) {
	g.mu.Lock()
	before, pending := g.down, g.pendingMessages()
	g.suspect, g.down = false, true
	g.unbar()
	g.mu.Unlock()
	if !before {
		g.o.Fallen()
		g.o.Logger.Warn("DB down — entering buffered mode (degraded durability)", "pending", pending, "err", pg.Reason(err))
		g.nudge()
	}
}

// rise notes that it answers.
func (g *Guard) rise() {
	g.mu.Lock()
	before, pending := g.down, g.pendingMessages()
	g.suspect, g.down = false, false
	g.mu.Unlock()
	if before {
		g.drain.forgive()
		for _, src := range g.list() {
			src.tagged = true // what has no tag comes first: that frees many partitions at once
		}
		g.o.Logger.Info("DB recovered — leaving buffered mode", "pending", pending)
	}
}

// pendingMessages is called with the mutex.
func (g *Guard) pendingMessages() (n int64) {
	for _, src := range g.sources {
		n += src.messages
	}
	return n
}

// probed probes when there is reason to, and says whether the database can be worked with.
func (g *Guard) probed(ctx context.Context) bool {
	g.mu.Lock()
	down, suspect := g.down, g.suspect
	g.mu.Unlock()
	if down && time.Since(g.drain.asked) < probeEvery {
		return false // woken by what is spooled meanwhile
	}
	g.drain.asked = time.Now()
	if (down || suspect) && !g.answers(ctx) {
		g.drain.answered = time.Time{}
		return false
	}
	if g.drain.answered.IsZero() {
		g.drain.answered = time.Now()
	}
	ready := g.o.Ready() == nil
	// Pushes go on into the spool while a database that is back is still looked over; one that gets no schema has to be
	// told to clients.
	if ready || time.Since(g.drain.answered) >= schemaTime {
		if down {
			// Before anything goes to the database directly, what others have left for it is known.
			g.drain.adopted = time.Time{}
			g.adoptPeers()
		}
		g.rise()
	}
	return ready
}

// trouble logs what keeps the spools from being drained, now and then.
func (g *Guard) trouble(message string, args ...any) {
	if suppressed, ok := g.noted.Allow(time.Now()); ok {
		g.o.Logger.Warn(message, append(args, "suppressed", suppressed)...)
	}
}
