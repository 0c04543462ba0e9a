package fault

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"queen.internal/compose/local"
	"queen.internal/test/chaos/internal/stand"
)

// Fault is one kind.
type Fault struct {
	Name, Code string // Code is its number in the plan of the campaign
	About      string
	Needs      Needs
	Draw       func(d *Draw) Dose
}

// Needs is what a stand must have for it.
type Needs struct{ Clock, Disk, Trace bool }

// Draw is the lot for one dose.
type Draw struct {
	*rand.Rand
	Stand *stand.Stand
	// Longest bounds how long a dose lasts.
	Longest time.Duration
}

// Dose is one fault that is going to happen.
type Dose struct {
	What string        // for people
	On   []string      // what it takes
	For  time.Duration // from the strike to the healing
	// Busy says whether work is under way where it strikes. nil: Strike tells itself.
	Busy func() bool
	// Strike does it and says whether that met anything.
	Strike func(ctx context.Context) (met bool, err error)
	Heal   func(ctx context.Context) error
}

// Faults are all there are. Another one is a file and a line here.
func Faults() []Fault {
	return []Fault{kill, database, pause, cut, delay, lock, disk, fsync, torn, swing, clock}
}

// Names lists them.
func Names() (names []string) {
	for _, f := range Faults() {
		names = append(names, f.Name)
	}
	return names
}

// Find is the faults of these names.
func Find(names []string) (found []Fault, err error) {
	for _, name := range names {
		i := slices.IndexFunc(Faults(), func(f Fault) bool { return f.Name == name || strings.EqualFold(f.Code, name) })
		if i < 0 {
			return nil, fmt.Errorf("there is no fault %q, only %s", name, strings.Join(Names(), ", "))
		}
		found = append(found, Faults()[i])
	}
	return found, nil
}

// between is a time from min to max, or to Longest when that is less.
func (d *Draw) between(min, most time.Duration) time.Duration {
	if most = minimum(most, d.Longest); most <= min {
		return most
	}
	return min + time.Duration(d.Int64N(int64(most-min)))
}

func minimum(a, b time.Duration) time.Duration {
	if a < b {
		return a
	}
	return b
}

func pick[T any](d *Draw, from ...T) T { return from[d.IntN(len(from))] }

// The processes by role.
var (
	ingests  = []stand.Process{{Service: local.Ingest, Number: 1}, {Service: local.Ingest, Number: 2}}
	delivers = []stand.Process{{Service: local.Deliver, Number: 1}, {Service: local.Deliver, Number: 2}}
	others   = []stand.Process{{Service: local.Maintainer, Number: 1}, {Service: local.Console, Number: 1}, {Service: local.Edge, Number: 1}}
)

func names(processes []stand.Process) (all []string) {
	for _, p := range processes {
		all = append(all, p.Name())
	}
	return all
}

// asked says whether any of the processes has a question to answer, or asks one of the database.
func asked(s *stand.Stand, processes []string) func() bool {
	return func() bool {
		for _, name := range processes {
			for _, p := range append(s.Pipes("", name), s.Pipes(name, local.Postgres)...) {
				if p.Waiting() > 0 {
					return true
				}
			}
		}
		return false
	}
}
