// Package cell gives tests a running Queen: the real binaries, built once for a test program and started by the same
// runner as `make up`, on a real PostgreSQL, and short ways to speak to them over HTTP. It judges nothing about the
// product except where a helper says that it fails the test.
//
// # Concurrency
//
// A World starts a shared stack under its mutex, so the first test that asks for one builds it and the others wait. A
// Cell never changes after that. Stacks of a single test end in its cleanup, shared ones in Main, after the tests.
package cell
