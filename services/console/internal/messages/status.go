package messages

import (
	"time"

	"queen.internal/pkg/queue"
	"queen.internal/pkg/store/inspect"
	"queen.internal/pkg/wire"
)

// standing is how far one message has come.
type standing struct {
	status, queueStatus wire.MessageStatus
	consumedBy          int // of the named groups
	namedGroups         int
	leaseExpires        time.Time // of the lease on it that lasts longest
}

// judge says how far the message at offset has come, from where the groups stand in its partition. With named groups, a
// reader without a group does not count towards its completion.
func judge(positions []inspect.Position, offset int64, dead bool) standing {
	s := standing{queueStatus: wire.StatusPending}
	leased, queueMode := false, false
	for i := range positions {
		p := &positions[i]
		passed := p.Passed(offset)
		if p.Leased(offset) {
			leased = true
			if p.LeaseExpires.After(s.leaseExpires) {
				s.leaseExpires = p.LeaseExpires
			}
		}
		if p.Group != queue.QueueMode {
			s.namedGroups++
			if passed {
				s.consumedBy++
			}
			continue
		}
		queueMode = passed
		switch {
		case passed:
			s.queueStatus = wire.StatusCompleted
		case p.Leased(offset):
			s.queueStatus = wire.StatusProcessing
		}
	}
	switch {
	case dead:
		s.status = wire.StatusDeadLetter
	case s.namedGroups > 0 && s.consumedBy == s.namedGroups, s.namedGroups == 0 && queueMode:
		s.status = wire.StatusCompleted
	case leased:
		s.status = wire.StatusProcessing
	default:
		s.status = wire.StatusPending
	}
	return s
}

// modeOf says who reads the partitions that these positions are of.
func modeOf(positions []inspect.Position) wire.MessageMode {
	var m wire.MessageMode
	named := make(map[string]bool)
	for i := range positions {
		if positions[i].Group == queue.QueueMode {
			m.QueueMode = true
		} else {
			named[positions[i].Group] = true
		}
	}
	m.NamedGroups = len(named)
	return m
}
