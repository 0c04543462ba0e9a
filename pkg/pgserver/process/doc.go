// Package process knows two things about operating-system processes that the standard library leaves out: whether a
// process id that was written down earlier still belongs to the same program, and how to make child processes end when
// the program that started them is killed. The private PostgreSQL and the native runner stand on it; services do not
// use it.
//
// Concurrency: a Lifeline owns one helper process and no goroutine. Its methods may be called from any goroutine; a
// mutex keeps the lines of its pipe whole. Writing to that pipe can block only when the helper is stopped, never on
// disk or network. Close waits for the helper, which ends as soon as it has read the last line.
package process
