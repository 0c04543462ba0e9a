package claim

import (
	"errors"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"queen.internal/pkg/store/task"
)

// Meter counts what this process has done of each task. Its methods may be called on nil.
type Meter struct {
	periods *prometheus.CounterVec
	seconds *prometheus.CounterVec
}

// NewMeter registers the counters. Their labels are bounded by the tasks there are.
func NewMeter(registerer prometheus.Registerer) *Meter {
	m := &Meter{
		periods: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "queen_task_periods_total", Help: "Periods of a task that this process took, by what came of it.",
		}, []string{"task", "outcome"}),
		seconds: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "queen_task_seconds_total", Help: "Time that this process spent on a task.",
		}, []string{"task"}),
	}
	registerer.MustRegister(m.periods, m.seconds)
	return m
}

func (m *Meter) count(name string, elapsed time.Duration, err error) {
	if m == nil {
		return
	}
	outcome := "worked"
	switch {
	case errors.Is(err, task.ErrReplaced):
		outcome = "replaced"
	case err != nil:
		outcome = "failed"
	}
	m.periods.WithLabelValues(name, outcome).Inc()
	m.seconds.WithLabelValues(name).Add(elapsed.Seconds())
}
