package fault

import (
	"context"
	"errors"
	"slices"
	"time"

	"queen.internal/test/chaos/internal/stand"
)

// kill ends services with SIGKILL, one, some or all at once, and starts them again.
var kill = Fault{
	Name: "kill", Code: "F1",
	About: "kill -9 of one service, of all copies of one, or of all; started again after 0 to 5 s",
	Draw: func(d *Draw) Dose {
		victims := drawVictims(d)
		s := d.Stand
		return Dose{
			What: "kill -9 " + list(names(victims)), On: names(victims), For: d.between(0, 5*time.Second), Busy: asked(s, names(victims)),
			Strike: func(context.Context) (bool, error) {
				var errs []error
				for _, p := range victims {
					errs = append(errs, s.Kill(p))
				}
				return true, errors.Join(errs...)
			},
			Heal: func(context.Context) error {
				var errs []error
				for _, p := range victims {
					errs = append(errs, s.Launch(p))
				}
				return errors.Join(errs...)
			},
		}
	},
}

// drawVictims is mostly one ingest or deliver, which matter most.
func drawVictims(d *Draw) []stand.Process {
	switch lot := d.IntN(100); {
	case lot < 35:
		return []stand.Process{pick(d, ingests...)}
	case lot < 70:
		return []stand.Process{pick(d, delivers...)}
	case lot < 80:
		return []stand.Process{pick(d, others...)}
	case lot < 86:
		return ingests
	case lot < 92:
		return delivers
	default:
		return slices.Concat(ingests, delivers, others)
	}
}
