// Package daemon is a process's life: arguments, the first and the second signal, the order in which its parts start
// and stop, and the exit code. It knows nothing of what the parts do.
//
// # Goroutines
//
// Main runs the service on its own goroutine and one more that waits for signals; the latter ends before Main decides
// the exit code. The first SIGINT or SIGTERM ends the context that run got, with a cause that names the signal; the
// second ends the process at once.
//
// With QUEEN_PPROF_ADDR set, one more goroutine answers for profiles; Main waits for its end when the service has ended.
//
// Group owns one goroutine for each component's Run. A component starts when every earlier one has started, and is
// told to stop when every later one has ended; a component may therefore use the earlier ones until the end of its Run.
// Each Run has a context of its own that ends only when it is that component's turn, so a signal does not cancel the
// work of all parts at once. Whatever happens, Group.Run returns only when all Runs have returned, or StopTimeout is
// over; then it names those that still run, and the process should exit.
//
// A panic in a component, after one ERROR line, ends the process: a service that has lost a part must not go on.
package daemon
