package local

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"time"
)

// healthPace is how often a starting service is asked; nothing announces that it is ready.
const healthPace = 25 * time.Millisecond

// awaitHealthy returns when every process answers /health with 200, or with the first failure. When the time is up
// several fail at once; then the first in order counts, because the edge is last and only repeats what others lack.
func awaitHealthy(ctx context.Context, processes []*process) error {
	waiting, cancel := context.WithCancel(ctx)
	defer cancel()
	client := &http.Client{Timeout: 2 * time.Second, Transport: &http.Transport{DisableKeepAlives: true}}
	failures := make([]error, len(processes))
	first := make(chan error, 1)
	var wg sync.WaitGroup
	for i, p := range processes {
		wg.Go(func() {
			if failures[i] = p.awaitHealthy(waiting, client); failures[i] != nil {
				select {
				case first <- failures[i]:
				default:
				}
				cancel() // the others are only waited for
			}
		})
	}
	wg.Wait()
	if ctx.Err() == nil {
		select {
		case err := <-first:
			return err
		default:
			return nil
		}
	}
	for _, err := range failures {
		if err != nil {
			return err
		}
	}
	return context.Cause(ctx)
}

func (p *process) awaitHealthy(ctx context.Context, client *http.Client) error {
	run := p.current()
	ticker := time.NewTicker(healthPace)
	defer ticker.Stop()
	last := "not asked yet"
	for {
		answer, healthy := p.askHealth(ctx, client)
		if healthy && run.alive() {
			return nil
		}
		if ctx.Err() == nil {
			last = answer
		}
		select {
		case <-run.done:
			return p.startError(run.how())
		case <-ctx.Done():
			return p.startError(fmt.Sprintf("%v; its /health: %s", context.Cause(ctx), last))
		case <-ticker.C:
		}
	}
}

// startError quotes the program's own reason.
func (p *process) startError(reason string) error {
	if words := p.log.lastWords(); words != "" {
		reason += ": " + words
	}
	return &StartError{Service: p.name, Reason: reason, LogFile: p.log.path, Lines: p.log.lastLines()}
}

// askHealth returns what /health said, for an error text, and whether it was 200.
func (p *process) askHealth(ctx context.Context, client *http.Client) (string, bool) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, p.url()+"/health", http.NoBody)
	if err != nil {
		return err.Error(), false
	}
	response, err := client.Do(request)
	if err != nil {
		return err.Error(), false
	}
	defer func() { _ = response.Body.Close() }()
	body, _ := io.ReadAll(io.LimitReader(response.Body, 500)) // for an error text only
	return fmt.Sprintf("%d %s", response.StatusCode, strings.TrimSpace(string(body))), response.StatusCode == http.StatusOK
}
