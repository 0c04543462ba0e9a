package forward

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"net/netip"
	"net/url"
	"time"

	"queen.internal/pkg/route"
)

// Options describe a Forwarder. Default fills everything but Bases.
type Options struct {
	Bases  map[route.Role][]Base
	Logger *slog.Logger

	DialTimeout  time.Duration // for one connection
	OpenTimeout  time.Duration // for finding any connection for a request
	ProbeEvery   time.Duration // each address is asked for its readiness this often
	ProbeTimeout time.Duration // an answer that takes longer counts as none
	ResolveEvery time.Duration // names are looked up again this often
	IdleFor      time.Duration // an unused connection is closed after this; must be below the roles' own idle timeout
	HangUpGrace  time.Duration // how long the answer to an interrupted pop is awaited

	Lookup func(ctx context.Context, host string) ([]netip.Addr, error)
}

// Default is the options that the gateway runs with.
func Default(logger *slog.Logger) Options {
	return Options{
		Logger:       logger,
		DialTimeout:  2 * time.Second,
		OpenTimeout:  5 * time.Second,
		ProbeEvery:   500 * time.Millisecond, // twice in the second for which a process that stops goes on serving
		ProbeTimeout: 3 * time.Second,
		ResolveEvery: 5 * time.Second,
		IdleFor:      30 * time.Second,
		HangUpGrace:  3 * time.Second,
		Lookup: func(ctx context.Context, host string) ([]netip.Addr, error) {
			return net.DefaultResolver.LookupNetIP(ctx, "ip", host)
		},
	}
}

// Base is one configured address: a name or an IP address, and a port.
type Base struct {
	Host string
	Port string
}

// ParseBase reads http://host[:port]. Roles speak plain HTTP at the root of an address, so anything more is an error that
// says so.
func ParseBase(text string) (Base, error) {
	u, err := url.Parse(text)
	switch {
	case err != nil:
		return Base{}, fmt.Errorf("%q is not a URL (expected http://host:port)", text)
	case u.Scheme != "http" || u.Hostname() == "":
		return Base{}, fmt.Errorf("%q is not the address of a service (expected http://host:port)", text)
	case u.User != nil || u.Path != "" && u.Path != "/" || u.RawQuery != "" || u.Fragment != "":
		return Base{}, fmt.Errorf("%q has more than a host and a port (expected http://host:port)", text)
	}
	port := u.Port()
	if port == "" {
		port = "80"
	}
	return Base{Host: u.Hostname(), Port: port}, nil
}

func (b Base) String() string { return net.JoinHostPort(b.Host, b.Port) }
