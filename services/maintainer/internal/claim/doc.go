// Package claim takes part in the work of tasks: what has to be done from time to time by one process of a cell, whichever.
// It knows when to ask, and what to do with the answer; what the work is, its callers say.
//
// # States of a task
//
//	due --(claim)--> held --(finish)--> not due before the next period
//	 ^                 |
//	 |                 +--(give up: the work failed, or the process stops)--> due again, after a while or at once
//	 +--(the lease ran out: the holder is dead, or sleeps)
//
// # Who is authoritative
//
// The row of the task in PostgreSQL, by the clock of PostgreSQL. A process believes nothing about whether it holds a task:
// it learns it when it changes something. Every statement that changes anything for a task is a transaction that first
// locks the row and compares the fence, a number that each claim counts up. So
//
//   - of several processes that ask at once one is given the task, whatever they call themselves;
//   - a holder that was stopped for a minute, and replaced, changes nothing after it goes on: its next statement is told so
//     and it drops the work. What it had done before the other's claim is committed, or never happens: a claim waits for no
//     step, it passes by while one is under way;
//   - a holder whose lease ran out without that anybody came may go on;
//   - a holder that died, or whose connection is lost, holds nothing: no lock outlives a statement. Its lease is waited for.
//
// A period is worked to its end once. Its work may have been begun before, by a holder that did not come to the end, so
// work must stand to be done again; a step that was lost half way is undone by PostgreSQL.
//
// # Concurrency
//
// Run has one goroutine per task and returns when all have ended. They share nothing but the store and the counters. A Lease
// belongs to the goroutine that works; it may be used by one goroutine at a time.
package claim
