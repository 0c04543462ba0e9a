package fault

import (
	"context"
	"errors"
	"slices"
	"syscall"
	"time"

	"queen.internal/compose/local"
	"queen.internal/test/chaos/internal/stand"
)

// pause stops processes with SIGSTOP, for longer than leases and time-outs last, and lets them go on as if nothing had
// been.
var pause = Fault{
	Name: "pause", Code: "F4",
	About: "SIGSTOP of an ingest, a deliver, the maintainer, or all processes of PostgreSQL; 1 to 60 s",
	Draw: func(d *Draw) Dose {
		s, span := d.Stand, d.between(time.Second, time.Minute)
		if d.IntN(4) == 0 {
			var stopped []int
			return Dose{
				What: "stop all processes of PostgreSQL for a while", On: []string{local.Postgres}, For: span, Busy: querying(s),
				Strike: func(context.Context) (bool, error) {
					var err error
					if stopped, err = s.DatabasePIDs(); err != nil {
						return false, err
					}
					return true, s.SignalDatabase(stopped, syscall.SIGSTOP)
				},
				Heal: func(context.Context) error { return s.SignalDatabase(stopped, syscall.SIGCONT) },
			}
		}
		victims := []stand.Process{pick(d, slices.Concat(ingests, delivers, ingests, delivers, others[:1])...)}
		each := func(sig syscall.Signal) error {
			var errs []error
			for _, p := range victims {
				errs = append(errs, s.Signal(p, sig))
			}
			return errors.Join(errs...)
		}
		return Dose{
			What: "stop " + list(names(victims)) + " for a while", On: names(victims), For: span, Busy: asked(s, names(victims)),
			Strike: func(context.Context) (bool, error) { return true, each(syscall.SIGSTOP) },
			Heal:   func(context.Context) error { return each(syscall.SIGCONT) },
		}
	},
}
