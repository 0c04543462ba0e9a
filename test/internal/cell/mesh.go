package cell

import (
	"encoding/json"
	"fmt"
	"net/http"
	"testing"

	"queen.internal/pkg/config"
	"queen.internal/pkg/mesh"
	"queen.internal/pkg/meshtest"
)

const meshSecret = "a secret of the tests that nobody else has"

// NATS starts a server that a stack may use instead of nodes of its own.
func NATS(t *testing.T) *meshtest.NATS {
	t.Helper()
	settings := config.NewMesh()
	settings.SyncSecret = meshSecret
	key, err := mesh.ClientKey(settings)
	if err != nil {
		t.Fatal(err)
	}
	return meshtest.StartNATS(t, 0, key)
}

// Through are the settings of services that reach such a server by a port of this machine.
func Through(port int) []string {
	return []string{fmt.Sprintf("QUEEN_MESH_URL=nats://127.0.0.1:%d", port), "QUEEN_SYNC_SECRET=" + meshSecret}
}

// Mesh is what a process tells of its part in the mesh.
type Mesh struct {
	Running  bool   `json:"running"`
	Mode     string `json:"mode"`
	Alive    int    `json:"servers_alive"`
	Dead     int    `json:"servers_dead"`
	Sent     int    `json:"messages_sent"`
	Received int    `json:"messages_received"`
	Dropped  int    `json:"messages_dropped"`
	Gaps     int    `json:"gaps"`
}

// MeshAt asks a process for its part in the mesh.
func (c *Cell) MeshAt(t *testing.T, address string) (m Mesh) {
	t.Helper()
	status, body := c.Do(t, address, http.MethodGet, "/internal/api/shared-state/stats", "")
	if err := json.Unmarshal(body, &m); err != nil || status != http.StatusOK {
		t.Fatalf("%d %s (%v)", status, body, err)
	}
	return m
}
