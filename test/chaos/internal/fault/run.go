package fault

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"time"

	"queen.internal/test/chaos/internal/journal"
	"queen.internal/test/chaos/internal/stand"
)

const (
	// patience is how long a dose waits for work that it can meet.
	patience = 10 * time.Second
	// healLimit is a safety net for what heals a fault, such as the recovery of a database.
	healLimit = 2 * time.Minute
)

// Tally is what became of a fault in a run.
type Tally struct {
	Doses, Met int
	Total      time.Duration
}

// Runner draws doses and has them happen.
type Runner struct {
	Stand   *stand.Stand
	Journal *journal.Journal
	Faults  []Fault
	Seed    uint64
	// Longest bounds a dose, Pause what is between two.
	Longest, Pause time.Duration

	mu    sync.Mutex
	tally map[string]*Tally
	errs  []error
}

// round is what happens at a time, after a pause.
type round struct {
	pause  time.Duration
	faults []Fault
	doses  []Dose
}

// plan draws everything that may happen in span, and each fault once at least before any comes again. In the last third two
// doses come at once. It depends on the seed alone.
func (r *Runner) plan(span time.Duration) (rounds []round) {
	lot := rand.New(rand.NewPCG(r.Seed, 0xFA17))
	var bag []Fault
	bags, planned := 0, time.Duration(0)
	for len(r.Faults) > 0 && (planned < span || bags == 1 && len(bag) > 0) {
		next := round{pause: r.Pause/2 + time.Duration(lot.Int64N(int64(r.Pause)))}
		together := 1
		if planned > span*2/3 {
			together = 2
		}
		longest, taken := time.Duration(0), []string(nil)
		for range together {
			if len(bag) == 0 {
				bag, bags = slices.Clone(r.Faults), bags+1
				lot.Shuffle(len(bag), func(i, j int) { bag[i], bag[j] = bag[j], bag[i] })
			}
			dose := bag[0].Draw(&Draw{Rand: lot, Stand: r.Stand, Longest: r.Longest})
			if slices.ContainsFunc(dose.On, func(on string) bool { return slices.Contains(taken, on) }) {
				continue // it comes alone next time
			}
			next.faults, next.doses = append(next.faults, bag[0]), append(next.doses, dose)
			bag, taken, longest = bag[1:], append(taken, dose.On...), max(longest, dose.For)
		}
		planned += next.pause + longest
		rounds = append(rounds, next)
	}
	return rounds
}

// Run has what was drawn happen until span has passed, each fault once in any case.
func (r *Runner) Run(ctx context.Context, span time.Duration) (map[string]*Tally, error) {
	r.tally = make(map[string]*Tally)
	for _, f := range r.Faults {
		r.tally[f.Name] = new(Tally)
	}
	begun, happened := time.Now(), 0
	for _, next := range r.plan(span) {
		if ctx.Err() != nil || time.Since(begun) > span && happened >= len(r.Faults) {
			break
		}
		wait(ctx, next.pause)
		var doses sync.WaitGroup
		for i, f := range next.faults {
			doses.Go(func() { r.dose(ctx, f, next.doses[i]) })
		}
		doses.Wait()
		happened += len(next.doses)
	}
	return r.tally, errors.Join(r.errs...)
}

// dose has one happen and heals it.
func (r *Runner) dose(ctx context.Context, f Fault, d Dose) {
	busy := d.Busy == nil
	for waited := time.Now(); !busy && time.Since(waited) < patience && ctx.Err() == nil; {
		if busy = d.Busy(); !busy {
			wait(ctx, time.Millisecond)
		}
	}
	r.Journal.Write(journal.Line{Event: "fault", Kind: f.Name, Text: "strike: " + d.What, Data: map[string]any{"busy": busy, "for": d.For.String()}})
	struck := time.Now()
	met, err := d.Strike(ctx)
	if err == nil {
		wait(ctx, d.For)
	}
	heal, cancel := context.WithTimeout(context.WithoutCancel(ctx), healLimit)
	defer cancel()
	err = errors.Join(err, d.Heal(heal))
	r.Journal.Write(journal.Line{Event: "fault", Kind: f.Name, Text: "healed: " + d.What, Data: map[string]any{"met": met && busy}})
	r.mu.Lock()
	defer r.mu.Unlock()
	t := r.tally[f.Name]
	t.Doses++
	t.Total += time.Since(struck)
	if met && busy {
		t.Met++
	}
	if err != nil {
		r.errs = append(r.errs, fmt.Errorf("%s: %w", d.What, err))
	}
}

func wait(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
}

// list is for texts.
func list(names []string) string { return strings.Join(names, ", ") }
