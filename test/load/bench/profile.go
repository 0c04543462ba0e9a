package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"time"

	"queen.internal/compose/local"
	"queen.internal/pkg/pgserver"
	"queen.internal/test/load/internal/turn"
)

// profiledServices are those whose profiles say where the time goes.
var profiledServices = []string{local.Ingest, local.Deliver, local.Edge}

// profilePorts gives each of them an address for its profiles.
func (b *bench) profilePorts(o *local.Options) error {
	if o.ServiceEnv == nil {
		o.ServiceEnv = map[string][]string{}
	}
	b.pprof = map[string]string{}
	for _, service := range profiledServices {
		port, err := pgserver.FreePort()
		if err != nil {
			return err
		}
		b.pprof[service] = fmt.Sprintf("127.0.0.1:%d", port)
		o.ServiceEnv[service] = append(o.ServiceEnv[service], "QUEEN_PPROF_ADDR="+b.pprof[service])
	}
	return nil
}

// profile is work during which the first copy of each service, and the statements, are looked at. Each name is
// profiled once.
func (b *bench) profile(name string, warmup, duration time.Duration, do work) work {
	if b.profiles == "" || b.profiled[name] {
		return do
	}
	b.profiled[name] = true
	file := b.row + "-" + strings.NewReplacer(" ", "-", ",", "").Replace(name)
	looking := func(ctx context.Context) error {
		timer := time.NewTimer(warmup)
		defer timer.Stop()
		select {
		case <-timer.C:
		case <-ctx.Done():
			return nil
		}
		errs := []error{b.forgetStatements(ctx)}
		results := make(chan error, len(profiledServices))
		for _, service := range profiledServices {
			go func() { results <- b.saveProfile(ctx, service, file, max(time.Second, duration-time.Second)) }()
		}
		for range profiledServices {
			errs = append(errs, <-results)
		}
		return errors.Join(append(errs, b.saveStatements(context.WithoutCancel(ctx), file))...)
	}
	return together(do, func(ctx context.Context, _ *turn.Meter) error { return looking(ctx) })
}

// saveProfile writes the processor profile of a service. One whose turn ends early gets none.
func (b *bench) saveProfile(ctx context.Context, service, file string, d time.Duration) error {
	url := fmt.Sprintf("http://%s/debug/pprof/profile?seconds=%d", b.pprof[service], int(d.Seconds()))
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, http.NoBody)
	if err != nil {
		return err
	}
	answer, err := http.DefaultClient.Do(request)
	if err != nil {
		if ctx.Err() != nil {
			return nil
		}
		return fmt.Errorf("profile %s: %w", service, err)
	}
	raw, err := io.ReadAll(answer.Body)
	if err = errors.Join(err, answer.Body.Close()); err != nil {
		if ctx.Err() != nil {
			return nil
		}
		return fmt.Errorf("profile %s: %w", service, err)
	}
	return os.WriteFile(filepath.Join(b.profiles, file+"."+service+".pprof"), raw, 0o644)
}
