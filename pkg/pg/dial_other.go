//go:build !linux

package pg

import (
	"syscall"
	"time"
)

// setUserTimeout does nothing where the kernel has no such option; keepalive and the statement deadline remain.
func setUserTimeout(syscall.RawConn, time.Duration) error { return nil }
