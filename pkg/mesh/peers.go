package mesh

import (
	"cmp"
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/google/uuid"
)

// Peer is another process as its last heartbeat described it.
type Peer struct {
	ID       string // server id, with the role
	Role     string
	Address  string // host and port of its node; empty when it has none
	Version  string
	Schema   string // fingerprint of the schema it found
	PoolSize int    // connections to PostgreSQL that it may open
	Timeline int64  // of the PostgreSQL server that it talks to; 0: not known
	LastSeen time.Time
	Alive    bool
	Draining bool // it was told to stop and finishes what it has

	watches bucketSet
}

// Watches says whether the peer listens to hints of this queue. Others of the same bucket make it true as well.
func (p Peer) Watches(tenant uuid.UUID, queue string) bool {
	return p.Alive && p.watches.has(bucketOf(tenant, queue))
}

const (
	maxPeers   = 1024      // boots remembered at a time; more are heard but not known
	forgetDown = time.Hour // how long a peer that went down is told of
)

// publisher is one boot of a process: its numbers begin anew with each.
type publisher struct {
	peer    Peer
	started int64
	last    [sequences]uint64
}

// table is who is there. The receiver alone changes it.
type table struct {
	self      string
	threshold time.Duration
	logger    *slog.Logger

	mu         sync.Mutex
	live       map[uint64]*publisher // by boot
	down       map[string]Peer       // by id, those of which no boot lives
	duplicates map[string]bool       // ids that were reported as used twice
}

func newTable(self string, threshold time.Duration, logger *slog.Logger) *table {
	return &table{
		self: self, threshold: threshold, logger: logger,
		live: map[uint64]*publisher{}, down: map[string]Peer{}, duplicates: map[string]bool{},
	}
}

// number takes the sequence of a message. It returns who sent it, false when no heartbeat of that boot was heard yet,
// and what was missed before it.
func (t *table) number(h header, now time.Time) (id string, known bool, gaps []Gap) {
	t.mu.Lock()
	defer t.mu.Unlock()
	p := t.live[h.boot]
	if p == nil {
		return "", false, nil
	}
	p.peer.LastSeen = now
	last := p.last[h.bucket]
	if h.seq <= last {
		return p.peer.ID, true, nil
	}
	p.last[h.bucket] = h.seq
	if h.seq > last+1 {
		gap := Gap{Peer: p.peer.ID, Cause: CauseLost}
		gap.set.add(h.bucket)
		gaps = append(gaps, gap)
	}
	return p.peer.ID, true, gaps
}

// beat takes a heartbeat; watched is what this process listens to.
func (t *table) beat(boot uint64, b *beat, watched bucketSet, now time.Time) []Gap {
	t.mu.Lock()
	defer t.mu.Unlock()
	if b.ID == t.self {
		t.reportDuplicate(b.ID)
	}
	p := t.live[boot]
	if p == nil {
		if b.Leaving || len(t.live) >= maxPeers {
			return nil
		}
		p = &publisher{started: b.Started, last: b.sequence}
		p.describe(b, now)
		t.join(boot, p)
		return []Gap{{Peer: b.ID, Cause: CauseNewPeer, all: true}}
	}
	p.describe(b, now)
	gaps := p.catchUp(b, watched)
	if b.Leaving {
		delete(t.live, boot)
		t.logger.Info("peer left", "peer", b.ID)
	}
	return gaps
}

// join adds a boot. An earlier boot of the same id has ended without saying so, unless it is heard again.
func (t *table) join(boot uint64, p *publisher) {
	id := p.peer.ID
	for other, q := range t.live {
		if q.peer.ID != id {
			continue
		}
		if q.started > p.started {
			t.reportDuplicate(id)
		} else {
			delete(t.live, other)
		}
	}
	t.live[boot] = p
	if _, was := t.down[id]; was {
		delete(t.down, id)
		t.logger.Info("peer recovered", "peer", id)
		return
	}
	t.logger.Info("peer joined", "peer", id, "role", p.peer.Role, "version", p.peer.Version)
}

func (t *table) reportDuplicate(id string) {
	if t.duplicates[id] || len(t.duplicates) >= maxPeers {
		return
	}
	t.duplicates[id] = true
	t.logger.Warn("two processes use one server id, set QUEEN_SERVER_ID", "peer", id)
}

func (p *publisher) describe(b *beat, now time.Time) {
	p.peer = Peer{
		ID: b.ID, Role: b.Role, Address: b.Address, Version: b.Version, Schema: b.Schema, PoolSize: b.Pool,
		Timeline: b.Timeline, LastSeen: now, Alive: true, Draining: b.Draining, watches: b.watches,
	}
}

// catchUp compares the numbers that the publisher has given out with those that arrived. Messages of one publisher
// arrive in the order in which it sent them, so what a heartbeat counts and did not arrive before it is lost.
func (p *publisher) catchUp(b *beat, watched bucketSet) []Gap {
	gap := Gap{Peer: b.ID, Cause: CauseLost}
	for i, seq := range b.sequence {
		if seq > p.last[i] && (i == configBucket || watched.has(i)) {
			gap.set.add(i)
		}
		p.last[i] = max(p.last[i], seq)
	}
	if gap.set.empty() {
		return nil
	}
	return []Gap{gap}
}

// expire declares down who was not heard for the threshold.
func (t *table) expire(now time.Time) (gaps []Gap) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for boot, p := range t.live {
		if now.Sub(p.peer.LastSeen) < t.threshold {
			continue
		}
		delete(t.live, boot)
		gaps = append(gaps, Gap{Peer: p.peer.ID, Cause: CausePeerDown, all: true})
		if t.lives(p.peer.ID) {
			continue
		}
		if p.peer.Draining { // it was stopped, and ended before it could say good-bye
			t.logger.Info("peer left", "peer", p.peer.ID)
			continue
		}
		p.peer.Alive = false
		t.down[p.peer.ID] = p.peer
		t.logger.Warn("peer down", "peer", p.peer.ID, "threshold_ms", t.threshold.Milliseconds())
	}
	for id, p := range t.down {
		if now.Sub(p.LastSeen) > forgetDown || len(t.down) > maxPeers {
			delete(t.down, id)
		}
	}
	return gaps
}

func (t *table) lives(id string) bool {
	for _, p := range t.live {
		if p.peer.ID == id {
			return true
		}
	}
	return false
}

// alive is how many other processes of a role live.
func (t *table) alive(role string) (n int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, p := range t.live {
		if p.peer.Role == role {
			n++
		}
	}
	return n
}

// peers are those that live and those that went down, by id.
func (t *table) peers() []Peer {
	t.mu.Lock()
	defer t.mu.Unlock()
	list := make([]Peer, 0, len(t.live)+len(t.down))
	for _, p := range t.live {
		list = append(list, p.peer)
	}
	for _, p := range t.down {
		list = append(list, p)
	}
	slices.SortFunc(list, func(a, b Peer) int { return cmp.Compare(a.ID, b.ID) })
	return list
}
