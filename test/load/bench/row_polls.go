package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"
	"strings"
	"syscall"
	"time"

	"queen.internal/compose/local"
	"queen.internal/test/load/internal/exchange"
	"queen.internal/test/load/internal/machine"
	"queen.internal/test/load/internal/verdict"
)

const (
	// pollQueues is over how many queues the polls are spread.
	pollQueues = 100
	// pollPatience outlasts the measurement.
	pollPatience = 10 * time.Minute
	// parkLimit is what all polls may take until they are parked.
	parkLimit = 2 * time.Minute
)

func polls(ctx context.Context, b *bench) ([]Result, error) {
	deliver := addresses(b.stack.URLs(local.Deliver))[0]
	edge := addresses(b.stack.URLs(local.Edge))[0]
	straight, err := b.parked(ctx, "at deliver", deliver, b.polls, []string{local.Deliver})
	if err != nil {
		return nil, err
	}
	through, err := b.parked(ctx, "through the edge", edge, b.edgePolls, []string{local.Deliver, local.Edge})
	return append(straight, through...), err
}

// parked opens polls that nobody answers and looks at what they cost.
func (b *bench) parked(ctx context.Context, where, addr string, count int, services []string) ([]Result, error) {
	if err := enoughFiles(count * len(services)); err != nil { // the edge has two for each poll
		return nil, err
	}
	if err := b.forget(ctx); err != nil { // every count begins with a fresh process
		return nil, err
	}
	if strings.Contains(where, "edge") {
		if err := b.stack.Restart(ctx, local.Edge, 1); err != nil {
			return nil, err
		}
	}
	if !sleep(ctx, settle) {
		return nil, context.Cause(ctx)
	}
	before, err := b.resident()
	if err != nil {
		return nil, err
	}
	var targets []string
	for i := range count {
		targets = append(targets, popTarget(fmt.Sprintf("bench.polls.%d", i%pollQueues), "waiting", pollPatience))
	}
	open, err := b.park(ctx, addr, targets)
	defer hangUp(open)
	if err != nil {
		return nil, err
	}
	if !sleep(ctx, settle) { // what connecting has left behind is collected
		return nil, context.Cause(ctx)
	}
	f, err := b.watch(ctx, fmt.Sprintf("%d parked polls %s", count, where), 5*b.duration)
	if err != nil {
		return nil, err
	}
	after, err := b.resident()
	if err != nil {
		return nil, err
	}
	if n, err := b.parkedNow(ctx); err != nil || n != count {
		return nil, fmt.Errorf("%d of %d polls are still parked (%w)", n, count, err)
	}
	var results []Result
	cores := 0.0
	for _, u := range f.Usage {
		cores += u.CPU / f.Seconds
	}
	what := fmt.Sprintf("%d parked long polls %s: ", count, where)
	results = append(results, absolute(what+"all processes together", "% of a core", verdict.Bar{Limit: 5, Direction: verdict.AtMost}, 100*cores))
	for _, service := range services {
		each := float64(after[service]-before[service]) / float64(count) / 1024
		results = append(results, absolute(what+"memory of one in "+service, "KB", verdict.Bar{Limit: 50, Direction: verdict.AtMost}, each))
	}
	return results, nil
}

// enoughFiles says when a process may not have that many connections. Go raises its own limit as far as it goes.
func enoughFiles(connections int) error {
	var limit syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit); err != nil {
		return fmt.Errorf("read the limit of open files: %w", err)
	}
	if need := uint64(connections + 500); limit.Max < need {
		return fmt.Errorf("%d connections of one process need %d open files, the limit is %d (ulimit -Hn)", connections, need, limit.Max)
	}
	return nil
}

// park opens the polls and returns when all wait. Nothing reads their answers: there are none.
func (b *bench) park(ctx context.Context, addr string, targets []string) (open []net.Conn, err error) {
	var dialer net.Dialer
	for i, target := range targets {
		conn, err := dialer.DialContext(ctx, "tcp", addr)
		if err != nil {
			return open, fmt.Errorf("open poll %d: %w", i, err)
		}
		open = append(open, conn)
		if _, err := conn.Write(exchange.Get(target, addr, b.tenant)); err != nil {
			return open, fmt.Errorf("send poll %d: %w", i, err)
		}
	}
	limited, cancel := context.WithTimeoutCause(ctx, parkLimit, errors.New("the polls are not all parked"))
	defer cancel()
	for {
		n, err := b.parkedNow(ctx)
		if err != nil || n == len(targets) {
			return open, err
		}
		if !sleep(limited, 100*time.Millisecond) {
			return open, fmt.Errorf("%w: %d of %d", context.Cause(limited), n, len(targets))
		}
	}
}

// hangUp gives the polls up.
func hangUp(open []net.Conn) {
	for _, c := range open {
		_ = c.Close() // nothing is read from it any more
	}
}

// parkedNow is how many polls deliver holds.
func (b *bench) parkedNow(ctx context.Context) (int, error) {
	total := 0
	for _, url := range b.stack.URLs(local.Deliver) {
		n, err := metric(ctx, url, "queen_parked_long_polls ")
		if err != nil {
			return 0, err
		}
		total += int(n)
	}
	return total, nil
}

// metric reads one number of a service.
func metric(ctx context.Context, url, name string) (float64, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url+"/metrics/prometheus", http.NoBody)
	if err != nil {
		return 0, err
	}
	answer, err := http.DefaultClient.Do(request)
	if err != nil {
		return 0, err
	}
	defer func() { _ = answer.Body.Close() }() // it was read
	lines := bufio.NewScanner(answer.Body)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		if value, found := strings.CutPrefix(lines.Text(), name); found {
			return strconv.ParseFloat(strings.TrimSpace(value), 64)
		}
	}
	return 0, errors.Join(lines.Err(), fmt.Errorf("no metric %q", name), drain(answer.Body))
}

func drain(r io.Reader) error {
	_, err := io.Copy(io.Discard, r)
	return err
}

// resident is what each process holds, in bytes.
func (b *bench) resident() (map[string]int64, error) {
	processes, err := b.processes()
	if err != nil {
		return nil, err
	}
	all := map[string]int64{}
	for _, p := range processes {
		if all[p.Name], err = machine.Resident(p.PID); err != nil {
			return nil, err
		}
	}
	return all, nil
}
