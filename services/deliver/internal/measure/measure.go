// Package measure is what deliver tells about itself beyond its HTTP requests: counters that its parts add to, and gauges
// that read the parts when a scrape comes.
package measure

import (
	"log/slog"

	"github.com/prometheus/client_golang/prometheus"

	"queen.internal/pkg/pg"
	"queen.internal/services/deliver/internal/lease"
	"queen.internal/services/deliver/internal/ready"
	"queen.internal/services/deliver/internal/segments"
	"queen.internal/services/deliver/internal/wait"
)

// Counters are what deliver counts.
type Counters struct {
	Claims       *prometheus.CounterVec // candidate partitions by label verdict
	Acks         *prometheus.CounterVec // messages by label outcome
	Delivered    prometheus.Counter     // messages
	Unopened     prometheus.Counter     // messages delivered sealed
	Leaps        prometheus.Counter     // of the database's clock
	Returned     *prometheus.CounterVec // leased partitions given back by label reason
	Transactions *prometheus.CounterVec // by label outcome
	Commits      prometheus.Counter     // shared by acks and claims
	Shared       *prometheus.CounterVec // acks and claims in them by label kind
	Segments     *prometheus.CounterVec // looked for in memory by label result
}

// NewCounters returns counters that r tells of.
func NewCounters(r prometheus.Registerer) *Counters {
	c := &Counters{
		Claims: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "queen_claims_total", Help: "Candidate partitions that pops tried, by what the claim found.",
		}, []string{"verdict"}),
		Acks: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "queen_ack_items_total", Help: "Messages that acks named, by what became of them.",
		}, []string{"outcome"}),
		Delivered: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "queen_process_pop_messages_total", Help: "Messages delivered.",
		}),
		Unopened: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "queen_decrypt_failures_total", Help: "Messages whose payload looks encrypted and was delivered as it is, because no key opens it.",
		}),
		Leaps: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "queen_clock_leaps_total", Help: "Leaps of the database's clock that were noticed or accepted.",
		}),
	}
	c.Returned = prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "queen_leases_given_back_total", Help: "Leased partitions given back because their messages did not reach a consumer.",
	}, []string{"reason"})
	c.Transactions = prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "queen_transactions_total", Help: "Transactions, by what became of them.",
	}, []string{"outcome"})
	c.Commits = prometheus.NewCounter(prometheus.CounterOpts{
		Name: "queen_shared_commits_total", Help: "Commits that acks and claims shared.",
	})
	c.Shared = prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "queen_shared_calls_total", Help: "Acks and claims that shared a commit; refused are those that had to be made again, one by one.",
	}, []string{"kind"})
	c.Segments = prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "queen_segment_cache_lookups_total", Help: "Segments that pops needed, by whether they were in memory.",
	}, []string{"result"})
	r.MustRegister(c.Claims, c.Acks, c.Delivered, c.Unopened, c.Leaps, c.Returned, c.Transactions, c.Commits, c.Shared, c.Segments)
	return c
}

// Leapt counts and logs leaps of the database's clock.
func (c *Counters) Leapt(logger *slog.Logger) func(lease.Leap) {
	return func(leap lease.Leap) {
		c.Leaps.Inc()
		logger.Warn("the database's clock leapt; leases go on by the clock before it until the longest has passed",
			"by_ms", leap.By.Milliseconds(), "reading", leap.Reading, "accepted", leap.Accepted)
	}
}

// Watch registers with r what is read at scrape time; pools are by lane.
func Watch(r prometheus.Registerer, lot *wait.Lot, index *ready.Index, leases *lease.Registry, recent *segments.Reader, pools map[string]*pg.Pool) {
	gauge := func(name, help string, labels prometheus.Labels, read func() float64) {
		r.MustRegister(prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: name, Help: help, ConstLabels: labels}, read))
	}
	gauge("queen_parked_long_polls", "Long polls that wait.", nil, func() float64 { return float64(lot.Parked()) })
	gauge("queen_lease_registry_leases", "Leases whose cursors this process knows.", nil, func() float64 {
		n, _ := leases.Size()
		return float64(n)
	})
	gauge("queen_segment_cache_segments", "Segments in memory.", nil, func() float64 {
		n, _ := recent.Size()
		return float64(n)
	})
	gauge("queen_segment_cache_bytes", "Bytes of the segments in memory, decoded.", nil, func() float64 {
		_, bytes := recent.Size()
		return float64(bytes)
	})
	r.MustRegister(rings{index})
	for lane, pool := range pools {
		labels := prometheus.Labels{"lane": lane}
		gauge("queen_db_pool_size", "Connections open.", labels, func() float64 { return float64(pool.Stat().TotalConns()) })
		gauge("queen_db_pool_idle", "Connections open and unused.", labels, func() float64 { return float64(pool.Stat().IdleConns()) })
		gauge("queen_db_pool_active", "Connections in use.", labels, func() float64 { return float64(pool.Stat().AcquiredConns()) })
	}
}

// rings collects the states of all rings in one pass.
type rings struct{ index *ready.Index }

var (
	ringsDesc   = prometheus.NewDesc("queen_ready_rings", "Queues and groups whose candidate partitions are remembered.", nil, nil)
	entriesDesc = prometheus.NewDesc("queen_ready_partitions", "Candidate partitions remembered, by state.", []string{"state"}, nil)
	moreDesc    = prometheus.NewDesc("queen_ready_rings_truncated", "Rings that may have candidates beyond those remembered.", nil, nil)
)

// Describe implements prometheus.Collector.
func (r rings) Describe(ch chan<- *prometheus.Desc) {
	ch <- ringsDesc
	ch <- entriesDesc
	ch <- moreDesc
}

// Collect implements prometheus.Collector.
func (r rings) Collect(ch chan<- prometheus.Metric) {
	s := r.index.Stats()
	ch <- prometheus.MustNewConstMetric(ringsDesc, prometheus.GaugeValue, float64(s.Rings))
	ch <- prometheus.MustNewConstMetric(moreDesc, prometheus.GaugeValue, float64(s.More))
	for state, n := range map[string]int{"queued": s.Queued, "taken": s.Taken, "later": s.Later} {
		ch <- prometheus.MustNewConstMetric(entriesDesc, prometheus.GaugeValue, float64(n), state)
	}
}
