package pg

import (
	"errors"
	"testing"
)

func TestLineage(t *testing.T) {
	t.Parallel()
	type seen struct{ system, timeline int64 }
	for name, tc := range map[string]struct {
		before   seen
		next     seen
		want     error
		advanced bool
	}{
		"FirstConnection":        {next: seen{7, 3}},
		"SameTimeline":           {before: seen{7, 3}, next: seen{7, 3}},
		"NewerTimelineDropsRest": {before: seen{7, 3}, next: seen{7, 4}, advanced: true},
		"OlderTimelineRefused":   {before: seen{7, 3}, next: seen{7, 2}, want: errOldTimeline},
		"OtherClusterStartsNew":  {before: seen{7, 3}, next: seen{8, 1}, advanced: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var g, other generation
			told := 0
			l := NewLineage(func() { told++ })
			l.join(&g)
			l.join(&other)
			if tc.before != (seen{}) {
				if _, err := l.observe(&g, g.current(), tc.before.system, tc.before.timeline); err != nil {
					t.Fatal(err)
				}
			}
			start := g.current()
			born, err := l.observe(&g, start, tc.next.system, tc.next.timeline)
			if !errors.Is(err, tc.want) {
				t.Fatalf("got %v, want %v", err, tc.want)
			}
			if advanced := g.current() > start; advanced != tc.advanced || other.current() != g.current() || (told == 1) != advanced {
				t.Fatalf("generations advanced to %d and %d, told %d times, want %v", g.current(), other.current(), told, tc.advanced)
			}
			if err == nil && l.Timeline() != tc.next.timeline {
				t.Fatalf("timeline %d", l.Timeline())
			}
			if err == nil && born != g.current() {
				t.Fatalf("the new connection is of generation %d, the pool of %d", born, g.current())
			}
			if err != nil && (!Transient(err) || FatalAtBoot(err)) {
				t.Fatalf("%v: transient %v, fatal %v", err, Transient(err), FatalAtBoot(err))
			}
		})
	}
}

// A pool that has never connected knows what the others of its process have seen.
func TestALaneThatConnectsLateRefusesAnOlderTimeline(t *testing.T) {
	t.Parallel()
	var early, late generation
	l := NewLineage(nil)
	l.join(&early)
	l.join(&late)
	if _, err := l.observe(&early, 0, 7, 3); err != nil {
		t.Fatal(err)
	}
	if _, err := l.observe(&late, 0, 7, 2); !errors.Is(err, errOldTimeline) {
		t.Fatalf("%v", err)
	}
	if born, err := l.observe(&late, 0, 7, 3); err != nil || born != late.current() {
		t.Fatalf("%d, %v", born, err)
	}
}

func TestAConnectionMadeBeforeAFlushIsDropped(t *testing.T) {
	t.Parallel()
	var g generation
	born := g.current() // as its validation begins
	g.advance()         // the failover comes between
	born, err := NewLineage(nil).observe(&g, born, 7, 3)
	if err != nil {
		t.Fatal(err)
	}
	if born == g.current() {
		t.Fatal("a connection validated before the flush counts as one made after it")
	}
}
