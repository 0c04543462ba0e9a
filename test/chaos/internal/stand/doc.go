// Package stand is a whole Queen for a run of the campaign: PostgreSQL and two ingests, two delivers, a maintainer, a
// console and the edge as processes, with a pipe in every connection between them and to the clients. It starts and ends them
// and gives the faults their handles; what is done with these is not decided here.
//
// # Concurrency
//
// The pipes and processes are fixed after Start. The lives of processes, which tell a process from its successor at the
// same address, are guarded by a mutex. Everything may be called from any goroutine.
package stand
