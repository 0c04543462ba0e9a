// Package lanes is ingest's connections to PostgreSQL: those of pushes, and one for probes, which has to be free when the
// others are not.
package lanes

import (
	"context"
	"log/slog"

	"queen.internal/pkg/pg"
)

// Lanes are the pools.
type Lanes struct{ Push, Probe *pg.Pool }

// Open opens them, lazily. pushes is how many connections pushes get; lineage is what they find out about their server.
func Open(ctx context.Context, cfg pg.Config, pushes int, logger *slog.Logger, lineage *pg.Lineage) (*Lanes, error) {
	push, err := pg.Open(ctx, cfg, pg.Options{Name: "queen-ingest", Logger: logger, Size: pushes, Lineage: lineage})
	if err != nil {
		return nil, err
	}
	probe, err := pg.Open(ctx, cfg, pg.Options{Name: "queen-ingest-probe", Size: 1, Lineage: lineage})
	if err != nil {
		push.Close()
		return nil, err
	}
	return &Lanes{Push: push, Probe: probe}, nil
}

// Ping asks the database. Its error has a kind.
func (l *Lanes) Ping(ctx context.Context) error { return pg.Ping(ctx, l.Probe) }

// Back asks a database that did not answer, over a connection of pushes if one is free to be made: the first that is there is
// then the one that is needed first. Its error has a kind.
func (l *Lanes) Back(ctx context.Context) error {
	if s := l.Push.Stat(); s.AcquiredConns()+s.ConstructingConns() >= s.MaxConns() {
		return l.Ping(ctx) // those hang, for as long as an append may
	}
	return pg.Ping(ctx, l.Push)
}

// Fallen drops the connections of pushes, because the database does not answer: those that lead nowhere would each be found
// out by a borrower that waits for it.
func (l *Lanes) Fallen() { l.Push.Reset() }

// Close waits for borrowed connections, but no longer than ctx: then its process ends anyway.
func (l *Lanes) Close(ctx context.Context) error {
	closed := make(chan struct{})
	go func() {
		defer close(closed)
		l.Push.Close()
		l.Probe.Close()
	}()
	select {
	case <-closed:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
