package main

import (
	"encoding/json"
	"math"

	"queen.internal/test/load/internal/turn"
	"queen.internal/test/load/internal/verdict"
)

// Number is a figure that may be missing: what is not a number is null in JSON.
type Number float64

// MarshalJSON writes null for what is not a number.
func (n Number) MarshalJSON() ([]byte, error) {
	if f := float64(n); !math.IsNaN(f) && !math.IsInf(f, 0) {
		return json.Marshal(f)
	}
	return []byte("null"), nil
}

// UnmarshalJSON reads null as not a number.
func (n *Number) UnmarshalJSON(raw []byte) error {
	if string(raw) == "null" {
		*n = Number(math.NaN())
		return nil
	}
	return json.Unmarshal(raw, (*float64)(n))
}

// Result is one line of the table.
type Result struct {
	Row       string  `json:"row"`
	What      string  `json:"what"`
	Unit      string  `json:"unit"` // of subject and yardstick
	Subject   Number  `json:"subject"`
	Against   string  `json:"against,omitempty"` // what the yardstick is
	Yardstick Number  `json:"yardstick,omitempty"`
	Figure    Number  `json:"figure"` // what the bar is about: a ratio, or the subject itself
	Bar       string  `json:"bar,omitempty"`
	Met       *bool   `json:"met,omitempty"` // nil: no bar
	Note      string  `json:"note,omitempty"`
	Pairs     []Taken `json:"pairs,omitempty"`
}

// Taken is one pair as it was measured.
type Taken struct {
	SyncMillis float64      `json:"fsync_ms"`
	Subject    turn.Figures `json:"subject"`
	Yardstick  turn.Figures `json:"yardstick"`
}

// figure picks one number of a turn.
type figure func(turn.Figures) float64

func pushed(f turn.Figures) float64 { return f.Pushed }
func acked(f turn.Figures) float64  { return f.Acked }
func slower(f turn.Figures) float64 { return min(f.Pushed, f.Acked) }
func stored(f turn.Figures) float64 { return f.Stored }

// percentiles of what name took, in ms.
func p50(name string) figure { return func(f turn.Figures) float64 { return f.Latencies[name].P50 } }

func p99(name string) figure { return func(f turn.Figures) float64 { return f.Latencies[name].P99 } }

// compare makes the line of a subject that is measured against a yardstick.
func compare(what, unit, against string, bar verdict.Bar, taken []Taken, subject, yardstick figure) Result {
	var pairs []verdict.Pair
	for _, t := range taken {
		pairs = append(pairs, verdict.Pair{Subject: subject(t.Subject), Yardstick: yardstick(t.Yardstick)})
	}
	ratio, middle := verdict.MedianRatio(pairs), verdict.Medians(pairs)
	met := bar.Met(ratio)
	return Result{
		What: what, Unit: unit, Subject: Number(middle.Subject), Against: against, Yardstick: Number(middle.Yardstick),
		Figure: Number(ratio), Bar: bar.String() + " x", Met: &met, Pairs: taken,
	}
}

// absolute makes the line of a figure that is held against a number.
func absolute(what, unit string, bar verdict.Bar, value float64) Result {
	met := bar.Met(value)
	return Result{What: what, Unit: unit, Subject: Number(value), Figure: Number(value), Bar: bar.String() + " " + unit, Met: &met}
}

// cpuPerMessage is what all watched processes together spent on a message, in microseconds.
func cpuPerMessage(taken []Taken, messages figure) float64 {
	var all []float64
	for _, t := range taken {
		all = append(all, t.Subject.CPU()*1e6/(messages(t.Subject)*t.Subject.Seconds))
	}
	return verdict.Median(all)
}
