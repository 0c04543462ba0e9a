package history_test

import (
	"flag"
	"os"
	"testing"
	"time"

	"queen.internal/test/internal/cell"
)

// How long each load runs, and which one it is: the same seed has the clients make the same choices.
var (
	span = flag.Duration("history.for", 6*time.Second, "how long each load runs")
	seed = flag.Uint64("history.seed", 1, "what the clients' choices follow from")
)

var world cell.World

func TestMain(m *testing.M) {
	flag.Parse()
	os.Exit(cell.Main(m, &world))
}
