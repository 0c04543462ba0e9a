package retention

import (
	"github.com/prometheus/client_golang/prometheus"

	"queen.internal/pkg/store/retention"
)

// Meter counts what this process has removed. Its methods may be called on nil.
type Meter struct {
	byRule  *prometheus.CounterVec
	unread  prometheus.Counter
	deleted *prometheus.CounterVec
}

// NewMeter registers the counters. What was removed of which queue stands in the database, for whoever asks.
func NewMeter(registerer prometheus.Registerer) *Meter {
	m := &Meter{
		byRule: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "queen_retention_messages_total", Help: "Messages that this process removed, by the rule that they went by.",
		}, []string{"rule"}),
		unread: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "queen_retention_unread_messages_total", Help: "Of these, messages that a group, or everybody, had still to consume.",
		}),
		deleted: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "queen_retention_rows_total", Help: "Rows that this process deleted, by table.",
		}, []string{"table"}),
	}
	registerer.MustRegister(m.byRule, m.unread, m.deleted)
	return m
}

func (m *Meter) messages(r retention.Removed) {
	if m == nil {
		return
	}
	m.byRule.WithLabelValues("age").Add(float64(r.Aged))
	m.byRule.WithLabelValues("completed").Add(float64(r.Completed))
	m.byRule.WithLabelValues("eviction").Add(float64(r.Evicted))
	m.unread.Add(float64(r.Unread))
}

func (m *Meter) rows(table string, n int) {
	if m != nil {
		m.deleted.WithLabelValues(table).Add(float64(n))
	}
}
