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
			"PG_HOST": "127.0.0.1", "PG_PORT": strconv.Itoa(s.dialled(p, Postgres, db.Port())), "PG_USER": role, "PG_PASSWORD": db.Password(),
			"PG_DATABASE": database, "PG_USE_SSL": "false",
		})
	}
	if p.meshed() {
		env["QUEEN_MESH_PORT"] = strconv.Itoa(p.meshPort)
		env["QUEEN_MESH_PEERS"] = strings.Join(s.meshPeers(p), ",")
		env["QUEEN_SYNC_SECRET"] = s.secret
	}
	if p.service == Ingest {
		env["FILE_BUFFER_DIR"] = filepath.Join(s.opts.Dir, "spool")
	}
	if p.service == Edge || p.service == Console {
		for _, name := range []string{Ingest, Deliver, Maintainer, Console} {
			env["QUEEN_"+strings.ToUpper(name)+"_URL"] = strings.Join(s.urlsFor(p, name), ",")
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

// meshPeers are all nodes of the stack as p dials them; each knows itself by its own port.
func (s *Stack) meshPeers(p *process) []string {
	var peers []string
	for _, to := range s.processes {
		if to == p {
			peers = append(peers, "127.0.0.1:"+strconv.Itoa(p.meshPort))
		} else if to.meshed() {
			peers = append(peers, "127.0.0.1:"+strconv.Itoa(s.dialled(p, to.name, to.meshPort)))
		}
	}
	return peers
}

// urlsFor are the addresses of all copies of a service as p calls them.
func (s *Stack) urlsFor(p *process, service string) []string {
	var urls []string
	for _, to := range s.processes {
		if to.service == service {
			urls = append(urls, "http://127.0.0.1:"+strconv.Itoa(s.dialled(p, to.name, to.port)))
		}
	}
	return urls
}

// dialled is the port that p dials to reach what listens at port.
func (s *Stack) dialled(p *process, to string, port int) int {
	if s.opts.Through == nil {
		return port
	}
	return s.opts.Through(p.name, to, port)
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
