package local

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"queen.internal/pkg/pgserver"
)

// role and database are what the services use; the role owns the database and has no other rights.
const (
	role     = "queen"
	database = "queen"
)

// shutdownLimit is what a service may take for requests in flight, so that a whole stack stops within five seconds.
const shutdownLimitMillis = 2500

// foreign reports variables that must not reach a service: libpq's, which would redirect its connections, and the
// runner's own, which a service would warn about.
func foreign(name string) bool {
	own := []string{"PORT", "QUEEN_STACK_DIR", "QUEEN_TEST_PG", "EDGE_PORT", "INGEST", "DELIVER", "DETACH"}
	return strings.HasPrefix(name, "PG") || slices.Contains(own, name)
}

// settings is what one process gets on top of the inherited environment, and what stack.json shows.
func (s *Stack) settings(p *process, db *pgserver.Server) map[string]string {
	env := map[string]string{
		"PORT":                      strconv.Itoa(p.port),
		"QUEEN_BIND_ADDR":           "127.0.0.1",
		"QUEEN_SERVER_ID":           fmt.Sprintf("%s-%d", p.service, p.copy),
		"QUEEN_DRAIN_DELAY_MS":      "0",
		"QUEEN_SHUTDOWN_TIMEOUT_MS": strconv.Itoa(shutdownLimitMillis),
		"LOG_LEVEL":                 "info",
	}
	for _, entry := range os.Environ() {
		name, value := pair(entry)
		_, ours := env[name]
		if (name == "LOG_LEVEL" || strings.HasPrefix(name, "QUEEN_") && !ours) && !foreign(name) {
			env[name] = value
		}
	}
	if p.service != Edge {
		maps.Copy(env, map[string]string{
			"PG_HOST": "127.0.0.1", "PG_PORT": strconv.Itoa(db.Port()), "PG_USER": role, "PG_PASSWORD": db.Password(),
			"PG_DATABASE": database, "PG_USE_SSL": "false",
		})
	}
	if p.meshed() {
		env["QUEEN_MESH_PORT"] = strconv.Itoa(p.meshPort)
		env["QUEEN_MESH_PEERS"] = strings.Join(s.meshPeers(), ",")
		env["QUEEN_SYNC_SECRET"] = s.secret
	}
	if p.service == Ingest {
		env["FILE_BUFFER_DIR"] = filepath.Join(s.opts.Dir, "spool")
	}
	if p.service == Edge || p.service == Console {
		for _, name := range []string{Ingest, Deliver, Maintainer, Console} {
			env["QUEEN_"+strings.ToUpper(name)+"_URL"] = strings.Join(s.URLs(name), ",")
		}
	}
	if p.service == Edge {
		env["QUEEN_GATEWAY_MODE"] = "edge"
	}
	for _, entry := range slices.Concat(s.opts.Env, s.opts.ServiceEnv[p.service]) {
		name, value := pair(entry)
		env[name] = value
	}
	return env
}

// meshPeers are all nodes of the stack; each ignores itself.
func (s *Stack) meshPeers() []string {
	var peers []string
	for _, p := range s.processes {
		if p.meshed() {
			peers = append(peers, "127.0.0.1:"+strconv.Itoa(p.meshPort))
		}
	}
	return peers
}

// environment is the complete environment of a process.
func environment(settings map[string]string) []string {
	var env []string
	for _, entry := range os.Environ() {
		name, _ := pair(entry)
		if _, replaced := settings[name]; !replaced && !foreign(name) {
			env = append(env, entry)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(settings)) {
		env = append(env, name+"="+settings[name])
	}
	return env
}
