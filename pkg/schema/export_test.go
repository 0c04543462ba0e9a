package schema

import (
	"time"

	"queen.internal/pkg/backoff"
)

// LockKey is the installers' advisory lock.
const LockKey = lockKey

// Hurry makes installers give way quickly and give up early. Call it before any test runs.
func Hurry() {
	pacing.lockTimeout, pacing.tries = 50*time.Millisecond, 5
	pacing.pause = backoff.Policy{Min: time.Millisecond, Max: 10 * time.Millisecond}
	pacing.poll = pacing.pause
	refusedPause, waitPause = pacing.pause, pacing.pause
}
