package forward

import (
	"context"
	"log/slog"
	"net"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"queen.internal/pkg/route"
)

// upstream is the processes of one role.
type upstream struct {
	role      route.Role
	options   Options
	logger    *slog.Logger
	addresses atomic.Pointer[[]*address] // replaced as a whole by resolve, never changed
	rotation  atomic.Uint32
	kicked    chan struct{} // capacity 1: probe now

	// unresolved is why a host's last look-up failed. Only resolve uses it, in Start and then in run.
	unresolved map[string]string
}

func newUpstream(role route.Role, o Options) *upstream {
	u := &upstream{role: role, options: o, logger: o.Logger, kicked: make(chan struct{}, 1), unresolved: make(map[string]string)}
	u.addresses.Store(new([]*address))
	return u
}

func (u *upstream) all() []*address { return *u.addresses.Load() }

// pick chooses an address that is not among tried, or nil. A pin, when there is one, is followed and set.
func (u *upstream) pick(pin *Pin, tried []*address) *address {
	addresses := u.all()
	best := down + 1
	for _, a := range addresses {
		if s := a.current(); s < best && !slices.Contains(tried, a) {
			best = s
		}
	}
	if best > down {
		return nil
	}
	if at := pin.get(); at != nil && at.current() == best && slices.Contains(addresses, at) && !slices.Contains(tried, at) {
		return at
	}
	chosen := u.least(addresses, best, tried, pin != nil)
	pin.set(chosen)
	return chosen
}

// least is the address in that state with the fewest requests in flight, beginning the search one further each time. A
// pin lasts for the life of a connection, which says nothing about the load of this moment, so pins just go round.
func (u *upstream) least(addresses []*address, s state, tried []*address, pinned bool) *address {
	first := int(u.rotation.Add(1) % uint32(len(addresses)))
	var chosen *address
	for i := range addresses {
		a := addresses[(first+i)%len(addresses)]
		if a.current() != s || slices.Contains(tried, a) {
			continue
		}
		if pinned {
			return a
		}
		if chosen == nil || a.inFlight.Load() < chosen.inFlight.Load() {
			chosen = a
		}
	}
	if chosen != nil {
		return chosen
	}
	// The states moved since best was found; any untried address is as good as the next look.
	return addresses[slices.IndexFunc(addresses, func(a *address) bool { return !slices.Contains(tried, a) })]
}

// run keeps the list and the states of the addresses current until ctx ends. Its loop wakes for each probe round and
// when a request met something unexpected.
func (u *upstream) run(ctx context.Context) {
	var probes sync.WaitGroup
	defer probes.Wait()
	defer u.close()
	ticker := time.NewTicker(u.options.ProbeEvery)
	defer ticker.Stop()
	resolved := time.Now()
	for {
		for _, a := range u.all() {
			a.prune(time.Now().Add(-u.options.IdleFor), false)
			if a.probing.CompareAndSwap(false, true) {
				probes.Go(func() {
					defer a.probing.Store(false)
					u.probe(ctx, a)
				})
			}
		}
		select {
		case <-ctx.Done():
			return
		case <-u.kicked:
		case <-ticker.C:
		}
		if len(u.unresolved) > 0 || time.Since(resolved) >= u.options.ResolveEvery {
			resolved = time.Now()
			u.resolve(ctx)
		}
	}
}

// kick asks run for a round of probes now.
func (u *upstream) kick() {
	select {
	case u.kicked <- struct{}{}:
	default:
	}
}

// resolve looks every name up and replaces the list. A name that cannot be looked up keeps the addresses it had: a name
// server that is down must not take the queue with it.
func (u *upstream) resolve(ctx context.Context) {
	before := u.all()
	var after []*address
	for _, base := range u.options.Bases[u.role] {
		names, err := u.lookup(ctx, base)
		u.noteLookup(base.Host, err)
		for _, name := range names {
			a := find(before, name)
			if a == nil {
				a = newAddress(u.role, name)
				a.base = base
			}
			if find(after, name) == nil {
				after = append(after, a)
			}
		}
		if err != nil {
			for _, a := range before {
				if a.base == base && find(after, a.name) == nil {
					after = append(after, a)
				}
			}
		}
	}
	u.addresses.Store(&after)
	for _, a := range before {
		if !slices.Contains(after, a) {
			u.logger.Info("address is gone", "role", u.role, "address", a.name)
			a.prune(time.Time{}, true)
		}
	}
}

// noteLookup tells about a name that cannot be resolved once, not at every try.
func (u *upstream) noteLookup(host string, err error) {
	before, failed := u.unresolved[host]
	switch {
	case err == nil && failed:
		delete(u.unresolved, host)
		u.logger.Info("name of a service is resolved again", "role", u.role, "name", host)
	case err != nil && before != err.Error():
		u.unresolved[host] = err.Error()
		u.logger.Warn("name of a service cannot be resolved", "role", u.role, "name", host, "err", err)
	}
}

func (u *upstream) lookup(ctx context.Context, base Base) ([]string, error) {
	if net.ParseIP(base.Host) != nil {
		return []string{base.String()}, nil
	}
	ctx, cancel := context.WithTimeout(ctx, u.options.DialTimeout)
	defer cancel()
	found, err := u.options.Lookup(ctx, base.Host)
	if err != nil {
		return nil, err
	}
	names := make([]string, len(found))
	for i, ip := range found {
		names[i] = net.JoinHostPort(ip.Unmap().String(), base.Port)
	}
	slices.Sort(names)
	return names, nil
}

func find(addresses []*address, name string) *address {
	for _, a := range addresses {
		if a.name == name {
			return a
		}
	}
	return nil
}

// close closes the unused connections; running requests keep theirs.
func (u *upstream) close() {
	for _, a := range u.all() {
		a.prune(time.Time{}, true)
	}
}
