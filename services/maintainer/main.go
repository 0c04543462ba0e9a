// Command maintainer keeps a cell tidy: what has to be done from time to time, whoever is up.
package main

import "queen.internal/pkg/daemon"

// version is stamped by the build; empty means to ask the toolchain's record.
var version string

func main() {
	daemon.Main("maintainer", version, run, daemon.Flag{Name: flagOnce, Usage: "work every task that is due, then exit"})
}
