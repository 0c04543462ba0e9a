package model_test

import (
	"flag"
	"os"
	"testing"

	"queen.internal/test/internal/cell"
)

var world cell.World

func TestMain(m *testing.M) {
	flag.Parse()
	os.Exit(cell.Main(m, &world))
}
