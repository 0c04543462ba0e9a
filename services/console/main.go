// Command console shows people what a cell does. It reads, and never writes a queue.
package main

import "queen.internal/pkg/daemon"

// version is stamped by the build; empty means to ask the toolchain's record.
var version string

func main() {
	daemon.Main("console", version, run)
}
