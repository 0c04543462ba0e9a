package forward

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"

	"queen.internal/pkg/route"
)

// Healthy asks every address of role for its /health and returns nil as soon as one says that it is healthy, else why
// none does.
func (f *Forwarder) Healthy(ctx context.Context, role route.Role) error {
	u := f.upstreams[role]
	if u == nil || len(u.all()) == 0 {
		return &UnreachableError{Role: role}
	}
	ctx, cancel := context.WithCancel(ctx)
	addresses := u.all()
	answers := make(chan error, len(addresses))
	for _, a := range addresses {
		go func() { answers <- u.healthy(ctx, a) }()
	}
	var reasons []string
	healthy := false
	for range addresses {
		switch err := <-answers; {
		case err == nil:
			healthy = true
			cancel() // the others' questions end with it
		case !healthy:
			reasons = append(reasons, err.Error())
		}
	}
	cancel()
	if healthy {
		return nil
	}
	slices.Sort(reasons)
	return fmt.Errorf("no %s is healthy: %s", role, strings.Join(reasons, "; "))
}

func (u *upstream) healthy(ctx context.Context, a *address) error {
	var body []byte
	status, _, err := u.ask(ctx, a, "/health", &body)
	if err != nil {
		return fmt.Errorf("%s: %w", a.name, err)
	}
	var told struct {
		Status   string `json:"status"`
		Database string `json:"database"`
	}
	if err := json.Unmarshal(body, &told); err != nil {
		return fmt.Errorf("%s: health of status %d: %w", a.name, status, err)
	}
	if status != http.StatusOK || told.Status != "healthy" {
		return fmt.Errorf("%s is %q, its database %q (status %d)", a.name, told.Status, told.Database, status)
	}
	return nil
}

// Reachable says whether any address of role answers, by what is known already.
func (f *Forwarder) Reachable(role route.Role) error {
	u := f.upstreams[role]
	if u == nil || len(u.all()) == 0 {
		return &UnreachableError{Role: role}
	}
	for _, a := range u.all() {
		if a.current() != down {
			return nil
		}
	}
	return fmt.Errorf("none of the %d addresses of %s answers", len(u.all()), role)
}
