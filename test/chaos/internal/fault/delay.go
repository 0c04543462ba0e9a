package fault

import (
	"context"
	"fmt"
	"slices"
	"time"

	"queen.internal/compose/local"
	"queen.internal/test/chaos/internal/pipe"
)

// delay makes PostgreSQL far away.
var delay = Fault{
	Name: "delay", Code: "F7",
	About: "service to PostgreSQL: 50 to 2000 ms more for each round trip, or 64 KB/s; 30 to 120 s",
	Draw: func(d *Draw) Dose {
		victims := names(pick(d, ingests, delivers, slices.Concat(ingests, delivers, others[:2])))
		pipes := toDatabase(d, victims)
		state := pipe.State{Delay: time.Duration(pick(d, 50, 100, 300, 800, 2000)) * time.Millisecond}
		what := fmt.Sprintf("%v more for a round trip", state.Delay)
		if d.IntN(4) == 0 {
			state, what = pipe.State{Rate: 64 << 10}, "64 KB/s"
		}
		return Dose{
			What: what + ": " + list(victims) + " and PostgreSQL", On: append(edges(victims), edges([]string{local.Postgres})...),
			For: d.between(2*time.Second, 2*time.Minute), Busy: waiting(pipes),
			Strike: func(context.Context) (bool, error) {
				for _, p := range pipes {
					p.Set(state)
				}
				return true, nil
			},
			Heal: func(context.Context) error {
				for _, p := range pipes {
					p.Heal()
				}
				return nil
			},
		}
	},
}
