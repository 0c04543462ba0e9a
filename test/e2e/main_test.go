package e2e

import (
	"fmt"
	"os"
	"testing"

	"queen.internal/compose/local"
	"queen.internal/test/internal/cell"
)

// maxBody is the body limit of the shared stack's services.
const maxBody = 4 << 20

// world is what all tests of the package share.
var world cell.World

func TestMain(m *testing.M) { os.Exit(cell.Main(m, &world)) }

// shared is the stack of two ingests and two delivers that most tests use.
func shared(t *testing.T) *cell.Cell {
	t.Helper()
	return sharedAs(t, cell.Shipped)
}

// sharedAs is one like it of another shape.
func sharedAs(t *testing.T, s cell.Shape) *cell.Cell {
	t.Helper()
	env := append([]string{fmt.Sprint("QUEEN_MAX_BODY_BYTES=", maxBody)}, s.Env...)
	return world.Shared(t, s.Name, local.Options{Ingest: 2, Deliver: 2, Env: env})
}
