package main

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"net/url"
	"strings"

	"queen.internal/compose/local"
	"queen.internal/test/load/internal/ledger"
	"queen.internal/test/load/internal/machine"
	"queen.internal/test/load/internal/payload"
	"queen.internal/test/load/internal/traffic"
	"queen.internal/test/load/internal/turn"
	"queen.internal/test/load/internal/verdict"
	"queen.internal/test/load/internal/yardstick"
)

// yards are the yardsticks by name.
var yards = map[string]func(*yardstick.Yardstick) func(context.Context, *turn.Meter) error{
	"segment-insert": func(y *yardstick.Yardstick) func(context.Context, *turn.Meter) error { return y.InsertSegments },
	"segment-select": func(y *yardstick.Yardstick) func(context.Context, *turn.Meter) error { return y.SelectSegments },
	"row-insert": func(y *yardstick.Yardstick) func(context.Context, *turn.Meter) error {
		return y.InsertRows(yardstick.RowClients)
	},
	"row-latency": func(y *yardstick.Yardstick) func(context.Context, *turn.Meter) error { return y.InsertRows(1) },
}

// selectFill is what segment-select reads, in messages.
const selectFill = 400_000

// load is one run of the program.
type load struct {
	options
	target    traffic.Target
	processes []machine.Process
	payloads  *payload.Pool
	ledger    *ledger.Ledger
	groups    []string
	progress  io.Writer
}

func run(ctx context.Context, args []string, out, progress io.Writer) error {
	o, err := parse(args, progress)
	if errors.Is(err, errHelp) {
		return nil
	}
	if err != nil {
		return err
	}
	l := &load{options: o, progress: progress}
	if err := l.prepare(); err != nil {
		return err
	}
	report, err := l.measure(ctx)
	if err != nil {
		return err
	}
	if err := report.write(out, o.json); err != nil {
		return err
	}
	return report.verdict()
}

// prepare finds out where the load goes to.
func (l *load) prepare() error {
	if l.queue == "" {
		l.queue = "load." + strings.ToLower(rand.Text()[:10])
	}
	l.target = traffic.Target{Ingest: fields(l.ingest), Deliver: fields(l.deliver), Tenant: l.tenant, Queue: l.queue}
	state, err := local.ReadState(l.stackDir)
	if err != nil {
		if len(l.target.Ingest) == 0 || len(l.target.Deliver) == 0 || len(l.yardsticks) > 0 && l.dsn == "" {
			return fmt.Errorf("%w (start a stack with make up, or give -ingest, -deliver and for yardsticks -dsn)", err)
		}
	} else if err := l.useStack(state); err != nil {
		return err
	}
	if l.payloads, err = payload.New(4096, l.payload, l.random, 1); err != nil {
		return err
	}
	l.ledger, err = ledger.New(max(l.producers, 1), l.partitions, max(l.options.groups, 1), l.payloads)
	if err != nil {
		return err
	}
	l.groups = traffic.Groups(l.ledger, l.options.groups > 0)
	return nil
}

func fields(list string) []string {
	return strings.FieldsFunc(list, func(r rune) bool { return r == ',' || r == ' ' })
}

// useStack takes what the command line does not say from a stack.
func (l *load) useStack(state local.State) error {
	l.processes = append(l.processes, machine.Process{Name: local.Postgres, PID: state.Postgres.PID, Tree: true})
	var ingest, deliver []string
	for _, p := range state.Processes {
		name := p.Service
		if p.Copy > 1 {
			name = fmt.Sprintf("%s.%d", p.Service, p.Copy)
		}
		l.processes = append(l.processes, machine.Process{Name: name, PID: p.PID})
		address, err := url.Parse(p.URL)
		if err != nil {
			return fmt.Errorf("read the address of %s: %w", name, err)
		}
		if p.Service == local.Ingest && !l.edge || p.Service == local.Edge && l.edge {
			ingest = append(ingest, address.Host)
		}
		if p.Service == local.Deliver && !l.edge || p.Service == local.Edge && l.edge {
			deliver = append(deliver, address.Host)
		}
	}
	if len(l.target.Ingest) == 0 {
		l.target.Ingest = ingest
	}
	if len(l.target.Deliver) == 0 {
		l.target.Deliver = deliver
	}
	if l.dsn == "" {
		l.dsn = state.Postgres.DSN
	}
	return nil
}

// measure runs the backlog, the turns and the end of the queue.
func (l *load) measure(ctx context.Context) (*report, error) {
	r := &report{Queue: l.queue, Yardsticks: map[string][]turn.Figures{}}
	if l.backlog > 0 {
		p := l.newProducers()
		p.Limit, p.Rate = l.backlog, 0
		if err := l.apart(ctx, p.Produce); err != nil {
			return nil, fmt.Errorf("push the backlog: %w", err)
		}
	}
	var y *yardstick.Yardstick
	if len(l.yardsticks) > 0 {
		var err error
		if y, err = yardstick.Open(ctx, l.dsn, l.payloads, l.partitions); err != nil {
			return nil, err
		}
		if err := y.Fill(ctx, selectFill); err != nil {
			return nil, err
		}
	}
	turns := 1
	if y != nil {
		turns = l.pairs
	}
	for range turns {
		if err := l.pair(ctx, y, r); err != nil {
			return nil, err
		}
	}
	if y != nil {
		if err := y.Close(ctx); err != nil {
			return nil, err
		}
	}
	drained, err := l.readToTheEnd(ctx)
	if err != nil {
		return nil, err
	}
	r.Sent, r.Doubtful = l.ledger.Sent()
	if l.consumers > 0 {
		r.Groups = l.ledger.Judge(drained)
	}
	return r, nil
}

// pair is one turn of the load and one of each yardstick.
func (l *load) pair(ctx context.Context, y *yardstick.Yardstick, r *report) error {
	sync, err := machine.Sync(".")
	if err != nil {
		return err
	}
	r.SyncMillis = append(r.SyncMillis, sync.Seconds()*1000)
	f, err := turn.Run(ctx, l.plan(), l.both)
	if err != nil {
		return err
	}
	r.Turns = append(r.Turns, f)
	for _, name := range l.yardsticks {
		f, err := turn.Run(ctx, l.plan(), yards[name](y))
		if err != nil {
			return err
		}
		r.Yardsticks[name] = append(r.Yardsticks[name], f)
	}
	return nil
}

func (l *load) plan() turn.Plan {
	p := turn.Plan{Warmup: l.warmup, Duration: l.duration, Processes: l.processes}
	if !l.quiet {
		p.Progress = func(t turn.Tick) { fmt.Fprintln(l.progress, t) }
	}
	return p
}

func (l *load) newProducers() traffic.Producers {
	return traffic.Producers{Target: l.target, Ledger: l.ledger, Count: l.producers, Batch: l.batch, Rate: l.rate, Spread: l.spread}
}

func (l *load) newConsumers() traffic.Consumers {
	return traffic.Consumers{
		Target: l.target, Ledger: l.ledger, Groups: l.groups, Count: l.consumers, Batch: l.popBatch, Partitions: l.popPartitions,
		AutoAck: l.autoAck, Timeout: l.pollTimeout,
	}
}

// both is the load: who pushes and who pops.
func (l *load) both(ctx context.Context, m *turn.Meter) error {
	pushing := make(chan error, 1)
	go func() {
		if l.producers == 0 {
			<-ctx.Done()
			pushing <- nil
			return
		}
		pushing <- l.newProducers().Produce(ctx, m)
	}()
	var err error
	if l.consumers > 0 {
		err = l.newConsumers().Consume(ctx, m)
	}
	return errors.Join(err, <-pushing)
}

// apart runs work outside of any window.
func (l *load) apart(ctx context.Context, work func(context.Context, *turn.Meter) error) error {
	m := turn.NewMeter()
	return errors.Join(work(ctx, m), m.Problem())
}

// readToTheEnd lets the groups read what is left. It is false when nobody reads, or not everything came in time.
func (l *load) readToTheEnd(ctx context.Context) (bool, error) {
	if l.consumers == 0 || l.drain == 0 {
		return false, nil
	}
	left := int64(0)
	for _, j := range l.ledger.Judge(false) {
		left += int64(j.Left)
	}
	if left == 0 {
		return true, nil
	}
	if !l.quiet {
		fmt.Fprintf(l.progress, "reading the %d messages that are left\n", left)
	}
	limited, cancel := context.WithTimeout(ctx, l.drain)
	defer cancel()
	c := l.newConsumers()
	c.Limit = left
	if err := l.apart(limited, c.Consume); err != nil {
		return false, fmt.Errorf("read to the end: %w", err)
	}
	return true, ctx.Err()
}

// ratios of the load to a yardstick.
func ratios(turns, yard []turn.Figures, figure, other func(turn.Figures) float64) float64 {
	var pairs []verdict.Pair
	for i := range min(len(turns), len(yard)) {
		pairs = append(pairs, verdict.Pair{Subject: figure(turns[i]), Yardstick: other(yard[i])})
	}
	return verdict.MedianRatio(pairs)
}
