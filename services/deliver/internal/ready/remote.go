package ready

import (
	"time"
)

// Peer is what other processes say of a partition and a group that they know by name.
type Peer struct {
	index     *Index
	id        string // server id; empty: not known
	key       Key
	partition int64
}

// Peer is the peer with that server id, which says something of a partition and a group.
func (x *Index) Peer(id string, key Key, partition int64) Peer { return Peer{x, id, key, partition} }

// parties are who takes in the group: its ring, if there is one, and the pins of the partition.
func (p Peer) parties() (ring *Ring, pins []*Pin) {
	x := p.index
	x.mu.Lock()
	defer x.mu.Unlock()
	if i := x.queues[queueKey{p.key.Tenant, p.key.Queue}]; i != nil {
		for pin := range i.pins {
			if pin.key.group == p.key.Group && pin.cursor.partition == p.partition {
				pins = append(pins, pin)
			}
		}
	}
	return x.rings[p.key], pins
}

// Freed says that a lease ended there, with messages past the offset committed.
func (p Peer) Freed(committed int64) {
	ring, pins := p.parties()
	for _, pin := range pins {
		if pin.freed() {
			return // who waits for this very partition goes first
		}
	}
	if ring != nil {
		ring.Freed(p.partition, committed, p.id)
	}
}

// Drained says that a lease ended there, with nothing past the offset committed.
func (p Peer) Drained(committed int64) {
	ring, pins := p.parties()
	for _, pin := range pins {
		if pin.drained(committed) {
			return
		}
	}
	if ring != nil {
		ring.Drained(p.partition, committed)
	}
}

// Leased says that the partition was leased there from the offset first on, for so long.
func (p Peer) Leased(first int64, length time.Duration) {
	ring, pins := p.parties()
	for _, pin := range pins {
		pin.leased(p.id, length)
	}
	if ring != nil {
		ring.Leased(p.id, p.partition, first, length)
	}
}

// Consumed says that everything up to an offset was delivered there, without a lease.
func (p Peer) Consumed(last int64) {
	ring, pins := p.parties()
	for _, pin := range pins {
		pin.leased(p.id, 0)
	}
	if ring != nil {
		ring.Consumed(p.id, p.partition, last)
	}
}

// Declined says that no poll waits there, where the partition would be taken first.
func (p Peer) Declined(offset int64) {
	if ring, _ := p.parties(); ring != nil {
		ring.Declined(p.id, p.partition, offset)
	}
}
