package testkit

import (
	"testing"
	"time"
)

// safety is how long what must happen may take at most; it measures nothing.
const safety = time.Minute

// Eventually asks again and again, at a pace that leaves the machine to others, until the answer is yes: for what happens in
// another process and announces itself to nobody. It fails the test when that has not come within a minute.
func Eventually(t testing.TB, what string, answer func() bool) {
	t.Helper()
	pace := time.NewTicker(10 * time.Millisecond)
	defer pace.Stop()
	limit := time.NewTimer(safety)
	defer limit.Stop()
	for !answer() {
		select {
		case <-pace.C:
		case <-limit.C:
			t.Fatal("not within a minute: " + what)
		}
	}
}
