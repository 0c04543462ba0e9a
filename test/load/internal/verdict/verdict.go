// Package verdict turns pairs of measurements into a judgement: the ratio of subject to yardstick in each pair, their
// median, and whether it reaches the bar.
package verdict

import (
	"fmt"
	"math"
	"slices"
)

// Direction is which side of the bar is good.
type Direction int

const (
	// AtLeast is for rates.
	AtLeast Direction = iota
	// AtMost is for times, costs and sizes.
	AtMost
)

// Bar is what a figure must reach.
type Bar struct {
	Limit     float64
	Direction Direction
}

// Met says whether a figure reaches the bar. What is not a number does not.
func (b Bar) Met(figure float64) bool {
	if b.Direction == AtMost {
		return figure <= b.Limit
	}
	return figure >= b.Limit
}

func (b Bar) String() string {
	return fmt.Sprintf("%s %g", [...]string{"at least", "at most"}[b.Direction], b.Limit)
}

// Pair is one subject and its yardstick, measured one after the other.
type Pair struct {
	Subject   float64 `json:"subject"`
	Yardstick float64 `json:"yardstick"`
}

// Ratio is how often the yardstick fits into the subject; not a number when the yardstick is 0.
func (p Pair) Ratio() float64 {
	if p.Yardstick == 0 {
		return math.NaN()
	}
	return p.Subject / p.Yardstick
}

// MedianRatio is the median of the pairs' ratios. The ratio of the medians would compare moments that lie apart.
func MedianRatio(pairs []Pair) float64 {
	return Median(each(pairs, Pair.Ratio))
}

// Medians are those of subject and yardstick, each for itself.
func Medians(pairs []Pair) Pair {
	return Pair{
		Median(each(pairs, func(p Pair) float64 { return p.Subject })),
		Median(each(pairs, func(p Pair) float64 { return p.Yardstick })),
	}
}

func each(pairs []Pair, f func(Pair) float64) (all []float64) {
	for _, p := range pairs {
		all = append(all, f(p))
	}
	return all
}

// Median is the middle of the values, the mean of both middles when their number is even; not a number when there is
// none, or one of them is not.
func Median(values []float64) float64 {
	if len(values) == 0 || slices.ContainsFunc(values, math.IsNaN) {
		return math.NaN()
	}
	values = slices.Sorted(slices.Values(values))
	middle := len(values) / 2
	if len(values)%2 == 1 {
		return values[middle]
	}
	return (values[middle-1] + values[middle]) / 2
}

// Percentile is the smallest value that share of the values, from 0 to 1, does not exceed.
func Percentile(values []float64, share float64) float64 {
	if len(values) == 0 {
		return math.NaN()
	}
	values = slices.Sorted(slices.Values(values))
	return values[min(len(values)-1, max(0, int(math.Ceil(share*float64(len(values))))-1))]
}
