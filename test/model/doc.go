// Package model runs generated histories of calls against a running cell and against a plain model of Queen in memory, one
// call at a time, and compares every answer and every cursor. The model says in a few hundred lines of Go what the contract
// says in words: dedup, cursors, leases, retry budgets, delivery limits, subscriptions, dead letters,
// transactions, seeks, deletions, pauses. What it knows nothing of
// is how any of it is done: services, caches, segments, hints, SQL.
//
// Where the contract leaves a choice, the model follows the service and checks that what it chose is allowed: which partitions a
// pop of a queue takes, and in which order; which partitions with an exhausted head it came across; ids and leases.
//
// A history has queues of its own, so that all share one stack; each call goes to any address of the role. Time passes only
// where a step says so: a lease expires because the test moves its end into the past. A difference fails the history, which
// rapid then shrinks: what is printed last is a short one, step by step. `-rapid.checks` is how many histories there are
// of each kind, `-rapid.steps` how long they are on average, `-rapid.seed` which they are.
//
// Concurrency is the business of package history.
package model
