package deadlock_test

import (
	"flag"
	"testing"
	"time"

	"queen.internal/pkg/pgtest"
)

// span is short in the ordinary run of tests, which share the machine; a release is worth a minute and more.
var span = flag.Duration("deadlock.for", 8*time.Second, "how long the procedures are called at once")

func TestMain(m *testing.M) {
	flag.Parse()
	pgtest.Main(m, pgtest.CheckLeaks)
}
