package lanes_test

import (
	"testing"

	"queen.internal/services/deliver/internal/lanes"
)

func TestDivide_AddsUpToThePool(t *testing.T) {
	t.Parallel()
	for n := 1; n <= 100; n++ {
		s := lanes.Divide(n)
		if s.Claims < 1 || s.Reads < 1 || s.Transactions < 1 || s.Probes != 1 || s.Claims+s.Reads+s.Transactions+s.Probes != max(n, lanes.Min) {
			t.Errorf("pool %d: %+v", n, s)
		}
	}
}
