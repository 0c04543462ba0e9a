// Command ingest takes pushes and commits them to PostgreSQL.
package main

import "queen.internal/pkg/daemon"

// version is stamped by the build; empty means to ask the toolchain's record.
var version string

func main() {
	daemon.Main("ingest", version, run)
}
