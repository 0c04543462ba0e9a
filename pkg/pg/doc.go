// Package pg opens connections to PostgreSQL the way every service needs them, and says what an error of one means. It
// knows no table and no procedure: those belong to pkg/schema and pkg/store.
//
// # Connections
//
// Open is lazy: the database may be down, and each use then fails at once with a reason. A connection is accepted only
// when the server is new enough, takes writes and is not on an older timeline than one seen before. Session settings
// are sent after the connection is made, not as start-up parameters, because a pooler in session mode refuses unknown
// start-up parameters.
//
// # Concurrency
//
// The package starts no goroutine of its own. The pool's health check belongs to the driver and ends in Pool.Close,
// which waits for it and for every borrowed connection. State shared between the connections of one pool is in
// generation, an atomic; what the pools of a process share in Lineage, behind one mutex that is never held over I/O. Every call that may block takes a context; what
// bounds it besides is the connect timeout, the statement deadline and the kernel's TCP user timeout. After a deadline
// the driver asks the server to cancel on a fresh connection and closes the old one, which is never used again.
package pg
