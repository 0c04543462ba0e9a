package ready

// line is entries in the order in which they are offered. Each knows its neighbours, so that one may leave from the middle.
type line struct {
	front, back *entry
	length      int
}

func (l *line) pushBack(n *entry) {
	n.before, n.after = l.back, nil
	if l.back == nil {
		l.front = n
	} else {
		l.back.after = n
	}
	l.back = n
	l.length++
}

func (l *line) pushFront(n *entry) {
	n.before, n.after = nil, l.front
	if l.front == nil {
		l.back = n
	} else {
		l.front.before = n
	}
	l.front = n
	l.length++
}

// remove takes out an entry, which must be in it.
func (l *line) remove(n *entry) {
	if n.before == nil {
		l.front = n.after
	} else {
		n.before.after = n.after
	}
	if n.after == nil {
		l.back = n.before
	} else {
		n.after.before = n.before
	}
	n.before, n.after = nil, nil
	l.length--
}
