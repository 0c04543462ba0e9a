package verdict

import (
	"math"
	"testing"
)

func TestMedianRatioIsOfThePairs(t *testing.T) {
	t.Parallel()
	// The machine was slow in the second pair, for both: the ratio does not see it.
	pairs := []Pair{{60, 100}, {33, 50}, {70, 100}, {10, 100}, {65, 100}}
	if got := MedianRatio(pairs); got != 0.65 {
		t.Error(got)
	}
	if got := Medians(pairs); got != (Pair{60, 100}) {
		t.Error(got)
	}
}

func TestMedianAndPercentile(t *testing.T) {
	t.Parallel()
	values := []float64{5, 1, 4, 2, 3}
	if Median(values) != 3 || Median(values[:4]) != 3 || Median(values[:1]) != 5 || values[0] != 5 {
		t.Error(Median(values), Median(values[:4]), values)
	}
	if !math.IsNaN(Median(nil)) || !math.IsNaN(Median([]float64{1, math.NaN(), 2})) || !math.IsNaN(Percentile(nil, 0.5)) {
		t.Error("a median of nothing")
	}
	for share, want := range map[float64]float64{0: 1, 0.2: 1, 0.21: 2, 0.5: 3, 0.95: 5, 1: 5} {
		if got := Percentile(values, share); got != want {
			t.Errorf("percentile %g: %g, want %g", share, got, want)
		}
	}
}

func TestBar(t *testing.T) {
	t.Parallel()
	rate, cost := Bar{0.6, AtLeast}, Bar{25, AtMost}
	if !rate.Met(0.6) || rate.Met(0.599) || !cost.Met(25) || cost.Met(25.1) {
		t.Error("the bar itself is reached, below and above it are not")
	}
	nothing := Pair{1, 0}.Ratio()
	if rate.Met(nothing) || cost.Met(nothing) {
		t.Error("without a yardstick nothing is met")
	}
	if rate.String() != "at least 0.6" || cost.String() != "at most 25" {
		t.Error(rate, cost)
	}
}
