// Package campaign is one run: a stand is started, workloads and faults run for a while, everything is healed, the queues
// are read to their ends, and what was seen is judged.
//
// The verdict is VALID when nothing is wrong and the run has shown something, INVALID when something is wrong, and UNKNOWN
// when it has shown too little: a fault that met no work, fewer operations than the floor, or a stand that could not be
// run.
//
// # Concurrency
//
// Run starts the workloads, the faults and the watch, and waits for them in this order: the faults end first, so that the
// load goes on over the last healing; then the load, then the watch.
package campaign
