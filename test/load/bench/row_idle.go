package main

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"queen.internal/compose/local"
	"queen.internal/test/load/internal/traffic"
	"queen.internal/test/load/internal/turn"
	"queen.internal/test/load/internal/verdict"
)

// idleGroups read the queue of the row idle before it is left alone.
const idleGroups = 4

// idle watches what a stack with many partitions, all of them read, asks of PostgreSQL while nothing happens.
func idle(ctx context.Context, b *bench) ([]Result, error) {
	if counted, err := b.countStatements(ctx, false); err != nil || !counted {
		return nil, errors.Join(errors.New("the extension pg_stat_statements is not to be had"), err)
	}
	t, err := b.bulkFill(ctx, b.backlogPartitions, 1)
	if err != nil {
		return nil, err
	}
	for g := range idleGroups {
		if err := b.readAll(ctx, t, fmt.Sprintf("load-%d", g)); err != nil {
			return nil, err
		}
	}
	if err := b.forget(ctx); err != nil { // cursors were moved behind its back
		return nil, err
	}
	var targets []string
	for g := range idleGroups {
		targets = append(targets, popTarget(t.Queue, fmt.Sprintf("load-%d", g), pollPatience))
	}
	open, err := b.park(ctx, t.Deliver[0], targets)
	defer hangUp(open)
	if err != nil {
		return nil, err
	}
	if !sleep(ctx, settle) {
		return nil, context.Cause(ctx)
	}
	if err := b.forgetStatements(ctx); err != nil {
		return nil, err
	}
	f, err := b.watch(ctx, fmt.Sprintf("%d partitions, idle", b.backlogPartitions), b.idle)
	if err != nil {
		return nil, err
	}
	return b.idleResults(ctx, f)
}

func (b *bench) idleResults(ctx context.Context, f turn.Figures) ([]Result, error) {
	all, err := b.statements(ctx)
	if err != nil {
		return nil, err
	}
	var calls, rows, blocks int64
	var notes []string
	for _, s := range all {
		calls, rows, blocks = calls+s.calls, rows+s.rows, blocks+s.blocks
		if len(notes) < 3 {
			notes = append(notes, fmt.Sprintf("%dx %.60s", s.calls, strings.Join(strings.Fields(s.text), " ")))
		}
		b.say("%5d calls %8.1f ms %8d rows %8d blocks  %.100s", s.calls, s.millis, s.rows, s.blocks, strings.Join(strings.Fields(s.text), " "))
	}
	minutes := f.Seconds / 60
	line := func(what, unit string, n int64) Result {
		return Result{What: what, Unit: unit, Subject: Number(float64(n) / minutes), Figure: Number(float64(n) / minutes)}
	}
	prefix := fmt.Sprintf("an idle minute with %d partitions and %d groups: ", b.backlogPartitions, idleGroups)
	calling := line(prefix+"statements of the services", "statements", calls)
	calling.Note = strings.Join(notes, "; ")
	cpu := Result{What: prefix + "all processes together", Unit: "% of a core", Subject: Number(100 * f.CPU() / f.Seconds), Figure: Number(100 * f.CPU() / f.Seconds)}
	return []Result{calling, line(prefix+"rows answered", "rows", rows), line(prefix+"blocks touched", "blocks", blocks), cpu}, nil
}

// readAll makes a group known and moves it to the end of a bulk filled queue.
func (b *bench) readAll(ctx context.Context, t traffic.Target, group string) error {
	if _, err := b.firstPop(ctx, t, group); err != nil {
		return err
	}
	return b.exec(ctx, `INSERT INTO queen.cursors (subscription_id, partition_id, committed)
		SELECT s.id, p.id, p.last_offset FROM queen.subscriptions s JOIN queen.queues q ON q.id = s.queue_id JOIN queen.partitions p ON p.queue_id = q.id
		WHERE q.name = $1 AND s.group_name = $2
		ON CONFLICT (subscription_id, partition_id) DO UPDATE SET committed = excluded.committed`, t.Queue, group)
}

// rings looks at what deliver keeps in memory when every group has work in every one of very many partitions.
func rings(ctx context.Context, b *bench) ([]Result, error) {
	t, err := b.bulkFill(ctx, b.ringPartitions, 1)
	if err != nil {
		return nil, err
	}
	before, err := b.resident()
	if err != nil {
		return nil, err
	}
	l, err := b.ledger(1, 1, b.ringGroups)
	if err != nil {
		return nil, err
	}
	q := &backlog{target: t, ledger: l}
	var all []work
	for g := range b.ringGroups {
		c := q.consumers(g, 1, 1)
		c.Timeout = 10 * time.Second
		all = append(all, c.Consume)
	}
	f, err := b.turnFor(ctx, fmt.Sprintf("%d groups on %d partitions", b.ringGroups, b.ringPartitions), b.warmup, 10*b.duration, together(all...))
	if err != nil {
		return nil, err
	}
	var peak float64
	for _, u := range f.Usage {
		if u.Name == local.Deliver {
			peak = float64(u.Peak) / megabyte
		}
	}
	r := absolute(fmt.Sprintf("deliver's memory with %d partitions of work for each of %d groups", b.ringPartitions, b.ringGroups), "MB",
		verdict.Bar{Limit: 250, Direction: verdict.AtMost}, peak)
	r.Note = fmt.Sprintf("%.0f messages/s meanwhile, %.0f MB before", f.Acked, float64(before[local.Deliver])/megabyte)
	return []Result{r}, nil
}
