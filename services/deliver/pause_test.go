package main

import (
	"net/http"
	"testing"
)

// manage sends a request without a body and checks the answer to the byte.
func (p *process) manage(t *testing.T, method, path string, status int, want string) {
	t.Helper()
	got, header, body, err := p.do(t.Context(), method, path, "")
	if err != nil || got != status || string(body) != want || header.Get("Content-Type") != "application/json" {
		t.Errorf("%s %s answers %d %s (%v), want %d %s", method, path, got, body, err, status, want)
	}
}

const (
	queueRoute = "/api/v1/resources/queues/q"
	groupRoute = "/api/v1/consumer-groups/g/queues/q"
)

func TestPause_AnswersToTheByte(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.manage(t, http.MethodPost, queueRoute+"/pause", http.StatusNotFound, `{"error":"Queue not found"}`)
	b.push("q", "p", "a")
	b.manage(t, http.MethodPost, groupRoute+"/pause", http.StatusNotFound, `{"error":"Consumer group not found"}`)
	b.mustPop(http.StatusNoContent, "/queue/q?consumerGroup=g")
	for _, action := range []struct{ path, paused string }{{"/pause", "true"}, {"/resume", "false"}} {
		for _, changed := range []string{"true", "false"} {
			b.manage(t, http.MethodPost, queueRoute+action.path, http.StatusOK,
				`{"success":true,"queue":"q","consumerGroup":null,"paused":`+action.paused+`,"changed":`+changed+`}`)
			b.manage(t, http.MethodPost, groupRoute+action.path, http.StatusOK,
				`{"success":true,"queue":"q","consumerGroup":"g","paused":`+action.paused+`,"changed":`+changed+`}`)
		}
	}
	b.mustPop(http.StatusOK, "/queue/q") // by queue mode, which has a name, too
	b.manage(t, http.MethodPost, "/api/v1/consumer-groups/__QUEUE_MODE__/queues/q/pause", http.StatusOK,
		`{"success":true,"queue":"q","consumerGroup":"__QUEUE_MODE__","paused":true,"changed":true}`)
}

// A pause is a fact of the database: every deliver heeds it at once, also one that starts later.
func TestPause_StopsEveryPopOnEveryDeliver(t *testing.T) {
	t.Parallel()
	b := setup(t)
	second := start(t, b.database.Config, func(*settings) {})
	b.push("q", "p", "a", "b", "c")
	got := b.mustPop(http.StatusOK, "/queue/q?consumerGroup=g&subscriptionMode=all&batch=2")
	for _, route := range []string{queueRoute, groupRoute} {
		second.manageAny(t, route+"/pause")
		b.push("q", "other", route)
		third := start(t, b.database.Config, func(*settings) {})
		for _, p := range []*process{b.process, second, third} {
			for _, path := range []string{
				"/queue/q?consumerGroup=g", "/queue/q?consumerGroup=g&autoAck=true",
				"/queue/q/partition/other?consumerGroup=g", "?namespace=q&consumerGroup=g",
			} {
				if answer, err := p.pop(path); err != nil || answer.Status != http.StatusNoContent {
					t.Errorf("%s during the pause of %s: %d %s (%v)", path, route, answer.Status, answer.Raw, err)
				}
			}
		}
		second.manageAny(t, route+"/resume")
	}
	b.mustAck("g", got.items("ok")...)
	if got := b.mustPop(http.StatusOK, "/queue/q?consumerGroup=g&batch=9&partitions=9"); got.ids() != "c "+queueRoute+" "+groupRoute {
		t.Errorf("after the pauses: %s", got.Raw)
	}
}

func (p *process) manageAny(t *testing.T, path string) {
	t.Helper()
	if status, _, body, err := p.do(t.Context(), http.MethodPost, path, ""); err != nil || status != http.StatusOK {
		t.Fatalf("%s answers %d %s (%v)", path, status, body, err)
	}
}

// Parked polls stay parked through pushes and nacks, and learn of the end at once: the backstop looks once an hour here.
func TestPause_ParkedPollsWakeWithTheResume(t *testing.T) {
	t.Parallel()
	for name, path := range map[string]string{
		"Queue":     "/queue/q?consumerGroup=g&wait=true&timeout=600000&batch=9",
		"Partition": "/queue/q/partition/p?consumerGroup=g&wait=true&timeout=600000&batch=9",
		"Namespace": "?namespace=q&consumerGroup=g&wait=true&timeout=600000&batch=9",
	} {
		for _, route := range []string{queueRoute, groupRoute} {
			t.Run(name+route, func(t *testing.T) {
				t.Parallel()
				b := setup(t)
				b.process = start(t, b.database.Config, func(s *settings) { s.WaitInitial, s.WaitMax = 3_600_000, 3_600_000 })
				b.push("q", "p", "a")
				got := b.mustPop(http.StatusOK, "/queue/q?consumerGroup=g&subscriptionMode=all")
				answer := b.later(path)
				b.parked(1)
				b.manageAny(t, route+"/pause")
				b.push("q", "p", "b")
				b.mustAck("g", got.items("failed")...)
				b.parked(1)
				b.manageAny(t, route+"/resume")
				if got := answer(); got.ids() != "a b" || got.Messages[0].DeliveryAttempt != 2 {
					t.Errorf("%d %s", got.Status, got.Raw)
				}
			})
		}
	}
}
