package stand

import (
	"fmt"
	"os"
	"path/filepath"
	"time"

	"queen.internal/pkg/pgserver"
	"queen.internal/pkg/testkit/faketime"
)

// newClock makes a clock in a folder of its own that the server's account can read.
func newClock(dir string) (*faketime.Clock, pgserver.Binaries, error) {
	folder := filepath.Join(dir, "clocked")
	if err := os.MkdirAll(folder, 0o755); err != nil {
		return nil, pgserver.Binaries{}, fmt.Errorf("make a clock: %w", err)
	}
	return faketime.New(folder)
}

// SetClock puts the database's clock off by so much, in whole seconds.
func (s *Stand) SetClock(offset time.Duration) error { return s.clock.Set(offset) }
