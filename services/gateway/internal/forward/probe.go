package forward

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"time"
)

// probe asks an address for its readiness, over a connection of its own so that a full backlog shows too.
func (u *upstream) probe(ctx context.Context, a *address) {
	status, connected, err := u.ask(ctx, a, "/readyz", nil)
	if ctx.Err() != nil {
		return
	}
	switch {
	case err == nil:
		a.silent = 0
		if status == http.StatusServiceUnavailable {
			u.turn(a, notReady, "the service says so")
		} else {
			u.turn(a, ready, "") // any other answer is that of a server without such a route
		}
	case !connected && ours(err):
		u.logger.Warn("address cannot be probed", "role", u.role, "address", a.name, "err", err)
	case !connected:
		a.silent = 0
		u.turn(a, down, err.Error())
	default:
		u.unanswered(a, err)
	}
}

// unanswered handles a process that accepts connections and does not speak: stopped, starved, or far away.
func (u *upstream) unanswered(a *address, err error) {
	if a.silent++; a.silent < deadAfter {
		if a.current() == ready {
			u.turn(a, notReady, err.Error())
		}
		return
	}
	u.turn(a, down, err.Error())
	if requests := a.cut(); requests > 0 {
		u.logger.Warn("requests to a dead address are interrupted", "role", u.role, "address", a.name, "requests", requests)
	}
}

// turn changes the state of an address and tells when it is new.
func (u *upstream) turn(a *address, s state, reason string) {
	before := a.turn(s)
	if before == s {
		return
	}
	if s == ready {
		u.logger.Info("address is ready", "role", u.role, "address", a.name, "was", before.String())
		return
	}
	u.logger.Warn("address is "+s.String(), "role", u.role, "address", a.name, "was", before.String(), "reason", reason)
}

// ask sends a GET of its own to an address and reads the answer's body when body is not nil, up to 64 KiB. connected says
// whether there was a connection at all.
func (u *upstream) ask(ctx context.Context, a *address, path string, body *[]byte) (status int, connected bool, err error) {
	return u.request(ctx, a.name, "GET "+path, "", body)
}

// request is ask with lines of the head.
func (u *upstream) request(ctx context.Context, name, line, head string, body *[]byte) (status int, connected bool, err error) {
	ctx, cancel := context.WithTimeout(ctx, u.options.ProbeTimeout)
	defer cancel()
	c, err := dial(ctx, newDialer(u.options.DialTimeout), name)
	if err != nil {
		return 0, false, err
	}
	stop := context.AfterFunc(ctx, func() { _ = c.tcp.SetDeadline(time.Unix(1, 0)) })
	defer stop()
	defer func() { _ = c.tcp.Close() }()
	if _, err := fmt.Fprintf(c, "%s HTTP/1.1\r\nHost: %s\r\n%sConnection: close\r\n\r\n", line, name, head); err != nil {
		return 0, true, err
	}
	answer, err := c.receive(nil)
	if err != nil {
		return 0, true, err
	}
	if body != nil {
		*body, err = io.ReadAll(io.LimitReader(answer.Body, 64<<10))
	}
	return answer.StatusCode, true, err
}
