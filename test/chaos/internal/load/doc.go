// Package load is what the clients of a run do. A workload has a queue of its own, its groups and its kinds of clients; it
// is a row of the registry and a file. Every call is written to the journal and noted for the judgement, every delivered
// payload is compared with what was pushed.
//
// Clients make their choices by random numbers of their own that follow from the seed, so a seed repeats the choices; what
// the choices meet depends on the machine.
//
// # Concurrency
//
// A Queue starts its clients as goroutines and Run returns when all of them have ended their last call. What they share
// is the recorder and the journal, which have locks of their own, and what is guarded by the mutex of the Queue.
package load
