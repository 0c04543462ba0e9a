package main

import (
	"io"
	"strings"
	"testing"
	"time"
)

func TestStorageBenchmarkRunsEveryChoice(t *testing.T) {
	t.Parallel()
	var out strings.Builder
	if err := run(t.Context(), options{rounds: 1, turn: 20 * time.Millisecond}, &out, io.Discard); err != nil {
		t.Fatal(err)
	}
	for _, s := range []set{payloadForms(), smallForms(), segmentSizes(), allocations(), lookups()} {
		for _, c := range s.choices {
			if !strings.Contains(out.String(), "| "+c.name) {
				t.Errorf("no line for %q of %q", c.name, s.question)
			}
		}
	}
}
