package fault

import (
	"context"
	"fmt"
	"time"

	"queen.internal/compose/local"
	"queen.internal/test/chaos/internal/pipe"
	"queen.internal/test/chaos/internal/stand"
)

// fsync has disks that fail or are slow: those of the spools while they are needed, or PostgreSQL's.
var fsync = Fault{
	Name: "fsync", Code: "F9",
	About: "both ingests lose PostgreSQL, and each fsync of theirs fails or comes 300 ms late; or each of PostgreSQL's comes late",
	Needs: Needs{Trace: true},
	Draw: func(d *Draw) Dose {
		s, span, spooling := d.Stand, d.between(time.Second, 10*time.Second), d.between(100*time.Millisecond, time.Second)
		late := fmt.Sprintf("delay_enter=%d", (300 * time.Millisecond).Microseconds())
		taken := append(edges(append(names(ingests), local.Postgres)), append(names(ingests), local.Postgres)...)
		f := &fsyncs{stand: s}
		if d.IntN(3) == 0 {
			return Dose{
				What: "fsyncs of PostgreSQL come late", On: taken, For: span, Busy: querying(s),
				Strike: func(ctx context.Context) (bool, error) {
					pids, err := s.DatabasePIDs()
					if err != nil {
						return false, err
					}
					return f.begin(ctx, pids, late)
				},
				Heal: f.end,
			}
		}
		injection := pick(d, "error=EIO", "error=EIO", late)
		f.away = toDatabase(d, names(ingests))
		return Dose{
			What: "no PostgreSQL for ingest, and its fsyncs with " + injection, On: taken, For: span, Busy: asked(s, names(ingests)),
			Strike: func(ctx context.Context) (bool, error) {
				outage(f.away, true)
				wait(ctx, spooling)
				return f.begin(ctx, s.PIDs(ingests...), injection)
			},
			Heal: f.end,
		}
	},
}

// fsyncs is what happens to some. It belongs to one dose.
type fsyncs struct {
	stand  *stand.Stand
	away   []*pipe.Pipe // ways to a PostgreSQL that is away meanwhile
	tracer *stand.Tracer
}

func (f *fsyncs) begin(ctx context.Context, pids []int, injection string) (met bool, err error) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	f.tracer, met, err = f.stand.TraceFsync(ctx, pids, injection)
	return met, err
}

func (f *fsyncs) end(context.Context) error {
	outage(f.away, false)
	if f.tracer == nil {
		return nil
	}
	return f.tracer.Stop()
}
