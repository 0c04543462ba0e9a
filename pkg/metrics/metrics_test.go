package metrics

import (
	"net/http"
	"net/http/httptest"
	"regexp"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
)

func scrape(r *Registry) *httptest.ResponseRecorder {
	w := httptest.NewRecorder()
	r.Handler().ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/metrics/prometheus", nil))
	return w
}

func TestScrapeTellsProcessAndOwnMeasurements(t *testing.T) {
	t.Parallel()
	r := New("ingest", "1.2.3")
	counter := prometheus.NewCounter(prometheus.CounterOpts{Name: "queen_process_push_messages_total", Help: "Messages pushed."})
	r.Registerer().MustRegister(counter)
	counter.Add(3)
	w := scrape(r)
	if w.Code != http.StatusOK || !strings.HasPrefix(w.Header().Get("Content-Type"), "text/plain; version=0.0.4") ||
		w.Header().Get("Cache-Control") != "no-cache" {
		t.Errorf("status %d, header %v", w.Code, w.Header())
	}
	for _, line := range []string{
		`(?m)^queen_build_info\{go="go[^"]+",service="ingest",version="1\.2\.3"\} 1$`,
		`(?m)^queen_process_push_messages_total 3$`,
		`(?m)^queen_uptime_seconds [0-9.e+-]+$`,
		`(?m)^go_goroutines [0-9]+$`,
	} {
		if !regexp.MustCompile(line).MatchString(w.Body.String()) {
			t.Errorf("no line matches %s", line)
		}
	}
}

func TestScrapeAnswersWhenACollectorCannot(t *testing.T) {
	t.Parallel()
	r := New("console", "1.2.3")
	r.Registerer().MustRegister(failing{})
	w := scrape(r)
	if w.Code != http.StatusOK || !strings.Contains(w.Body.String(), "queen_build_info") {
		t.Errorf("status %d, body %.200s", w.Code, w.Body)
	}
}

func TestRegistriesShareNothing(t *testing.T) {
	t.Parallel()
	one, two := New("ingest", "1"), New("deliver", "1")
	one.Registerer().MustRegister(prometheus.NewCounter(prometheus.CounterOpts{Name: "queen_only_here_total"}))
	if strings.Contains(scrape(two).Body.String(), "queen_only_here_total") {
		t.Error("a collector of one registry shows up in another")
	}
}

// failing is a collector whose source is gone at scrape time.
type failing struct{}

var failingDesc = prometheus.NewDesc("queen_failing", "Cannot be told.", nil, nil)

func (failing) Describe(ch chan<- *prometheus.Desc) { ch <- failingDesc }
func (failing) Collect(ch chan<- prometheus.Metric) {
	ch <- prometheus.NewInvalidMetric(failingDesc, http.ErrServerClosed)
}
