package group_test

import (
	"errors"
	"fmt"
	"testing"

	"pgregory.net/rapid"

	"queen.internal/pkg/queue"
	"queen.internal/pkg/store/group"
)

// seeder is one history of a group that is registered while others push.
type seeder struct {
	*history
	begun bool
	least map[int64]int // by partition that was there at first contact: messages it had then
	most  map[int64]int // messages it had when a pop was pinned to it
}

// contact makes one call of the registration.
func (s *seeder) contact() {
	page := rapid.IntRange(1, 3).Draw(s.T, "page")
	sub, err := s.group.SeedBy(page).Subscribe(s.Context(), queue.DefaultTenant, s.q.name, "g", fresh)
	if err != nil && !errors.As(err, new(*group.Seeding)) {
		s.Fatal(err)
	}
	for _, p := range s.q.partitions {
		if !s.begun {
			s.least[p.id] = len(p.messages)
		}
	}
	s.begun = true
	s.q.groups["g"] = sub.Ref
}

func (s *seeder) push(p *modelPartition) { s.append(p, []string{fmt.Sprint("m", len(p.messages))}) }

// pin is a pop of one partition; it fixes the start there.
func (s *seeder) pin(at int) {
	p := s.q.partitions[at]
	pinned, found, err := s.group.Pin(s.Context(), queue.DefaultTenant, s.q.name, fmt.Sprint("p", at), "g", fresh)
	if err != nil || !found || pinned.PartitionID != p.id {
		s.Fatal(pinned, found, err)
	}
	if _, known := s.most[p.id]; !known {
		s.most[p.id] = len(p.messages)
	}
}

// judge pushes to every partition and has the group take what it gets.
func (s *seeder) judge() {
	for _, p := range s.q.partitions {
		end := len(p.messages)
		s.push(p)
		_, claims := s.bench.claim(s.q.groups["g"], 100, p.id)
		if len(claims) != 1 || claims[0].Verdict != group.Took || claims[0].Last != int64(end) {
			s.Fatalf("partition %d with %d messages: %+v", p.id, end, claims)
		}
		highest := end
		if at, pinned := s.most[p.id]; pinned {
			highest = at
		}
		if _, old := s.least[p.id]; !old {
			highest = 0
		}
		if first := int(claims[0].First); first < s.least[p.id] || first > highest {
			s.Fatalf("the group begins at %d in partition %d, not within %d and %d", first, p.id, s.least[p.id], highest)
		}
	}
}

// Whatever happens while a group is registered page by page: each partition that was there at first contact is delivered
// from somewhere between what it held then and what it holds when the registration ends, or a pop is pinned to it; each
// later one from its start.
func TestSeeding_FixesAStartInEachPartition(t *testing.T) {
	t.Parallel()
	b := setup(t)
	runs := 0
	rapid.Check(t, func(rt *rapid.T) {
		runs++
		s := &seeder{
			history: &history{bench: b, T: rt, q: &modelQueue{name: fmt.Sprint("q", runs), groups: make(map[string]group.Ref)}},
			least:   make(map[int64]int), most: make(map[int64]int),
		}
		create := func() { s.push(s.provision(fmt.Sprint("p", len(s.q.partitions)))) }
		for range rapid.IntRange(1, 6).Draw(rt, "partitions") {
			create()
		}
		for _, step := range rapid.SliceOfN(rapid.SampledFrom([]string{"contact", "contact", "push", "push", "push", "create", "pin"}), 1, 14).Draw(rt, "steps") {
			at := rapid.IntRange(0, len(s.q.partitions)-1).Draw(rt, "partition")
			switch {
			case step == "contact":
				s.contact()
			case step == "push":
				s.push(s.q.partitions[at])
			case step == "create":
				create()
			case s.begun:
				s.pin(at)
			}
		}
		for s.q.groups["g"].ID == 0 {
			s.contact()
		}
		s.judge()
	})
}
