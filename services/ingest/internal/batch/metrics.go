package batch

import (
	"github.com/prometheus/client_golang/prometheus"
)

// Metrics is what a Batcher does, in a registry.
type Metrics struct {
	registerer prometheus.Registerer

	seconds, partitions, requests, messages prometheus.Histogram
	failed                                  prometheus.Counter
}

// NewMetrics registers what is told of each flush; give its Flushed to Options.
func NewMetrics(registerer prometheus.Registerer) *Metrics {
	histogram := func(name, help string, buckets []float64) prometheus.Histogram {
		return prometheus.NewHistogram(prometheus.HistogramOpts{Name: name, Help: help, Buckets: buckets})
	}
	m := &Metrics{
		registerer: registerer,
		seconds:    histogram("queen_push_flush_duration_seconds", "Time from a flush's begin to its outcome.", prometheus.ExponentialBuckets(0.0005, 2, 15)),
		partitions: histogram("queen_push_flush_partitions", "Partitions in one flush.", prometheus.ExponentialBuckets(1, 2, 10)),
		requests:   histogram("queen_push_flush_groups", "Groups, one per request and partition, in one flush.", prometheus.ExponentialBuckets(1, 2, 12)),
		messages:   histogram("queen_push_flush_messages", "Messages in one flush.", prometheus.ExponentialBuckets(1, 4, 10)),
		failed: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "queen_push_flush_failed_partitions_total", Help: "Partitions whose share of a flush ended in an error.",
		}),
	}
	registerer.MustRegister(m.seconds, m.partitions, m.requests, m.messages, m.failed)
	return m
}

// Flushed counts one flush.
func (m *Metrics) Flushed(f Flush) {
	m.seconds.Observe(f.Took.Seconds())
	m.partitions.Observe(float64(f.Partitions))
	m.requests.Observe(float64(f.Groups))
	m.messages.Observe(float64(f.Messages))
	m.failed.Add(float64(f.Failed))
}

// Watch registers what b holds at the moment of a scrape.
func (m *Metrics) Watch(b *Batcher, remembered func() int) {
	m.registerer.MustRegister(prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "queen_push_remembered_hashes", Help: "Transaction hashes in memory by which pushes are vouched for.",
	}, func() float64 { return float64(remembered()) }))
	for _, g := range []struct {
		name, help string
		value      func(Depth) float64
	}{
		{"queen_push_queued_bytes", "Bytes of pushes that were accepted and not yet answered.", func(d Depth) float64 { return float64(d.Bytes) }},
		{"queen_push_waiting_groups", "Groups that are in no flush yet.", func(d Depth) float64 { return float64(d.Waiting) }},
		{"queen_push_inflight_partitions", "Partitions that are in a flush.", func(d Depth) float64 { return float64(d.InFlight) }},
		{"queen_push_inflight_flushes", "Flushes under way.", func(d Depth) float64 { return float64(d.Committing) }},
	} {
		m.registerer.MustRegister(prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: g.name, Help: g.help}, func() float64 {
			return g.value(b.Depth())
		}))
	}
}
