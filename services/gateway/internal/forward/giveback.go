package forward

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/url"
	"time"

	"queen.internal/pkg/route"
)

const (
	// returnsWaiting bounds the leases on their way back. What does not fit runs out by itself, as it would without us.
	returnsWaiting = 1024
	// returnTimeout is for one lease. The shortest usual lease is tens of seconds; later than this it is hardly worth it.
	returnTimeout = 5 * time.Second
)

// returns gives leases back to deliver whose messages did not reach the consumer, so that others get them at once and the
// attempt is not counted. Deliver checks that the lease lives and its cursor has not moved, so that giving back twice,
// late or wrongly changes nothing.
type returns struct {
	f       *Forwarder
	logger  *slog.Logger
	waiting chan given
}

type given struct {
	lease  string
	header http.Header // the credentials and the tenant of the pop
}

func newReturns(f *Forwarder) *returns {
	return &returns{f: f, logger: f.logger, waiting: make(chan given, returnsWaiting)}
}

// giveBack queues the lease of an answer that the client did not get; "" is none.
func (t *trip) giveBack(lease string) {
	if lease == "" {
		return
	}
	header := make(http.Header)
	for _, name := range []string{"Authorization", "X-Queen-Tenant", "X-Queen-Actor"} {
		if values := t.r.Header[name]; len(values) > 0 {
			header[name] = values
		}
	}
	select {
	case t.f.returns.waiting <- given{lease: lease, header: header}:
	default:
		t.f.counts.returned("dropped")
	}
}

// run posts what is queued, one at a time, until ctx ends; then what is queued still, as long as one post may take.
func (b *returns) run(ctx context.Context) {
	posting := context.WithoutCancel(ctx)
	for {
		select {
		case g := <-b.waiting:
			b.post(posting, g)
			continue
		case <-ctx.Done():
		}
		break
	}
	last, cancel := context.WithTimeout(posting, returnTimeout)
	defer cancel()
	for {
		select {
		case g := <-b.waiting:
			b.post(last, g)
		default:
			return
		}
	}
}

func (b *returns) post(ctx context.Context, g given) {
	ctx, cancel := context.WithTimeout(ctx, returnTimeout)
	defer cancel()
	status, at, err := b.release(ctx, g, nil)
	if at != nil {
		status, _, err = b.release(ctx, g, at) // harmless twice
	}
	switch {
	case err != nil:
		b.f.counts.returned("failed")
		b.logger.Warn("lease cannot be given back, it will run out", "lease", g.lease, "err", err)
	case status >= 300:
		b.f.counts.returned("refused")
		b.logger.Info("lease is not taken back", "lease", g.lease, "status", status)
	default:
		b.f.counts.returned("released")
		b.logger.Debug("lease given back", "lease", g.lease)
	}
}

// release posts one lease back, to an address other than avoid if there is one. The address is returned when it took the
// request and did not answer.
func (b *returns) release(ctx context.Context, g given, avoid *address) (status int, silent *address, err error) {
	u := b.f.upstreams[route.Deliver]
	if u == nil {
		return 0, nil, &UnreachableError{Role: route.Deliver}
	}
	path := "/internal/api/lease/" + url.PathEscape(g.lease) + "/release"
	r, err := plain(ctx, http.MethodPost, path, string(route.Deliver), g.header)
	if err != nil {
		return 0, nil, fmt.Errorf("release of %q: %w", g.lease, err)
	}
	q, err := newRequest(r, path)
	if err != nil {
		return 0, nil, err
	}
	t := &trip{f: b.f, r: r, t: Target{Role: route.Deliver}, q: q}
	if tried := []*address{avoid}; u.pick(nil, tried) != nil {
		t.tried = tried
	}
	l, err := t.open(u)
	if err != nil {
		return 0, nil, err
	}
	answer, err := l.c.receive(r)
	if err != nil {
		l.end(false)
		return 0, l.a, &LostError{Role: route.Deliver, Err: err}
	}
	_, err = io.Copy(io.Discard, answer.Body)
	l.end(err == nil && !answer.Close)
	return answer.StatusCode, nil, nil
}
