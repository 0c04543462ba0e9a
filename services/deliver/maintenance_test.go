package main

import (
	"net/http"
	"testing"

	"queen.internal/pkg/testkit"
)

const popMaintenance = "/api/v1/system/maintenance/pop"

// turn turns pop maintenance and checks the answer to the byte.
func (p *process) turn(t *testing.T, body, want string) {
	t.Helper()
	status, _, answer, err := p.do(t.Context(), http.MethodPost, popMaintenance, body)
	if err != nil || status != http.StatusOK || string(answer) != want {
		t.Fatalf("%s: %d %s %v, want %s", body, status, answer, err, want)
	}
}

const (
	turnedOn  = `{"popMaintenanceMode":true,"message":"Pop maintenance mode ENABLED. All POP operations will return empty arrays."}`
	turnedOff = `{"popMaintenanceMode":false,"message":"Pop maintenance mode DISABLED. Normal operation resumed."}`
)

func TestMaintenance_PopsFindNothingAndEverythingElseWorks(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.manage(t, http.MethodGet, popMaintenance, http.StatusOK, `{"popMaintenanceMode":false,"message":"Pop maintenance mode is OFF. Normal operation."}`)
	b.push("q", "p", "a", "b")
	leased := b.mustPop(http.StatusOK, "/queue/q?consumerGroup=g&subscriptionMode=all&batch=1")
	b.push("q", "other", "c")
	b.turn(t, `{"enabled":true}`, turnedOn)
	b.manage(t, http.MethodGet, popMaintenance, http.StatusOK, `{"popMaintenanceMode":true,"message":"Pop maintenance mode is ON. All POP operations return empty arrays."}`)
	for _, path := range []string{
		"/queue/q?consumerGroup=g", "/queue/q?consumerGroup=g&wait=true&timeout=30000", "/queue/q?autoAck=true", "/queue/none",
		"/queue/q/partition/other?consumerGroup=g", "/queue/q/partition/other?consumerGroup=g&wait=true&timeout=30000", "?namespace=q&consumerGroup=g",
	} {
		got := b.mustPop(http.StatusNoContent, path)
		if _, told := got.Header["Content-Length"]; told || got.Raw != "" {
			t.Errorf("%s: a 204 with %q, %v", path, got.Raw, got.Header)
		}
	}
	b.mustPop(http.StatusBadRequest, "/queue/q?batch=many")
	if status, _, answer, err := b.do(t.Context(), http.MethodPost, "/api/v1/lease/"+leased.LeaseID+"/extend", `{"seconds":60}`); err != nil || status != http.StatusOK {
		t.Errorf("renewal: %d %s %v", status, answer, err)
	}
	b.mustAck("g", leased.items("completed")...)
	if got := b.metric("queen_pop_maintenance_mode_enabled"); got != 1 {
		t.Errorf("the gauge is %v", got)
	}
	b.turn(t, `{"enabled":false}`, turnedOff)
	left := map[string]bool{}
	for range 2 {
		left[b.mustPop(http.StatusOK, "/queue/q?consumerGroup=g&batch=1&wait=true&timeout=30000").ids()] = true
	}
	if !left["b"] || !left["c"] {
		t.Errorf("left were %v", left)
	}
}

func TestMaintenance_EndsPollsThatWait(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.push("q", "p", "a")
	b.mustAck("g", b.mustPop(http.StatusOK, "/queue/q?consumerGroup=g&subscriptionMode=all").items("completed")...)
	polls := []func() popped{
		b.later("/queue/q?consumerGroup=g&wait=true&timeout=600000"), b.later("/queue/q/partition/p?consumerGroup=g&wait=true&timeout=600000"),
		b.later("?namespace=q&consumerGroup=h&wait=true&timeout=600000"),
	}
	b.parked(len(polls))
	b.turn(t, `{"enabled":true}`, turnedOn)
	for i, poll := range polls {
		if got := poll(); got.Status != http.StatusNoContent {
			t.Errorf("poll %d: %d %s", i, got.Status, got.Raw)
		}
	}
}

func TestMaintenance_HoldsForAProcessThatStartsAndOneThatReadsTheRow(t *testing.T) {
	t.Parallel()
	b := setup(t)
	second := start(t, b.database.Config, func(*settings) {})
	b.push("q", "p", "a")
	b.turn(t, `{"enabled":true}`, turnedOn)
	third := start(t, b.database.Config, func(*settings) {})
	if got, err := third.pop("/queue/q?consumerGroup=g&subscriptionMode=all"); err != nil || got.Status != http.StatusNoContent {
		t.Errorf("one that starts: %d %s %v", got.Status, got.Raw, err)
	}
	// Nothing but the row tells the second one.
	testkit.Eventually(t, "the second one knows", func() bool {
		_, _, answer, err := second.do(t.Context(), http.MethodGet, popMaintenance, "")
		if err != nil {
			t.Fatal(err)
		}
		return string(answer) == `{"popMaintenanceMode":true,"message":"Pop maintenance mode is ON. All POP operations return empty arrays."}`
	})
	if got, err := second.pop("/queue/q?consumerGroup=g&subscriptionMode=all"); err != nil || got.Status != http.StatusNoContent {
		t.Errorf("one that was there: %d %s %v", got.Status, got.Raw, err)
	}
	third.turn(t, `{"enabled":false}`, turnedOff)
	if got, err := third.pop("/queue/q?consumerGroup=g&subscriptionMode=all"); err != nil || got.ids() != "a" {
		t.Errorf("%d %s %v", got.Status, got.Raw, err)
	}
}

// A process that cannot know delivers nothing: it may have been started to find nothing.
func TestMaintenance_NothingIsDeliveredWhileNobodyKnows(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.push("q", "p", "a")
	b.turn(t, `{"enabled":true}`, turnedOn)
	proxy, cfg := testkit.Between(t, b.database.Config)
	proxy.Nth(1, testkit.CutStatement, "read_switches")
	proxy.Nth(2, testkit.CutStatement, "read_switches")
	p := start(t, cfg, func(*settings) {})
	for status := 0; status != http.StatusNoContent; {
		got, err := p.pop("/queue/q?consumerGroup=g&subscriptionMode=all")
		if err != nil || got.Status != http.StatusNoContent && got.Status != http.StatusServiceUnavailable {
			t.Fatalf("%d %s %v", got.Status, got.Raw, err)
		}
		status = got.Status
	}
}

func TestMaintenance_SetDuringAnOutage(t *testing.T) {
	t.Parallel()
	b := setup(t)
	proxy, cfg := testkit.Between(t, b.database.Config)
	p := start(t, cfg, func(*settings) {})
	if got, err := p.pop("/queue/q"); err != nil || got.Status != http.StatusNoContent {
		t.Fatal(got, err)
	}
	proxy.Next(testkit.CutStatement, "offer_switch")
	p.turn(t, `{"enabled":true}`, turnedOn[:len(turnedOn)-1]+`,"stored":false}`)
	p.manage(t, http.MethodGet, popMaintenance, http.StatusOK, `{"popMaintenanceMode":true,"message":"Pop maintenance mode is ON. All POP operations return empty arrays."}`)
	testkit.Eventually(t, "it is stored", func() (stored bool) {
		if err := b.database.Pool.QueryRow(t.Context(), `SELECT EXISTS (SELECT FROM queen.system_state)`).Scan(&stored); err != nil {
			t.Fatal(err)
		}
		return stored
	})
	b.push("q", "p", "a")
	for _, other := range []*process{p, start(t, b.database.Config, func(*settings) {})} {
		got, err := other.pop("/queue/q?consumerGroup=g&subscriptionMode=all")
		if err != nil || got.Status != http.StatusNoContent {
			t.Errorf("%d %s %v", got.Status, got.Raw, err)
		}
	}
}
