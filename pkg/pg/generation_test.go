package pg

import (
	"errors"
	"testing"
)

func TestGeneration(t *testing.T) {
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
			var g generation
			if tc.before != (seen{}) {
				if _, err := g.observe(g.current(), tc.before.system, tc.before.timeline); err != nil {
					t.Fatal(err)
				}
			}
			start := g.current()
			born, err := g.observe(start, tc.next.system, tc.next.timeline)
			if !errors.Is(err, tc.want) {
				t.Fatalf("got %v, want %v", err, tc.want)
			}
			if advanced := g.current() > start; advanced != tc.advanced {
				t.Fatalf("generation advanced: %v, want %v", advanced, tc.advanced)
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

func TestAConnectionMadeBeforeAFlushIsDropped(t *testing.T) {
	t.Parallel()
	var g generation
	born := g.current() // as its validation begins
	g.advance()         // the failover comes between
	born, err := g.observe(born, 7, 3)
	if err != nil {
		t.Fatal(err)
	}
	if born == g.current() {
		t.Fatal("a connection validated before the flush counts as one made after it")
	}
}
