package model_test

import (
	"flag"
	"os"
	"testing"
	"time"

	"queen.internal/test/internal/cell"
)

// limit ends a run on a machine that is busy with other things; without it the number of histories is all that counts.
var limit = flag.Duration("model.limit", time.Minute, "how long histories of one kind may be begun; 0: any time")

var world cell.World

func TestMain(m *testing.M) {
	flag.Parse()
	os.Exit(cell.Main(m, &world))
}
