package main

import (
	"context"

	"queen.internal/compose/local"
	"queen.internal/test/load/internal/payload"
)

const defaultRandom = payload.DefaultRandomShare

// row is one line of the table, or a few that are measured together.
type row struct {
	name  string
	what  string
	stack local.Options // beyond the usual
	run   func(context.Context, *bench) ([]Result, error)
}

// table is every row, in the order of the document.
func table() []row {
	return []row{
		{"push-100", "push, batch 100, 16 connections", local.Options{}, pushHundred},
		{"push-1", "push, batch 1, 64 and 256 connections", local.Options{}, pushOne},
		{"pop-100", "pop and ack, batch 100, 16 consumers, cold and warm", local.Options{}, popHundred},
		{"pop-1", "pop and ack, batch 1, 64 consumers", local.Options{}, popOne},
		{"carried", "what a pop would save if hints carried the messages, batch 1", local.Options{}, carried},
		{"both-100", "push, pop and ack at once, batch 100", local.Options{}, both},
		{"latency", "push to delivered, 200 a second", local.Options{}, latency},
		{"latency-64", "the same with 4 consumers on 64 partitions", local.Options{}, latencyMany},
		{"edge", "through the edge, batch 100 and batch 1", local.Options{}, throughEdge},
		{"backlog", "pops with a large backlog behind them", local.Options{}, deepBacklog},
		{"polls", "parked long polls, at deliver and through the edge", local.Options{}, polls},
		{"memory", "memory of each service, idle and loaded", local.Options{}, memory},
		{"two-two", "two ingest and two deliver instead of one and one", local.Options{Ingest: 2, Deliver: 2}, twoAndTwo},
		{"cold-start", "exec to /readyz", local.Options{}, coldStart},
		{"mesh", "what a hint adds", local.Options{}, hints},
		{"idle", "what an idle stack asks of PostgreSQL", local.Options{}, idle},
		{"rings", "deliver's memory with very many partitions", local.Options{}, rings},
	}
}

func find(name string) (row, bool) {
	for _, r := range table() {
		if r.name == name {
			return r, true
		}
	}
	return row{}, false
}
