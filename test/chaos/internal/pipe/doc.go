// Package pipe stands between two processes on the loopback address and does to their TCP connections what networks do: it
// cuts them, keeps what was sent from arriving, in one direction or both, and slows them down. It carries any protocol; of
// PostgreSQL's it knows where an answer ends, so that it can lose exactly the answer to a commit.
//
// It runs in a program without a testing package around it; for traps that wait for one statement there is
// pkg/testkit.
//
// # Concurrency
//
// A Pipe has one goroutine that accepts, or tries whether it may listen again, and for each connection two, one a direction. Each waits for its socket, for the
// state of the pipe to change, or for a delay; all three end when the connection is cut, which Close does to all before it
// waits for the goroutines. The mutex guards the state and is never held over I/O. All methods may be called from any
// goroutine.
package pipe
