// Package testkit forces what tests cannot wait for: answers of the database that get lost on the way, a network that
// hangs, calls that meet in exactly one order, and a clock that steps. It knows no table and decides nothing; what is
// right in these situations is said by the tests that use it. Beside that it signs the tokens that tests show to services.
//
// # The proxy
//
// A Proxy stands between clients and a PostgreSQL server on the loopback address. It reads the messages of both
// directions, so that it knows which SQL text a statement has (also one that was prepared long ago) and where the answer
// to it ends. What a client sends until it waits for an answer, an exchange, is forwarded whole or not at all; a Trap
// takes one exchange out and cuts, holds or delays it. A client that hangs up does not take back what it has sent: the
// server gets it, also when that was held, as from a kernel that still has it to send.
//
// TLS is declined on the client's behalf, since nothing could be read then. COPY passes through, but its statements are
// not recognised.
//
// # Concurrency
//
// A Proxy has one goroutine that accepts, and two for each connection, one a direction. Each waits for its socket, for
// the gate that Stall closes, or for a Trap's Release; all three end when the connection is cut, which Close does to all
// before it waits for the goroutines. The mutex of a Proxy is never held over I/O. All methods may be called from any
// goroutine.
package testkit
