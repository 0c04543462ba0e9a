package forward

import (
	"context"
	"errors"
	"net"
	"slices"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"queen.internal/pkg/route"
)

// state is how well an address is believed to do; smaller is better.
type state int32

const (
	ready    state = iota // answers and says it can do its job; also before the first probe
	notReady              // answers, and says it cannot, or is slow to answer
	down                  // does not answer
)

func (s state) String() string { return [...]string{"ready", "not ready", "down"}[s] }

const (
	// maxIdle bounds the unused connections kept to one address.
	maxIdle = 512
	// deadAfter is how many probes in a row without an answer make an address dead, which interrupts its requests. One is
	// not enough: a busy machine may need seconds.
	deadAfter = 3
)

// address is one process of a role, as far as this process can see it.
type address struct {
	role     route.Role
	name     string // host:port that is dialled
	base     Base   // what it was resolved from
	state    atomic.Int32
	inFlight atomic.Int64
	probing  atomic.Bool
	silent   int // probes in a row without an answer; the running probe's

	mu     sync.Mutex
	idle   []*conn // the most recently used last
	active map[*conn]exchange
	gone   bool // no name resolves to it any more
}

// exchange is what an address knows of a request it is working on.
type exchange struct {
	pop bool // an interrupt hangs up instead of cutting
}

func newAddress(role route.Role, name string) *address {
	return &address{role: role, name: name, active: make(map[*conn]exchange)}
}

func (a *address) current() state { return state(a.state.Load()) }

// turn records a new state and says what it was.
func (a *address) turn(s state) (before state) { return state(a.state.Swap(int32(s))) }

// connect takes a connection for one exchange: a kept one unless fresh, else a new one.
func (a *address) connect(ctx context.Context, dialer net.Dialer, fresh bool, x exchange) (*conn, error) {
	for !fresh {
		c := a.takeIdle(x)
		if c == nil {
			break
		}
		if c.usable() {
			return c, nil
		}
		a.release(c, false)
	}
	c, err := dial(ctx, dialer, a.name)
	if err != nil {
		return nil, err
	}
	a.mu.Lock()
	a.active[c] = x
	a.mu.Unlock()
	return c, nil
}

func (a *address) takeIdle(x exchange) *conn {
	a.mu.Lock()
	defer a.mu.Unlock()
	last := len(a.idle) - 1
	if last < 0 {
		return nil
	}
	c := a.idle[last]
	a.idle[last] = nil
	a.idle = a.idle[:last]
	c.reused, c.sent = true, 0
	a.active[c] = x
	return c
}

// release ends an exchange. keep says that its connection could carry another.
func (a *address) release(c *conn, keep bool) {
	a.mu.Lock()
	delete(a.active, c)
	keep = keep && !c.interrupted && !a.gone && len(a.idle) < maxIdle
	if keep {
		c.idleSince = time.Now()
		a.idle = append(a.idle, c)
	}
	a.mu.Unlock()
	if !keep {
		_ = c.tcp.Close() // nothing is owed to the peer
	}
}

// interrupt ends the exchange on c from another goroutine; see the package comment on hanging up.
func (a *address) interrupt(c *conn, grace time.Duration) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if x, running := a.active[c]; running {
		c.interrupt(x.pop, grace)
	}
}

// cutOne ends the exchange on c at once, a pop too.
func (a *address) cutOne(c *conn) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if _, running := a.active[c]; running {
		c.interrupt(false, 0)
	}
}

// hangUpPops interrupts every pop.
func (a *address) hangUpPops(grace time.Duration) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for c, x := range a.active {
		if x.pop {
			c.interrupt(true, grace)
		}
	}
}

// cut interrupts everything: the process behind the address is dead, whatever its sockets say.
func (a *address) cut() (requests int) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for c := range a.active {
		c.interrupt(false, 0)
	}
	return len(a.active)
}

// interrupt is called under the address's mutex.
func (c *conn) interrupt(hangUp bool, grace time.Duration) {
	if c.interrupted && hangUp {
		return // the grace runs already
	}
	c.interrupted = true
	if hangUp && c.tcp.CloseWrite() == nil && c.tcp.SetReadDeadline(time.Now().Add(grace)) == nil {
		return
	}
	_ = c.tcp.Close() // the owner's next call fails, which is the purpose
}

// wasInterrupted says whether the exchange on c was ended from outside.
func (a *address) wasInterrupted(c *conn) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return c.interrupted
}

// prune closes the connections that have been idle since before the given time, or all of them when the address is gone.
func (a *address) prune(before time.Time, gone bool) {
	a.mu.Lock()
	a.gone = a.gone || gone
	keepFrom := 0
	for keepFrom < len(a.idle) && (a.gone || a.idle[keepFrom].idleSince.Before(before)) {
		keepFrom++
	}
	old := slices.Clone(a.idle[:keepFrom])
	a.idle = slices.Delete(a.idle, 0, keepFrom)
	a.mu.Unlock()
	for _, c := range old {
		_ = c.tcp.Close() // idle, nothing is lost
	}
}

// ours says whether a failed dial tells about this process rather than about the address.
func ours(err error) bool {
	for _, errno := range []syscall.Errno{syscall.EMFILE, syscall.ENFILE, syscall.EADDRNOTAVAIL, syscall.ENOBUFS} {
		if errors.Is(err, errno) {
			return true
		}
	}
	return false
}
