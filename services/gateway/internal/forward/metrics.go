package forward

import (
	"errors"

	"github.com/prometheus/client_golang/prometheus"

	"queen.internal/pkg/route"
)

// counts are what a Forwarder tells about itself beside its addresses.
type counts struct {
	retries  *prometheus.CounterVec // by role
	failures *prometheus.CounterVec // by role and reason
	leases   *prometheus.CounterVec // by result
}

func newCounts() counts {
	return counts{
		retries: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "queen_edge_retries_total",
			Help: "Requests that went to another address because the first took nothing of them.",
		}, []string{"role"}),
		failures: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "queen_edge_failures_total",
			Help: "Requests that got no whole answer of a service: unreachable, lost (sent, not answered), broken, client.",
		}, []string{"role", "reason"}),
		leases: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "queen_edge_leases_returned_total",
			Help: "Leases of messages that could not be passed on: released, refused, failed, dropped.",
		}, []string{"result"}),
	}
}

func (c counts) returned(result string) { c.leases.WithLabelValues(result).Inc() }

func (c counts) ended(role route.Role, o Outcome, err error) {
	if o.Tries > 1 {
		c.retries.WithLabelValues(string(role)).Add(float64(o.Tries - 1))
	}
	if reason := reasonOf(err); reason != "" {
		c.failures.WithLabelValues(string(role), reason).Inc()
	}
}

func reasonOf(err error) string {
	if err == nil {
		return ""
	}
	var unreachable *UnreachableError
	var lost *LostError
	var body *BodyError
	switch {
	case errors.As(err, &unreachable):
		return "unreachable"
	case errors.As(err, &lost):
		return "lost"
	case errors.Is(err, ErrBroken):
		return "broken"
	case errors.Is(err, ErrClientGone), errors.As(err, &body):
		return "client"
	}
	return ""
}

var (
	stateDesc = prometheus.NewDesc("queen_edge_address_state",
		"What is known of an address: 0 ready, 1 not ready, 2 does not answer.", []string{"role", "address"}, nil)
	inFlightDesc = prometheus.NewDesc("queen_edge_requests_in_flight",
		"Requests an address is working on, parked polls included.", []string{"role", "address"}, nil)
)

// Describe implements prometheus.Collector.
func (f *Forwarder) Describe(ch chan<- *prometheus.Desc) {
	ch <- stateDesc
	ch <- inFlightDesc
	f.counts.retries.Describe(ch)
	f.counts.failures.Describe(ch)
	f.counts.leases.Describe(ch)
}

// Collect implements prometheus.Collector.
func (f *Forwarder) Collect(ch chan<- prometheus.Metric) {
	for role, u := range f.upstreams {
		for _, a := range u.all() {
			ch <- prometheus.MustNewConstMetric(stateDesc, prometheus.GaugeValue, float64(a.current()), string(role), a.name)
			ch <- prometheus.MustNewConstMetric(inFlightDesc, prometheus.GaugeValue, float64(a.inFlight.Load()), string(role), a.name)
		}
	}
	f.counts.retries.Collect(ch)
	f.counts.failures.Collect(ch)
	f.counts.leases.Collect(ch)
}
