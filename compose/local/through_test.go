package local

import (
	"fmt"
	"strings"
	"testing"
)

// Every connection of a stack can be led over another port; who listens does not move.
func TestConnectionsGoThroughOtherPorts(t *testing.T) {
	t.Parallel()
	ways := map[string]int{}
	s, _ := startStack(t, Options{Ingest: 2, Through: func(from, to string, port int) int {
		ways[from+" "+to] = port
		return port + 1
	}})
	port := func(from, to string) string { return fmt.Sprint(ways[from+" "+to] + 1) }
	for _, p := range s.processes {
		env := environmentOf(t, p.url())
		if p.service != Edge && env["PG_PORT"] != port(p.name, Postgres) {
			t.Errorf("%s dials PostgreSQL at %s", p.name, env["PG_PORT"])
		}
		if p.service == Edge && env["QUEEN_INGEST_URL"] != fmt.Sprintf("http://127.0.0.1:%s,http://127.0.0.1:%s", port("edge", "ingest.1"), port("edge", "ingest.2")) {
			t.Errorf("the edge has %s", env["QUEEN_INGEST_URL"])
		}
		if p.name != "ingest.1" {
			continue
		}
		for _, peer := range []string{"127.0.0.1:" + fmt.Sprint(p.meshPort), "127.0.0.1:" + port(p.name, "ingest.2"), "127.0.0.1:" + port(p.name, "deliver")} {
			if !strings.Contains(env["QUEEN_MESH_PEERS"], peer) {
				t.Errorf("%s is not among %s", peer, env["QUEEN_MESH_PEERS"])
			}
		}
	}
	if ways["edge ingest.2"] != s.processes[1].port || ways["ingest.1 postgres"] != s.db.Port() {
		t.Errorf("%v", ways)
	}
}
