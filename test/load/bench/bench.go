package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/url"
	"os"
	"path/filepath"
	"time"

	"github.com/google/uuid"

	"queen.internal/compose/local"
	"queen.internal/test/load/internal/ledger"
	"queen.internal/test/load/internal/machine"
	"queen.internal/test/load/internal/payload"
	"queen.internal/test/load/internal/traffic"
	"queen.internal/test/load/internal/turn"
	"queen.internal/test/load/internal/yardstick"
)

// partitions is how many a queue has unless a row says otherwise.
const partitions = 256

// bench is one row being measured on a stack of its own.
type bench struct {
	options
	row       string
	stack     *local.Stack
	yardstick *yardstick.Yardstick
	payloads  *payload.Pool
	tenant    string
	progress  io.Writer
	queues    int
	pprof     map[string]string // addresses by service
	profiled  map[string]bool   // names of turns
}

// stopLimit is what a stack gets to end.
const stopLimit = 30 * time.Second

// measure runs one row on a new stack.
func measure(ctx context.Context, o options, r row, binaries string, progress io.Writer) (results []Result, err error) {
	folder, err := os.MkdirTemp("", "queen-bench-")
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(folder)) }()
	if err := os.Chmod(folder, 0o755); err != nil { // the database's account must be able to enter
		return nil, err
	}
	b := &bench{options: o, row: r.name, progress: progress, tenant: uuid.NewString(), profiled: map[string]bool{}}
	if b.payloads, err = payload.New(4096, o.payload, o.random, 1); err != nil {
		return nil, err
	}
	settings, err := b.stackOptions(r, folder, binaries)
	if err != nil {
		return nil, err
	}
	if b.stack, err = local.Start(ctx, settings); err != nil {
		return nil, err
	}
	defer func() {
		stopping, cancel := context.WithTimeout(context.WithoutCancel(ctx), stopLimit)
		defer cancel()
		err = errors.Join(err, b.saveLogs(), b.stack.Stop(stopping))
	}()
	if b.yardstick, err = yardstick.Open(ctx, b.stack.DSN(), b.payloads, partitions); err != nil {
		return nil, err
	}
	if b.profiles != "" {
		if err := os.MkdirAll(b.profiles, 0o755); err != nil {
			return nil, err
		}
		if counted, err := b.countStatements(ctx, true); err != nil || !counted {
			return nil, errors.Join(errors.New("profiles: pg_stat_statements is not to be had"), err)
		}
	}
	if results, err = r.run(ctx, b); err != nil {
		return nil, err
	}
	for i := range results {
		results[i].Row = r.name
	}
	return results, nil
}

// stackOptions is a stack as an operator of several tenants would run it.
func (b *bench) stackOptions(r row, folder, binaries string) (local.Options, error) {
	s := r.stack
	s.Dir, s.Binaries, s.Throwaway = folder, binaries, true
	s.Env = append([]string{"QUEEN_TENANCY_HEADER=true", "QUEEN_KV_TRUSTED_PROXY=true"}, s.Env...)
	if b.profiles != "" {
		return s, b.profilePorts(&s)
	}
	return s, nil
}

// saveLogs keeps what the processes printed, if that was asked for.
func (b *bench) saveLogs() error {
	if b.keepLogs == "" {
		return nil
	}
	if err := os.MkdirAll(b.keepLogs, 0o755); err != nil {
		return err
	}
	var errs []error
	for _, service := range append(local.Names(), local.Postgres) {
		errs = append(errs, os.WriteFile(filepath.Join(b.keepLogs, b.row+"-"+service+".log"), []byte(b.stack.Logs(service)), 0o644))
	}
	return errors.Join(errs...)
}

func (b *bench) say(format string, args ...any) {
	fmt.Fprintf(b.progress, "%s %s: %s\n", time.Now().Format(time.TimeOnly), b.row, fmt.Sprintf(format, args...))
}

// processes are all of the stack that run.
func (b *bench) processes() ([]machine.Process, error) {
	state, err := local.ReadState(b.stack.Dir())
	if err != nil {
		return nil, err
	}
	all := []machine.Process{{Name: local.Postgres, PID: state.Postgres.PID, Tree: true}}
	for _, p := range state.Processes {
		select {
		case <-b.stack.Done(p.Service, p.Copy):
			continue // it was stopped, as the second copies are now and then
		default:
		}
		name := p.Service
		if p.Copy > 1 {
			name = fmt.Sprintf("%s.%d", p.Service, p.Copy)
		}
		all = append(all, machine.Process{Name: name, PID: p.PID})
	}
	return all, nil
}

// addresses of the copies of a service.
func addresses(urls []string) (hosts []string) {
	for _, u := range urls {
		if parsed, err := url.Parse(u); err == nil {
			hosts = append(hosts, parsed.Host)
		}
	}
	return hosts
}

// straight is a fresh queue, at the roles themselves.
func (b *bench) straight() traffic.Target {
	b.queues++
	return traffic.Target{
		Ingest: addresses(b.stack.URLs(local.Ingest)), Deliver: addresses(b.stack.URLs(local.Deliver)),
		Tenant: b.tenant, Queue: fmt.Sprintf("bench.%s.%d", b.row, b.queues),
	}
}

func (b *bench) ledger(producers, partitions, groups int) (*ledger.Ledger, error) {
	return ledger.New(producers, partitions, groups, b.payloads)
}

// work is what is measured.
type work func(context.Context, *turn.Meter) error

// turnOf measures one turn of the usual length.
func (b *bench) turnOf(ctx context.Context, name string, do work) (turn.Figures, error) {
	return b.turnFor(ctx, name, b.warmup, b.duration, do)
}

func (b *bench) turnFor(ctx context.Context, name string, warmup, duration time.Duration, do work) (turn.Figures, error) {
	processes, err := b.processes()
	if err != nil {
		return turn.Figures{}, err
	}
	f, err := turn.Run(ctx, turn.Plan{Warmup: warmup, Duration: duration, Processes: processes}, b.profile(name, warmup, duration, do))
	if err != nil {
		return f, fmt.Errorf("%s: %w", name, err)
	}
	b.say("%s: %s", name, f)
	if f.Failed > 0 {
		return f, fmt.Errorf("%s: %d calls failed, the first: %s", name, f.Failed, f.Problem)
	}
	return f, nil
}

// once runs work to its end, outside of any measurement.
func once(ctx context.Context, do work) error {
	m := turn.NewMeter()
	if err := do(ctx, m); err != nil {
		return err
	}
	return m.Problem()
}

// alternate measures pairs of turns, with a probe of the disk before each.
func (b *bench) alternate(ctx context.Context, subject, yardstick func(context.Context) (turn.Figures, error)) ([]Taken, error) {
	var all []Taken
	for pair := range b.pairs {
		sync, err := machine.Sync(b.stack.Dir())
		if err != nil {
			return nil, err
		}
		b.say("pair %d of %d, fsync %.2f ms", pair+1, b.pairs, sync.Seconds()*1000)
		t := Taken{SyncMillis: sync.Seconds() * 1000}
		if t.Subject, err = subject(ctx); err != nil {
			return nil, err
		}
		if t.Yardstick, err = yardstick(ctx); err != nil {
			return nil, err
		}
		all = append(all, t)
	}
	return all, nil
}

// clean fails when a group did not get what was sent, or got it wrong.
func clean(l *ledger.Ledger, drained bool) error {
	for group, j := range l.Judge(drained) {
		if j.Faults() > 0 {
			return fmt.Errorf("group %d: %+v", group, j)
		}
	}
	return nil
}

// yard is a turn of a yardstick.
func (b *bench) yard(name string, do work) func(context.Context) (turn.Figures, error) {
	b.profiled[name] = true // nobody wonders where its time goes
	return func(ctx context.Context) (turn.Figures, error) { return b.turnOf(ctx, name, do) }
}
