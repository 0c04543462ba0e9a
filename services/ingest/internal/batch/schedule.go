package batch

import (
	"container/list"

	"github.com/google/uuid"

	"queen.internal/pkg/appendlog"
)

// schedule is what waits and in which order. It does not lock and does not block; Batcher does both.
//
// A partition is in partitions while it has waiting entries or is in a flush. It is ready, and in its tenant's list,
// while it has waiting entries and is in no flush. A tenant is in tenants and in ring while a partition of it is ready.
type schedule struct {
	partitions map[appendlog.Key]*partition
	tenants    map[uuid.UUID]*tenant
	ring       list.List // of *tenant; the front one is served next

	bytes   int64 // Cost of requests accepted and not yet answered
	waiting int   // entries in no flush
	queued  int   // bytes of these
	ready   int   // partitions
	busy    int   // partitions in a flush
}

type tenant struct {
	id    uuid.UUID
	ready list.List // of *partition, the one that waits longest first
	place *list.Element
}

type partition struct {
	key     appendlog.Key
	waiting list.List // of *entry, in order of arrival
	busy    bool      // in a flush
	place   *list.Element
}

func newSchedule() schedule {
	return schedule{partitions: map[appendlog.Key]*partition{}, tenants: map[uuid.UUID]*tenant{}}
}

func (s *schedule) anyReady() bool { return s.ring.Len() > 0 }

// fills says whether what waits is as much as a flush takes.
func (s *schedule) fills(limits *Options) bool {
	return s.ready >= limits.FlushPartitions || s.queued >= limits.FlushBytes
}

// enter notes an entry that waits from now on, at that place of its partition's list.
func (s *schedule) enter(e *entry, place *list.Element) {
	e.place = place
	s.waiting++
	s.queued += e.bytes
}

// leave notes that an entry waits no longer.
func (s *schedule) leave(e *entry) {
	e.place = nil
	s.waiting--
	s.queued -= e.bytes
}

// accept queues every group of r behind what its partition has.
func (s *schedule) accept(r *request) {
	s.bytes += r.cost
	for i := range r.entries {
		e := &r.entries[i]
		p := s.partitions[e.key]
		if p == nil {
			p = &partition{key: e.key}
			s.partitions[e.key] = p
		}
		s.enter(e, p.waiting.PushBack(e))
		s.list(p)
	}
}

// list makes p ready if it is to be and is not yet.
func (s *schedule) list(p *partition) {
	if p.busy || p.place != nil || p.waiting.Len() == 0 {
		return
	}
	t := s.tenants[p.key.Tenant]
	if t == nil {
		t = &tenant{id: p.key.Tenant}
		s.tenants[t.id] = t
		t.place = s.ring.PushBack(t)
	}
	p.place = t.ready.PushBack(p)
	s.ready++
}

// unlist takes p out of the ready ones and, if it was its tenant's last, the tenant out of the ring.
func (s *schedule) unlist(p *partition) {
	t := s.tenants[p.key.Tenant]
	t.ready.Remove(p.place)
	p.place = nil
	s.ready--
	if t.ready.Len() == 0 {
		s.ring.Remove(t.place)
		delete(s.tenants, t.id)
	}
}

// drop takes a waiting entry out of its partition's list, and the partition out of the schedule when nothing of it is
// left.
func (s *schedule) drop(e *entry) {
	p := s.partitions[e.key]
	p.waiting.Remove(e.place)
	s.leave(e)
	if p.waiting.Len() > 0 {
		return
	}
	if p.place != nil {
		s.unlist(p)
	}
	s.forget(p)
}

// forget drops a partition of which nothing is left.
func (s *schedule) forget(p *partition) {
	if !p.busy && p.waiting.Len() == 0 {
		delete(s.partitions, p.key)
	}
}

// withdraw answers those groups of r that wait. One that comes back from a flush undecided follows them.
func (s *schedule) withdraw(r *request, cause error) {
	r.gone = cause
	for i := range r.entries {
		if e := &r.entries[i]; e.place != nil {
			s.drop(e)
			s.answer(e, appendlog.Result{Err: cause})
		}
	}
}

// abandon answers everything that waits.
func (s *schedule) abandon(err error) {
	for _, p := range s.partitions {
		for p.waiting.Len() > 0 {
			e := p.waiting.Front().Value.(*entry)
			s.drop(e)
			s.answer(e, appendlog.Result{Err: err})
		}
	}
}

// answer gives one group its result, and the request its end when it was the last.
func (s *schedule) answer(e *entry, result appendlog.Result) {
	r := e.request
	r.results[e.index] = result
	r.open--
	if r.open == 0 {
		s.bytes -= r.cost
		close(r.done)
	}
}
