package health

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
)

type answered struct {
	Status int
	Type   string
	Body   string
}

func get(handler http.HandlerFunc) answered {
	w := httptest.NewRecorder()
	handler(w, httptest.NewRequest(http.MethodGet, "/", nil))
	return answered{w.Code, w.Header().Get("Content-Type"), w.Body.String()}
}

func TestBodiesAreTheContractsToTheByte(t *testing.T) {
	t.Parallel()
	up := func(context.Context) error { return nil }
	down := func(context.Context) error { return errors.New(`connect to "db": refused`) }
	schema := Check{"schema", func(context.Context) error { return errors.New("version 3 needed, found 2") }}
	connected := New(Options{Version: "1.0.2", Ping: up, Ready: []Check{{"postgresql", up}}})
	disconnected := New(Options{Version: "1.0.2", Ping: down, Ready: []Check{{"postgresql", down}, schema}})
	draining := New(Options{Version: "1.0.2", Ping: up, Ready: []Check{{"postgresql", up}}})
	draining.Drain()
	draining.Drain()
	alone := New(Options{Version: "1.0.2"})
	installing := New(Options{Version: "1.0.2", Ping: up, Ready: []Check{{"postgresql", up}, schema}})
	const healthy = `{"status":"healthy","database":"connected","engine":"segments-go","version":"1.0.2"}`

	for name, tc := range map[string]struct {
		handler http.HandlerFunc
		status  int
		body    string
	}{
		"healthy":   {connected.Health, 200, healthy},
		"unhealthy": {disconnected.Health, 503, `{"status":"unhealthy","database":"disconnected","engine":"segments-go","version":"1.0.2"}`},
		"schema":    {installing.Health, 503, `{"status":"unhealthy","database":"connected","engine":"segments-go","version":"1.0.2"}`},
		"draining":  {draining.Health, 503, `{"status":"unhealthy","database":"connected","engine":"segments-go","version":"1.0.2"}`},
		"alone":     {alone.Health, 200, healthy},
		"ready":     {connected.Readyz, 200, `{"status":"ready","version":"1.0.2","reasons":[]}`},
		"not ready": {disconnected.Readyz, 503, `{"status":"not ready","version":"1.0.2","reasons":[` +
			`{"check":"postgresql","reason":"connect to \"db\": refused"},{"check":"schema","reason":"version 3 needed, found 2"}]}`},
		"leaving":         {draining.Readyz, 503, `{"status":"not ready","version":"1.0.2","reasons":[{"check":"process","reason":"shutting down"}]}`},
		"alive":           {disconnected.Livez, 200, `{"status":"ok"}`},
		"alive, draining": {draining.Livez, 200, `{"status":"ok"}`},
		"status":          {disconnected.Status, 200, `{"status":"ok","engine":"segments-go"}`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			want := answered{tc.status, "application/json", tc.body}
			if diff := cmp.Diff(want, get(tc.handler)); diff != "" {
				t.Errorf("answer (-want +got):\n%s", diff)
			}
		})
	}
}

func TestProbesThatComeTogetherShareOnePing(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var pings, healthy atomic.Int64
		answer := make(chan struct{})
		checks := New(Options{Ping: func(context.Context) error { pings.Add(1); <-answer; return nil }})
		var probes sync.WaitGroup
		for range 50 {
			probes.Go(func() {
				if get(checks.Health).Status == http.StatusOK {
					healthy.Add(1)
				}
			})
		}
		synctest.Wait() // every probe waits for the one ping
		close(answer)
		probes.Wait()
		if pings.Load() != 1 || healthy.Load() != 50 {
			t.Errorf("%d pings, %d healthy answers", pings.Load(), healthy.Load())
		}
	})
}

func TestPingThatHangsIsCutAndOutlivesTheCallerWhoStartedIt(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		checks := New(Options{Ping: func(ctx context.Context) error { <-ctx.Done(); return ctx.Err() }})
		ctx, leave := context.WithCancel(t.Context())
		leave() // the caller is gone before the ping begins
		w := httptest.NewRecorder()
		began := time.Now()
		checks.Health(w, httptest.NewRequest(http.MethodGet, "/", nil).WithContext(ctx))
		if w.Code != http.StatusServiceUnavailable || time.Since(began) != checkTimeout {
			t.Errorf("%d after %v", w.Code, time.Since(began))
		}
	})
}
