// Package forward sends a request to one process of a role and brings the answer back. It decides which process; which
// role a path belongs to is decided by its caller, and who may call is decided before that.
//
// It speaks HTTP/1.1 over connections of its own instead of net/http's transport, for three reasons. The transport
// repeats a bodyless request, or one with an idempotency header, on a second connection when a kept one dies under it; a
// pop sent twice leases twice. It does not tell whether any byte left before an error, and that decides whether another
// process may be tried. And it spends two goroutines on each request, of which a gateway has thousands parked. Framing is
// still net/http's: requests arrive through its server, answers are read by http.ReadResponse.
//
// # What is sent again
//
// A request goes to another address while the operating system has taken no byte of it: no connection, or a connection
// that refused the first write. After that only a repeatable request (Target.Repeatable) is sent a second time; everything
// else ends with LostError, because the process may have done what it was asked.
//
// # Which address
//
// Every address that the configured names resolve to counts. Ready ones come first, then those that answer but are not
// ready (a draining process, a database that is down: it explains itself better than we could), then those that do not
// answer, as a last resort. Among equals the fewest requests in flight wins, in rotation. A sticky request stays where
// the first one of its client connection went (Pin) for as long as that address is among the best.
//
// # Concurrency
//
// Serve runs in the caller's goroutine and starts one more only for a body longer than aheadBytes, which it waits for
// before it returns. A parked poll is therefore one goroutine and one socket, and nothing else. Each Upstream has a Run
// with one loop, which starts the probes of one round and waits for them when it ends; Returns.Run is one loop that posts
// given back leases. Those three are components: whoever builds a Forwarder runs Forwarder.Run and waits for it.
//
// What may block: resolving, connecting, writing to and reading from a process, reading from and writing to the client.
// All of it ends when the client goes (its context interrupts the connection), when the address is found dead (its
// requests are interrupted), or, for pops, when the gateway drains. There is no deadline on an answer: a poll may wait
// as long as its caller and deliver agree. An address's mutex guards its pool and the set of its running requests; under
// it only calls that do not wait are made (close, shutdown of one direction, setting a deadline).
//
// An interrupted pop is hung up rather than cut: the sending direction is closed, which deliver sees as a client that
// left, and the answer is awaited for a moment. If it carries messages nevertheless, they go to the client if it is still
// there (drain) or back to the queue (Returns) if it is not.
package forward
