// Bench measures Queen against the bars that it set itself. For each row of the table it starts a stack of its own, the
// real processes on a durable PostgreSQL, and lets the subject and its yardstick take turns; the verdict is the median of
// the pairs' ratios. What it finds goes into docs/benchmarks.json, row by row, and from there into the table of
// docs/benchmarks.md; prose around the table stays.
//
//	go run ./load/bench -rows push-100,latency
//
// `make bench` is the same with every row, and ROWS=... picks.
package main
