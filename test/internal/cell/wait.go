package cell

import (
	"bufio"
	"bytes"
	"net/http"
	"strconv"
	"strings"
	"testing"

	"queen.internal/pkg/testkit"
)

// Eventually is testkit's, for what its place in a test names.
func Eventually(t *testing.T, answer func() bool) {
	t.Helper()
	testkit.Eventually(t, "what is awaited here", answer)
}

// ParkedAt is how many long polls one deliver holds.
func (c *Cell) ParkedAt(t *testing.T, address string) (n int) {
	t.Helper()
	_, body := c.Do(t, address, http.MethodGet, "/metrics/prometheus", "")
	lines := bufio.NewScanner(bytes.NewReader(body))
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		if value, found := strings.CutPrefix(lines.Text(), "queen_parked_long_polls "); found {
			parked, err := strconv.ParseFloat(value, 64)
			if err != nil {
				t.Fatal(err)
			}
			n = int(parked)
		}
	}
	return n
}

// Parked is how many long polls the delivers hold.
func (c *Cell) Parked(t *testing.T) (total int) {
	t.Helper()
	for _, address := range c.Deliver {
		total += c.ParkedAt(t, address)
	}
	return total
}

// AwaitParked returns once at least n long polls are parked.
func (c *Cell) AwaitParked(t *testing.T, n int) {
	t.Helper()
	Eventually(t, func() bool { return c.Parked(t) >= n })
}
