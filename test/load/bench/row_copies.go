package main

import (
	"bytes"
	"context"
	"fmt"
	"net/http"
	"strconv"
	"sync"
	"time"

	"queen.internal/compose/local"
	"queen.internal/test/load/internal/exchange"
	"queen.internal/test/load/internal/traffic"
	"queen.internal/test/load/internal/turn"
	"queen.internal/test/load/internal/verdict"
)

// scaled are the services of which there are two in this row.
var scaled = []string{local.Ingest, local.Deliver}

// alone stops the second copies: whoever is left must know that it shares with nobody.
func (b *bench) alone(ctx context.Context) error {
	for _, service := range scaled {
		if err := b.stack.Terminate(ctx, service, 2); err != nil {
			return err
		}
	}
	return nil
}

// joined starts them again.
func (b *bench) joined(ctx context.Context) error {
	for _, service := range scaled {
		if err := b.stack.Launch(service, 2); err != nil {
			return err
		}
		if err := b.stack.AwaitHealthy(ctx, service, 2); err != nil {
			return err
		}
	}
	return nil
}

// first is a target at the first copies only.
func first(t traffic.Target) traffic.Target {
	t.Ingest, t.Deliver = t.Ingest[:1], t.Deliver[:1]
	return t
}

func twoAndTwo(ctx context.Context, b *bench) ([]Result, error) {
	var results []Result
	for _, c := range []struct {
		what        string
		connections int
		batch       int
	}{
		{"two and two: push, pop and ack, batch 100, 16 and 16 connections", 16, 100},
		{"two and two: push, pop and ack, batch 1, 64 and 64 connections", 64, 1},
	} {
		two, err := b.stream(b.straight(), c.connections, c.batch)
		if err != nil {
			return nil, err
		}
		one, err := b.stream(first(b.straight()), c.connections, c.batch)
		if err != nil {
			return nil, err
		}
		taken, err := b.alternate(ctx, two, b.without(one))
		if err != nil {
			return nil, err
		}
		results = append(results, compare(c.what, "messages/s", "one and one", verdict.Bar{Limit: 0.8}, taken, slower, slower))
	}
	late, err := b.twoLatency(ctx)
	if err != nil {
		return nil, err
	}
	exact, err := b.dedupExact(ctx)
	return append(results, late, exact), err
}

// without runs a turn while the second copies are stopped.
func (b *bench) without(one func(context.Context) (turn.Figures, error)) func(context.Context) (turn.Figures, error) {
	return func(ctx context.Context) (turn.Figures, error) {
		if err := b.alone(ctx); err != nil {
			return turn.Figures{}, err
		}
		f, err := one(ctx)
		if err != nil {
			return f, err
		}
		return f, b.joined(ctx)
	}
}

func (b *bench) twoLatency(ctx context.Context) (Result, error) {
	two, err := b.trickle("two and two", b.straight(), 64, 4)
	if err != nil {
		return Result{}, err
	}
	one, err := b.trickle("one and one", first(b.straight()), 64, 4)
	if err != nil {
		return Result{}, err
	}
	taken, err := b.alternate(ctx, two, b.without(one))
	if err != nil {
		return Result{}, err
	}
	return compare("two and two: push to delivered, 200/s, 4 consumers, 64 partitions, p50", "ms", "one and one",
		verdict.Bar{Limit: 1.2, Direction: verdict.AtMost}, taken, p50("delivered"), p50("delivered")), nil
}

// dedupExact pushes the same keys through both ingests at once: each is stored once.
func (b *bench) dedupExact(ctx context.Context) (Result, error) {
	const rounds, workers, batch = 100, 8, 10 // workers of each ingest
	t := b.straight()
	counts := make([]map[string]int, len(t.Ingest)*workers)
	errs := make([]error, len(counts))
	var all sync.WaitGroup
	for i := range counts {
		all.Go(func() {
			counts[i], errs[i] = sameKeys(ctx, t, t.Ingest[i%len(t.Ingest)], i/len(t.Ingest), rounds, batch)
		})
	}
	all.Wait()
	total := map[string]int{}
	for i, c := range counts {
		if errs[i] != nil {
			return Result{}, errs[i]
		}
		for status, n := range c {
			total[status] += n
		}
	}
	keys := rounds * batch * workers
	wrong := keys - total["queued"]
	if wrong < 0 {
		wrong = -wrong
	}
	wrong += keys*(len(t.Ingest)-1) - total["duplicate"]
	r := absolute("two and two: keys pushed through both at once that were not stored exactly once", "", verdict.Bar{Direction: verdict.AtMost}, float64(wrong))
	r.Note = fmt.Sprintf("of %d: %d queued, %d duplicate", keys, total["queued"], total["duplicate"])
	return r, nil
}

// sameKeys pushes the keys of one worker number; its twin at another ingest pushes the same ones.
func sameKeys(ctx context.Context, t traffic.Target, addr string, number, rounds, batch int) (map[string]int, error) {
	conn, post := exchange.New(addr), exchange.NewPost("/api/v1/push", addr, t.Tenant)
	defer conn.Close()
	counts := map[string]int{}
	for round := range rounds {
		request := post.Bytes(func(body []byte) []byte {
			body = append(body, `{"items":[`...)
			for i := range batch {
				if i > 0 {
					body = append(body, ',')
				}
				body = fmt.Appendf(body, `{"queue":%s,"partition":"p%d","transactionId":"%d-%d-%d","payload":%d}`, strconv.Quote(t.Queue), number, number, round, i, i)
			}
			return append(body, `]}`...)
		})
		status, answer, err := conn.Do(ctx, request, time.Minute)
		if err != nil {
			return nil, err
		}
		if status != http.StatusCreated {
			return nil, fmt.Errorf("push the same keys: %d %.300s", status, answer)
		}
		for _, outcome := range []string{"queued", "duplicate"} {
			counts[outcome] += bytes.Count(answer, []byte(`"status":"`+outcome+`"`))
		}
	}
	return counts, nil
}
