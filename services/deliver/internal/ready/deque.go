package ready

// deque is a queue with two ends in a circular buffer, whose length is a power of two.
type deque struct {
	buffer []*entry
	first  int
	length int
}

func (d *deque) pushBack(n *entry) {
	d.grow()
	d.buffer[(d.first+d.length)&(len(d.buffer)-1)] = n
	d.length++
}

func (d *deque) pushFront(n *entry) {
	d.grow()
	d.first = (d.first - 1) & (len(d.buffer) - 1)
	d.buffer[d.first] = n
	d.length++
}

// at is the entry at that place from the front; there must be one.
func (d *deque) at(place int) *entry { return d.buffer[(d.first+place)&(len(d.buffer)-1)] }

// popFront takes the first; nil when there is none.
func (d *deque) popFront() *entry {
	if d.length == 0 {
		return nil
	}
	n := d.buffer[d.first]
	d.buffer[d.first] = nil
	d.first = (d.first + 1) & (len(d.buffer) - 1)
	d.length--
	return n
}

func (d *deque) grow() {
	if d.length < len(d.buffer) {
		return
	}
	bigger := make([]*entry, max(8, 2*len(d.buffer)))
	n := copy(bigger, d.buffer[d.first:])
	copy(bigger[n:], d.buffer[:d.first])
	d.buffer, d.first = bigger, 0
}
