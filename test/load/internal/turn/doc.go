// Package turn is one measurement: workers that run, a warm-up that does not count, and a window in which what they count
// and how long it takes them is kept. Subjects and yardsticks are measured by the same window.
//
// # Latency
//
// A worker that waits for its answer before it sends again cannot tell how a caller with a schedule would have fared
// while one answer was slow (coordinated omission). A worker with a schedule therefore measures from the moment at which
// a request was due, so that what piled up behind a slow answer counts with its whole delay; and one that has no schedule
// but a known pace may fill in what it left out, by Filled.
//
// # Concurrency
//
// Counters are atomic. A Recorder belongs to one goroutine until Run has returned; Run reads it after all workers ended.
package turn
