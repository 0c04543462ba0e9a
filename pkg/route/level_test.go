package route

import "testing"

func TestLevelOf_AgreesWithTheTable(t *testing.T) {
	t.Parallel()
	for _, row := range Table {
		if got := LevelOf(row.Method, row.Path); got != row.Level {
			t.Errorf("%s: %s %s is %s by the rules, %s in the table", row.Name, row.Method, row.Path, got, row.Level)
		}
	}
}

func TestLevelOf(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		method, path string
		want         Level
	}{
		{"GET", "/", Public},
		{"HEAD", "/metrics", Public},
		{"GET", "/assets/app.js", Public},
		{"GET", "/assets", ReadWrite},
		{"GET", "/favicon.ico", Public},
		{"POST", "/auth/login", Public},
		{"GET", "/auth/else", ReadWrite},
		{"GET", "/api/v1/system/maintenance", Admin},
		{"POST", "/internal/api/anything", Admin},
		{"DELETE", "/api/v1/consumer-groups/g", Admin},
		{"GET", "/api/v1/consumer-groups/g", ReadOnly},
		{"POST", "/api/v1/consumer-groups/g/subscription", ReadWrite},
		{"DELETE", "/api/v1/resources/queues/q", Admin},
		{"GET", "/api/v1/resources/queues", ReadOnly},
		{"GET", "/api/v1/resources", ReadWrite},
		{"POST", "/api/v1/stats/refresh", Admin},
		{"DELETE", "/api/v1/dlq", Admin},
		{"GET", "/api/v1/dlq", ReadOnly},
		{"POST", "/api/v1/dlq/1/retry", ReadWrite},
		{"GET", "/status", ReadOnly},
		{"POST", "/status", ReadWrite},
		{"GET", "/statusx", ReadWrite},
		{"GET", "/api/v1/status/buffers", ReadOnly},
		{"POST", "/streams/v1/state/get", ReadOnly},
		{"POST", "/streams/v1/cycle", ReadWrite},
		{"PUT", "/api/v1/push", WriteOnly},
		{"POST", "/api/v1/push/", ReadWrite},
		{"POST", "/api/v1/timers", WriteOnly},
		{"GET", "/api/v1/timers", ReadOnly},
		{"GET", "/api/v1/pop", ReadWrite},
		{"GET", "/api/v1/nothing", ReadWrite},
		{"GET", "/API/V1/PUSH", ReadWrite},
		{"GET", "/robots.txt", ReadWrite},
		{"OPTIONS", "*", ReadWrite},
		{"GET", "", ReadWrite},
	} {
		if got := LevelOf(test.method, test.path); got != test.want {
			t.Errorf("%s %s: %s, want %s", test.method, test.path, got, test.want)
		}
	}
}
