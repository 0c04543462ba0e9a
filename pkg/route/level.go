package route

import (
	"slices"
	"strings"
)

// levelRule is one of the rules that give a level to paths without a row: the first that fits decides.
type levelRule struct {
	method string // empty: any
	path   string // one that ends in * is a prefix
	level  Level
}

// levelRules are in the order of evaluation. Rows of Table say their level themselves; a test holds the two together.
var levelRules = []levelRule{
	{"", "/health", Public},
	{"", "/livez", Public},
	{"", "/readyz", Public},
	{"", "/metrics", Public},
	{"", "/metrics/prometheus", Public},
	{"", "/", Public},
	{"", "/assets/*", Public},
	{"", "/favicon*", Public},
	{"", "/auth/me", Public},
	{"", "/auth/login", Public},
	{"", "/auth/logout", Public},

	{"", "/api/v1/system/*", Admin},
	{"", "/internal/api/lease/*", ReadWrite}, // the edge gives a lease back with the token of the pop that took it
	{"", "/internal/*", Admin},
	{"DELETE", "/api/v1/consumer-groups/*", Admin},
	{"DELETE", "/api/v1/resources/queues/*", Admin},
	{"", "/api/v1/leases", Admin},
	{"", "/api/v1/leases/*", Admin},
	{"", "/api/v1/stats/refresh", Admin},
	{"DELETE", "/api/v1/dlq*", Admin},

	{"GET", "/status", ReadOnly},
	{"GET", "/api/v1/status*", ReadOnly},
	{"GET", "/api/v1/analytics*", ReadOnly},
	{"GET", "/api/v1/resources/*", ReadOnly},
	{"GET", "/api/v1/messages*", ReadOnly},
	{"GET", "/api/v1/consumer-groups*", ReadOnly},
	{"GET", "/api/v1/dlq*", ReadOnly},
	{"GET", "/api/v1/traces*", ReadOnly},
	{"GET", "/api/v1/kv*", ReadOnly},
	{"GET", "/api/v1/timers*", ReadOnly},

	{"", "/streams/v1/state/get", ReadOnly},
	{"", "/api/v1/push", WriteOnly},
	{"POST", "/api/v1/timers", WriteOnly},
}

// LevelOf is the access that a caller needs for a path that has no row, or not with this method: what there is to be
// told about it, if only that it does not exist, is told to nobody else. rawPath is the path as it stood in the request
// line. What no rule names needs ReadWrite.
func LevelOf(method, rawPath string) Level {
	fits := func(r levelRule) bool {
		prefix, open := strings.CutSuffix(r.path, "*")
		return (r.method == "" || r.method == method) && (r.path == rawPath || open && strings.HasPrefix(rawPath, prefix))
	}
	if i := slices.IndexFunc(levelRules, fits); i >= 0 {
		return levelRules[i].level
	}
	return ReadWrite
}
