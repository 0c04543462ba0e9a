// Package lanes divides the connections of the process, so that searches never take those of claims and acks, nor
// transactions, which wait for partitions that others write, and a probe is answered when all others are busy. It starts
// no goroutine; a pool connects when it is first used.
package lanes

import (
	"context"
	"log/slog"

	"queen.internal/pkg/logging"
	"queen.internal/pkg/pg"
)

// Min is how many connections there are at least: one a lane.
const Min = 4

// Sizes are the connections of each lane.
type Sizes struct{ Claims, Reads, Transactions, Probes int }

// Divide divides n connections, or Min.
func Divide(n int) Sizes {
	n = max(n, Min)
	s := Sizes{Transactions: n / 4, Probes: 1}
	s.Reads = max((n-s.Probes-s.Transactions)*2/5, 1)
	s.Claims = n - s.Probes - s.Transactions - s.Reads
	return s
}

// Lanes are the pools of the process. Make them with Open.
type Lanes struct{ Claims, Reads, Transactions, Probes *pg.Pool }

// Open makes the pools, which share a lineage; service begins the names of their sessions. The caller closes them.
func Open(ctx context.Context, database pg.Config, service string, logger *slog.Logger, sizes Sizes, lineage *pg.Lineage) (*Lanes, error) {
	l := &Lanes{}
	for _, lane := range []struct {
		name string
		size int
		pool **pg.Pool
	}{
		{"claims", sizes.Claims, &l.Claims},
		{"reads", sizes.Reads, &l.Reads},
		{"transactions", sizes.Transactions, &l.Transactions},
		{"probes", sizes.Probes, &l.Probes},
	} {
		var err error
		*lane.pool, err = pg.Open(ctx, database, pg.Options{
			Name: "queen-" + service + "/" + lane.name, Logger: logging.For(logger, "postgres"), Size: lane.size, Lineage: lineage,
		})
		if err != nil {
			l.Close()
			return nil, err
		}
	}
	return l, nil
}

// ByName are the pools by the names of their lanes.
func (l *Lanes) ByName() map[string]*pg.Pool {
	return map[string]*pg.Pool{"claims": l.Claims, "reads": l.Reads, "transactions": l.Transactions, "probes": l.Probes}
}

// Close closes the pools that were opened.
func (l *Lanes) Close() {
	for _, pool := range l.ByName() {
		if pool != nil {
			pool.Close()
		}
	}
}
