// Package metrics is one process's registry of measurements, in Prometheus' text form. The registry is private: nothing
// reaches it through the library's global one.
package metrics

import (
	"net/http"
	"os"
	"runtime"
	"strconv"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"
)

// Registry is where the parts of one process register what they measure.
type Registry struct {
	registry *prometheus.Registry
	handler  http.Handler
}

// New is a registry that holds what every process tells: its build, its uptime, the Go runtime and the process itself.
func New(service, version string) *Registry {
	registry := prometheus.NewRegistry()
	started := time.Now()
	registry.MustRegister(
		collectors.NewGoCollector(),
		collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}),
		buildInfo(service, version),
		prometheus.NewGaugeFunc(prometheus.GaugeOpts{
			Name: "queen_uptime_seconds", Help: "Seconds since the process started.",
		}, func() float64 { return time.Since(started).Seconds() }),
	)
	if _, ok := residentBytes(); ok {
		registry.MustRegister(prometheus.NewGaugeFunc(prometheus.GaugeOpts{
			Name: "queen_process_resident_memory_bytes", Help: "Memory of the process that is in RAM.",
		}, func() float64 { bytes, _ := residentBytes(); return bytes }))
	}
	return &Registry{
		registry: registry,
		handler:  promhttp.HandlerFor(registry, promhttp.HandlerOpts{ErrorHandling: promhttp.ContinueOnError}),
	}
}

// Registerer takes collectors; a second one of the same name is a bug and panics in MustRegister.
func (r *Registry) Registerer() prometheus.Registerer { return r.registry }

// Gatherer reads everything, for tests and for whoever merges registries.
func (r *Registry) Gatherer() prometheus.Gatherer { return r.registry }

// Handler answers a scrape. A collector that cannot tell its part leaves it out; the answer is still 200.
func (r *Registry) Handler() http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		w.Header().Set("Cache-Control", "no-cache")
		r.handler.ServeHTTP(w, req)
	})
}

func buildInfo(service, version string) prometheus.Collector {
	info := prometheus.NewGauge(prometheus.GaugeOpts{
		Name:        "queen_build_info",
		Help:        "Always 1; the labels say what runs.",
		ConstLabels: prometheus.Labels{"service": service, "version": version, "go": runtime.Version()},
	})
	info.Set(1)
	return info
}

// residentBytes reads what Linux tells about the process; elsewhere it reports false.
func residentBytes() (float64, bool) {
	statm, err := os.ReadFile("/proc/self/statm")
	if err != nil {
		return 0, false
	}
	fields := strings.Fields(string(statm))
	if len(fields) < 2 {
		return 0, false
	}
	pages, err := strconv.ParseInt(fields[1], 10, 64)
	return float64(pages) * float64(os.Getpagesize()), err == nil
}
