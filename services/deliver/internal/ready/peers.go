package ready

import (
	"time"

	"queen.internal/pkg/mesh"
	"queen.internal/pkg/store/group"
)

const (
	// minPause and maxPause bound how long a partition is left to the process that goes first.
	minPause = 5 * time.Millisecond
	maxPause = 50 * time.Millisecond

	// believedFor is how long a peer is taken at its word that it has leased something. News of several peers may overtake
	// each other, so that of the end of the lease may have come already. After that a claim asks.
	believedFor = time.Second

	// activeFor is how long a peer counts as one whose polls take in a group, after it last did.
	activeFor = 10 * time.Second
)

// pace is how long claims take, smoothed.
type pace time.Duration

func (p *pace) add(took time.Duration) { *p += (pace(took) - *p) / 8 }

// pause is what a claim of somebody else is given: it takes a millisecond or two, more where all are slow, and the news of
// it less.
func (p *pace) pause() time.Duration {
	return min(max(2*time.Duration(*p), minPause), maxPause)
}

// Delivery is a span that this process took for a group.
type Delivery struct {
	Key
	Partition   int64
	First, Last int64         // offsets
	Lease       time.Duration // 0: it was consumed without one
}

// peers is when other processes last took something in a group, by server id. It is guarded by the ring's mutex.
type peers map[string]time.Time

func (p *peers) note(peer string, now time.Time) {
	if *p == nil {
		*p = make(peers)
	}
	(*p)[peer] = now
}

func (p *peers) remove(peer string) { delete(*p, peer) }

func (p *peers) active(peer string, now time.Time) bool {
	seen, ok := (*p)[peer]
	if ok && now.Sub(seen) > activeFor {
		delete(*p, peer)
		return false
	}
	return ok
}

// goesFirst says whether this process goes first at a partition, of all those whose polls take in the group.
func (p *peers) goesFirst(self string, partition int64, now time.Time) bool {
	for peer := range *p {
		if p.active(peer, now) && mesh.Before(peer, self, partition) {
			return false
		}
	}
	return true
}

// goesFirst is that of peers. The caller holds the mutex.
func (r *Ring) goesFirst(partition int64) bool {
	return r.peers.goesFirst(r.index.options.Self, partition, time.Now())
}

// tell tells peers what a claim took. The caller holds the mutex.
func (r *Ring) tell(claim *group.Claim, consumed bool, clock time.Time) {
	if claim.Verdict == group.Took {
		r.index.tell(r.key, claim, consumed, clock)
	}
}

// tell tells peers what a claim took for a group.
func (x *Index) tell(key Key, claim *group.Claim, consumed bool, clock time.Time) {
	if x.options.Took == nil {
		return
	}
	d := Delivery{Key: key, Partition: claim.PartitionID, First: claim.First, Last: claim.Last}
	if !consumed {
		d.Lease = max(claim.Until.Sub(clock), time.Millisecond)
	}
	x.options.Took(d)
}

// serve wakes a poll for an entry that has just been queued; without one, peers need not hold back. The caller holds the
// mutex.
func (r *Ring) serve(n *entry) {
	if r.announce(1) > 0 && len(r.peers) > 0 && r.index.options.Declined != nil {
		r.index.options.Declined(r.key, n.id, n.offset)
	}
}

// holdBack has an entry that is nowhere wait until a peer had its turn. The caller holds the mutex.
func (r *Ring) holdBack(n *entry) {
	r.entries.postpone(n, time.Now().Add(r.pace.pause()), false)
	n.held = true
	r.announce(0)
}
