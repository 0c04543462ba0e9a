// Command gateway is the front door of a cell: one address in front of all its services.
package main

import "queen.internal/pkg/daemon"

// version is stamped by the build; empty means to ask the toolchain's record.
var version string

func main() {
	daemon.Main("gateway", version, run)
}
