// Command deliver hands messages to consumer groups: pops under leases, acks, renewals. It keeps nothing of its own; any
// number of them work on one database.
package main

import "queen.internal/pkg/daemon"

// version is stamped by the build.
var version string

func main() {
	daemon.Main("deliver", version, run)
}
