package fault

import (
	"context"
	"slices"
	"time"

	"queen.internal/compose/local"
	"queen.internal/test/chaos/internal/pipe"
)

// cut does to connections between services and PostgreSQL what networks do.
var cut = Fault{
	Name: "cut", Code: "F5",
	About: "service to PostgreSQL: reset, closed, silent, questions or answers lost, cut in the place of an answer; 0.1 to 60 s",
	Draw: func(d *Draw) Dose {
		victims := names(pick(d, ingests, delivers, ingests[:1], ingests[1:], delivers[:1], delivers[1:], slices.Concat(ingests, delivers, others[:2])))
		pipes := toDatabase(d, victims)
		how := pick(d, ways...)
		dose := Dose{
			What: how.name + ": " + list(victims) + " and PostgreSQL", On: append(edges(victims), edges([]string{local.Postgres})...),
			For: d.between(100*time.Millisecond, time.Minute), Busy: waiting(pipes),
		}
		keep := d.IntN(2) == 0 // what is healed goes on, or is cut
		before := int64(0)
		dose.Strike = func(ctx context.Context) (bool, error) {
			for _, p := range pipes {
				before += p.Snipped()
				p.Set(how.state)
				if how.cut {
					p.Cut(how.reset)
				}
			}
			if !how.state.Snip {
				return true, nil
			}
			return awaitSnips(ctx, pipes, before), nil
		}
		dose.Heal = func(context.Context) error {
			for _, p := range pipes {
				if !keep {
					p.Cut(true)
				}
				p.Heal()
			}
			return nil
		}
		return dose
	},
}

// way is one of the things that happen to connections.
type way struct {
	name       string
	state      pipe.State
	cut, reset bool // what is connected already ends
}

var ways = []way{
	{"reset", pipe.State{Refuse: true}, true, true},
	{"closed", pipe.State{Refuse: true}, true, false},
	{"silent", pipe.State{Up: pipe.Hold, Down: pipe.Hold}, false, false},
	{"answers held back", pipe.State{Down: pipe.Hold}, false, false},
	{"answers lost", pipe.State{Down: pipe.Lose}, false, false},
	{"questions lost", pipe.State{Up: pipe.Lose}, false, false},
	{"cut in the place of an answer", pipe.State{Snip: true}, false, false},
	{"cut in the place of an answer", pipe.State{Snip: true}, false, false}, // the worst there is comes twice as often
}

// toDatabase are the pipes of processes to PostgreSQL.
func toDatabase(d *Draw, processes []string) (all []*pipe.Pipe) {
	for _, name := range processes {
		all = append(all, d.Stand.Pipes(name, local.Postgres)...)
	}
	return all
}

func waiting(pipes []*pipe.Pipe) func() bool {
	return func() bool {
		return slices.ContainsFunc(pipes, func(p *pipe.Pipe) bool { return p.Waiting() > 0 })
	}
}

// awaitSnips returns when an answer has been cut out, or none came for a while.
func awaitSnips(ctx context.Context, pipes []*pipe.Pipe, before int64) bool {
	for begun := time.Now(); time.Since(begun) < patience && ctx.Err() == nil; wait(ctx, time.Millisecond) {
		now := int64(0)
		for _, p := range pipes {
			now += p.Snipped()
		}
		if now > before {
			return true
		}
	}
	return false
}

// edges are what doses on connections of these processes take: one dose at a time sets a pipe.
func edges(processes []string) (all []string) {
	for _, name := range processes {
		all = append(all, "connections of "+name)
	}
	return all
}
