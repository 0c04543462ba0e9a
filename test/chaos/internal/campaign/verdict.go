package campaign

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"queen.internal/test/chaos/internal/fault"
)

// The verdicts.
const (
	Valid   = "VALID"
	Invalid = "INVALID"
	Unknown = "UNKNOWN"
)

// Verdict is what came of a run.
type Verdict struct {
	Verdict string
	// Wrong are the findings, Lacks what the run has not shown.
	Wrong, Lacks []string
	Counts       map[string]int
	Faults       map[string]*fault.Tally
	// Push, Pop and Drain are how long it took after the last healing until a push was queued, a message delivered, and
	// everything read.
	Push, Pop, Drain time.Duration
	Dir              string // of the run; removed when it is valid
	Repeat           string // the command
}

// conclude decides.
func (v *Verdict) conclude() {
	switch {
	case len(v.Wrong) > 0:
		v.Verdict = Invalid
	case len(v.Lacks) > 0:
		v.Verdict = Unknown
	default:
		v.Verdict = Valid
	}
}

// Line is the verdict in one line.
func (v *Verdict) Line() string {
	var b strings.Builder
	b.WriteString(v.Verdict)
	for _, name := range slices.Sorted(maps.Keys(v.Counts)) {
		fmt.Fprintf(&b, " %s=%d", name, v.Counts[name])
	}
	b.WriteString(" faults=")
	for i, name := range slices.Sorted(maps.Keys(v.Faults)) {
		if i > 0 {
			b.WriteByte(',')
		}
		fmt.Fprintf(&b, "%s:%d/%d", name, v.Faults[name].Met, v.Faults[name].Doses)
	}
	fmt.Fprintf(&b, " push_after=%.1fs pop_after=%.1fs drained_after=%.1fs wrong=%d lacks=%d", v.Push.Seconds(), v.Pop.Seconds(),
		v.Drain.Seconds(), len(v.Wrong), len(v.Lacks))
	return b.String()
}

// shown is how many findings a report lists of each kind; there may be thousands that all say the same.
const shown = 20

// Report is the line, and for anything but VALID what is wrong and how to repeat it.
func (v *Verdict) Report() string {
	var b strings.Builder
	b.WriteString(v.Line() + "\n")
	for _, list := range [][]string{v.Wrong, v.Lacks} {
		for i, text := range list {
			if i == shown {
				fmt.Fprintf(&b, "  … and %d more\n", len(list)-shown)
				break
			}
			b.WriteString("  " + text + "\n")
		}
	}
	if v.Verdict != Valid {
		fmt.Fprintf(&b, "  kept: %s\n  repeat: %s\n", v.Dir, v.Repeat)
	}
	return b.String()
}
