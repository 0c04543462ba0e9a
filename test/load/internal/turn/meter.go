package turn

import (
	"sync"
	"sync/atomic"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"
)

// Count is what a worker counts.
type Count int

// What is counted. Messages unless said otherwise.
const (
	Pushed Count = iota // answered as stored
	Popped              // delivered
	Acked               // answered as acknowledged
	Stored              // by a yardstick, or read by it
	Calls               // requests that were answered, or statements
	Empty               // polls that were answered without a message
	Failed              // calls that went wrong
	counts
)

// Latency is what a worker times.
type Latency int

// What is timed.
const (
	Push      Latency = iota // from when a push was due to its answer
	Pop                      // a pop that brought messages, from its begin to its answer
	Ack                      // an ack
	Delivered                // from when a push was due to its delivery
	Statement                // of a yardstick
	latencies
)

// Meter is what the workers of one turn report to.
type Meter struct {
	measuring atomic.Bool
	counts    [counts]atomic.Int64
	begun     chan struct{} // closed with the first call that was answered, or failed
	begin     sync.Once

	mu        sync.Mutex
	recorders []*Recorder // guarded by mu
	problem   error       // guarded by mu; the first
}

// NewMeter is one that has counted nothing.
func NewMeter() *Meter { return &Meter{begun: make(chan struct{})} }

// Add counts n of something.
func (m *Meter) Add(c Count, n int) {
	if m.counts[c].Add(int64(n)) == int64(n) && (c == Calls || c == Failed) {
		m.begin.Do(func() { close(m.begun) })
	}
}

// Total is what was counted since the workers started, warm-up included.
func (m *Meter) Total(c Count) int64 { return m.counts[c].Load() }

// Fail counts a call that went wrong and keeps the first reason.
func (m *Meter) Fail(err error) {
	m.Add(Failed, 1)
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.problem == nil {
		m.problem = err
	}
}

// Problem is the first failure, nil when there was none.
func (m *Meter) Problem() error {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.problem
}

// highest is the longest time that is told from a longer one, in microseconds.
const highest = int64(time.Hour / time.Microsecond)

// Recorder keeps the times of one worker.
type Recorder struct {
	meter *Meter
	times [latencies]*hdrhistogram.Histogram
}

// Recorder is a new one, for the calling worker.
func (m *Meter) Recorder() *Recorder {
	r := &Recorder{meter: m}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.recorders = append(m.recorders, r)
	return r
}

func (r *Recorder) histogram(l Latency) *hdrhistogram.Histogram {
	if r.times[l] == nil {
		r.times[l] = newHistogram()
	}
	return r.times[l]
}

func newHistogram() *hdrhistogram.Histogram { return hdrhistogram.New(1, highest, 3) }

// Took keeps a time, if the window is open.
func (r *Recorder) Took(l Latency, d time.Duration) {
	if r.meter.measuring.Load() {
		_ = r.histogram(l).RecordValue(micros(d)) // cannot be out of range
	}
}

// Filled keeps a time and, for each further pace that fits into it, what a caller at that pace would have waited.
func (r *Recorder) Filled(l Latency, d, pace time.Duration) {
	if r.meter.measuring.Load() {
		_ = r.histogram(l).RecordCorrectedValue(micros(d), micros(pace)) // cannot be out of range
	}
}

func micros(d time.Duration) int64 { return min(max(d.Microseconds(), 0), highest) }

// merged are the times of all workers, nil where nothing was timed.
func (m *Meter) merged() (all [latencies]*hdrhistogram.Histogram) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, r := range m.recorders {
		for l, h := range r.times {
			if h == nil {
				continue
			}
			if all[l] == nil {
				all[l] = newHistogram()
			}
			all[l].Merge(h)
		}
	}
	return all
}
