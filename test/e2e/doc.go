// Package e2e tests the whole of Queen: the real binaries, started by the same runner as `make up`, on a real
// PostgreSQL, spoken to over HTTP. Most tests share one stack of two ingests and two delivers and keep apart by their
// queues; tests that kill, stop or misconfigure something start their own.
package e2e
