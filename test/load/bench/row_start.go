package main

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"time"

	"queen.internal/compose/local"
	"queen.internal/test/load/internal/exchange"
	"queen.internal/test/load/internal/verdict"
)

// coldStart stops each service and takes the time from its exec to the first 200 of /readyz, again and again.
func coldStart(ctx context.Context, b *bench) ([]Result, error) {
	worst, notes := 0.0, []string{}
	for _, service := range local.Names() {
		var all []float64
		for range b.starts {
			took, err := b.startOf(ctx, service)
			if err != nil {
				return nil, fmt.Errorf("start %s: %w", service, err)
			}
			all = append(all, took.Seconds()*1000)
		}
		p95 := verdict.Percentile(all, 0.95)
		b.say("%s: p95 of %d starts %.0f ms", service, len(all), p95)
		notes = append(notes, fmt.Sprintf("%s %.0f", service, p95))
		worst = max(worst, p95)
	}
	r := absolute(fmt.Sprintf("cold start, exec to /readyz, schema current, p95 of %d, the slowest service", b.starts), "ms",
		verdict.Bar{Limit: 150, Direction: verdict.AtMost}, worst)
	r.Note = strings.Join(notes, ", ")
	return []Result{r}, nil
}

// startOf is one start.
func (b *bench) startOf(ctx context.Context, service string) (time.Duration, error) {
	if err := b.stack.Terminate(ctx, service, 1); err != nil {
		return 0, err
	}
	host := addresses(b.stack.URLs(service))[0]
	request := exchange.Get("/readyz", host, "")
	limited, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	start := time.Now()
	if err := b.stack.Launch(service, 1); err != nil {
		return 0, err
	}
	// Nothing announces a listener, so it is asked for often; each try costs some microseconds.
	again := time.NewTicker(500 * time.Microsecond)
	defer again.Stop()
	conn := exchange.New(host)
	defer conn.Close()
	for {
		if status, _, err := conn.Do(limited, request, time.Minute); err == nil && status == http.StatusOK {
			return time.Since(start), nil
		}
		select {
		case <-again.C:
		case <-limited.Done():
			return 0, context.Cause(limited)
		}
	}
}
