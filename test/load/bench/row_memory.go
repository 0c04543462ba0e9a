package main

import (
	"context"
	"fmt"
	"strings"
	"time"

	"queen.internal/compose/local"
	"queen.internal/test/load/internal/machine"
	"queen.internal/test/load/internal/traffic"
	"queen.internal/test/load/internal/turn"
	"queen.internal/test/load/internal/verdict"
)

const megabyte = 1 << 20

// settle is how long a stack rests before its idle memory is read.
const settle = 10 * time.Second

func memory(ctx context.Context, b *bench) ([]Result, error) {
	if !sleep(ctx, settle) {
		return nil, context.Cause(ctx)
	}
	processes, err := b.processes()
	if err != nil {
		return nil, err
	}
	idle := map[string]float64{}
	for _, p := range processes {
		resident, err := machine.Resident(p.PID)
		if err != nil {
			return nil, err
		}
		idle[p.Name] = float64(resident) / megabyte
	}
	loaded, err := b.loadedMemory(ctx)
	if err != nil {
		return nil, err
	}
	return []Result{largest("memory, idle, the largest service", 40, idle), largest("memory, loaded, the largest service", 250, loaded)}, nil
}

// loadedMemory is the peak of each process under large and small batches at once, the former through the edge.
func (b *bench) loadedMemory(ctx context.Context) (map[string]float64, error) {
	var all []work
	for _, c := range []struct {
		target             traffic.Target
		connections, batch int
	}{{b.edge(b.straight()), 16, 100}, {b.straight(), 64, 1}} {
		l, err := b.ledger(c.connections, partitions, 1)
		if err != nil {
			return nil, err
		}
		q := &backlog{target: c.target, ledger: l}
		producers := traffic.Producers{Target: c.target, Ledger: l, Count: c.connections, Batch: c.batch}
		all = append(all, producers.Produce, q.consumers(0, c.connections, c.batch).Consume)
	}
	peaks := map[string]float64{}
	for range b.pairs {
		f, err := b.turnOf(ctx, "batches of 100 through the edge and of 1 beside them", together(all...))
		if err != nil {
			return nil, err
		}
		for _, u := range f.Usage {
			peaks[u.Name] = max(peaks[u.Name], float64(u.Peak)/megabyte)
		}
	}
	return peaks, nil
}

// largest is the line of the service that needs most.
func largest(what string, bar float64, megabytes map[string]float64) Result {
	worst, notes := 0.0, []string{}
	for _, service := range local.Names() {
		worst = max(worst, megabytes[service])
		notes = append(notes, fmt.Sprintf("%s %.0f", service, megabytes[service]))
	}
	r := absolute(what, "MB", verdict.Bar{Limit: bar, Direction: verdict.AtMost}, worst)
	r.Note = strings.Join(notes, ", ")
	return r
}

// sleep is false when the context ended first.
func sleep(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}

// watch measures what the stack does while nobody asks it for anything.
func (b *bench) watch(ctx context.Context, name string, d time.Duration) (turn.Figures, error) {
	return b.turnFor(ctx, name, 0, d, func(ctx context.Context, m *turn.Meter) error {
		m.Add(turn.Calls, 1) // there will be none
		<-ctx.Done()
		return nil
	})
}
