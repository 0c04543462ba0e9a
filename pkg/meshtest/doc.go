// Package meshtest gives tests what is between the processes of a mesh: a NATS server of its own that can end and come
// back, and a relay on the way to a node that can part those on both sides, or let nothing through while all connections
// stay open. It judges nothing.
//
// # Concurrency
//
// A Relay has one goroutine that accepts and two for each connection, one a direction; all end at the latest with the
// test, which waits for them. Its mutex is never held over I/O, except for closing. A NATS has whatever the server starts,
// and End waits for it. The methods of a Relay may be called from any
// goroutine, those of a NATS from one.
package meshtest
